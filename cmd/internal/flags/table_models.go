package flags

// Models is which models are served, and by which names.
type Models struct{}

// modelTable defines the flags of [Models], and that of a fleet that comes and goes.
func modelTable() []Def {
	return []Def{
		{
			Name: "enable-igw", Kind: Bool, Group: groupPolicy, In: gateway,
			Help: "Workers come and go while the gateway runs: start with fewer than the policy needs.",
			set:  setBool(func(s *Serve) *bool { return &s.EnableIGW }),
		},
	}
}
