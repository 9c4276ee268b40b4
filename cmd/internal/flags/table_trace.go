package flags

// Trace is what an operator sees of requests and of the process: traces, access lines,
// profiles, probes.
type Trace struct {
	// HealthPort is where probes are answered besides the API, if HealthPortSet.
	HealthPort    int
	HealthPortSet bool
	// Enabled has spans of requests sent to OTLPEndpoint, a host and its port.
	Enabled      bool
	OTLPEndpoint string
	// LogDir is a folder for log files of each day, "" for none.
	LogDir string
	// LogRequests has the lines of requests logged at info.
	LogRequests bool
	// DurationBuckets are upper bounds in seconds; nil is those that are built in.
	DurationBuckets []float64
	// PprofAddr is where profiles can be fetched, "" for nowhere.
	PprofAddr string
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
		{
			Name: "log-requests", Kind: Bool, Group: groupLogs, In: serving,
			Help: "Log when each request comes and when it ends at info, warn and error, and not at debug.",
			set:  setBool(func(s *Serve) *bool { return &s.Trace.LogRequests }),
		},
		{
			Name: "log-dir", Kind: Scalar, Value: "DIR", Group: groupLogs, In: everyProcess,
			Help: "Folder where the log is also written, to a file smg.YYYY-MM-DD of each day (UTC).",
			set:  setPath(func(s *Serve) *string { return &s.Trace.LogDir }),
		},
		{
			Name: "prometheus-duration-buckets", Kind: List, Value: "SECS...", Group: groupMetrics, In: serving,
			Help:  "Upper bounds of the buckets of all durations, ascending, instead of 0.001 to 7200.",
			set:   addSeconds(func(s *Serve) *[]float64 { return &s.Trace.DurationBuckets }),
			clear: func(s *Serve) { s.Trace.DurationBuckets = nil },
		},
		{
			Name: "pprof-addr", Kind: Scalar, Value: "HOST:PORT", Group: groupMetrics, In: everyProcess,
			Help: "Address where profiles of the process can be fetched, under /debug/pprof/; nobody is asked who he is.",
			set:  setHostPort(func(s *Serve) *string { return &s.Trace.PprofAddr }),
		},
		{
			Name: "enable-trace", Kind: Bool, Group: groupMetrics, In: serving,
			Help: "Send OpenTelemetry traces of requests.",
			set:  setBool(func(s *Serve) *bool { return &s.Trace.Enabled }),
		},
		{
			Name: "otlp-traces-endpoint", Kind: Scalar, Value: "HOST:PORT", Default: "localhost:4317", Group: groupMetrics, In: serving,
			Help: "Collector of traces, which speaks OTLP over gRPC without TLS.",
			set:  setText(func(s *Serve) *string { return &s.Trace.OTLPEndpoint }),
		},
	}
}
