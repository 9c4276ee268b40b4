package flags

// Trace is what an operator sees of requests and of the process: traces, access lines,
// profiles, probes.
type Trace struct {
	// HealthPort is where probes are answered besides the API, if HealthPortSet.
	HealthPort    int
	HealthPortSet bool
}

// traceTable defines the flags of [Trace].
func traceTable() []Def {
	return []Def{
		{
			Name: "health-check-port", Kind: Scalar, Value: "PORT", Group: groupAddress, In: serving,
			Help: "Port where /health, /liveness and /readiness are answered, whatever the load of the API.",
			set: func(s *Serve, v string) error {
				s.Trace.HealthPortSet = true
				return setNumber(func(s *Serve) *int { return &s.Trace.HealthPort }, 0, maxPort)(s, v)
			},
		},
	}
}
