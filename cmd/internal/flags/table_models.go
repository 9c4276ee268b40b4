package flags

import "time"

// Models is which models are served, and by which names, and how their workers leave.
type Models struct {
	// DrainSettle is how long a worker that is removed has for its requests before it
	// leaves, 0 is not at all. RemoveUnhealthy has one removed that stays unhealthy.
	DrainSettle     time.Duration
	RemoveUnhealthy bool
}

// modelTable defines the flags of [Models], and that of a fleet that comes and goes.
func modelTable() []Def {
	return []Def{
		{
			Name: "enable-igw", Kind: Bool, Group: groupPolicy, In: serving,
			Help: "Serve each model as its workers can, regular or prefill and decode; workers come and go, and fewer than the policy needs are enough to start.",
			set:  setBool(func(s *Serve) *bool { return &s.EnableIGW }),
		},
		{
			Name: "drain-settle-secs", Kind: Scalar, Value: "SECS", Default: "5", Group: groupWorkers, In: serving,
			Help: "How long a worker that is removed is kept, without new requests, for those that it has; 0 removes it at once.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Models.DrainSettle }, 0),
		},
		{
			Name: "remove-unhealthy-workers", Aliases: []string{"worker-auto-recovery"}, Kind: Bool, Group: groupHealth, In: serving,
			Help: "Remove a worker whose probes go on to fail; POST /workers adds it again.",
			set:  setBool(func(s *Serve) *bool { return &s.Models.RemoveUnhealthy }),
		},
	}
}
