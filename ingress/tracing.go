package ingress

// TraceConfig is what is traced.
type TraceConfig struct{}

// DefaultTrace is that of a gateway that was given no flags.
func DefaultTrace() TraceConfig { return TraceConfig{} }

// Validate reports every value out of range, each by its flag.
func (TraceConfig) Validate() error { return nil }
