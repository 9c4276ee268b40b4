package flags

// Trace is what an operator sees of requests and of the process: traces, access lines,
// profiles, probes.
type Trace struct{}

// traceTable defines the flags of [Trace].
func traceTable() []Def { return nil }
