package flags

import (
	"math"
	"time"

	"smg/policy"
)

// Groups of flags, as help names them.
const (
	groupAddress   = "address"
	groupWorkers   = "workers"
	groupPolicy    = "policy"
	groupLegs      = "legs"
	groupLoads     = "loads"
	groupRetries   = "retries"
	groupHealth    = "health"
	groupRequests  = "requests"
	groupSecurity  = "security"
	groupLogs      = "logs"
	groupMetrics   = "metrics"
	groupBus       = "bus"
	groupRecording = "recording"
	groupReplay    = "replay"
	groupEngines   = "engines"
)

// launchTable defines the flags of the gateway.
func launchTable() []Def {
	return []Def{
		{
			Name: "host", Kind: Scalar, Value: "HOST", Default: "0.0.0.0", Group: groupAddress, In: InLaunch | InIngress, Everyday: true,
			Help: "Address that the API listens on.",
			set:  setText(func(s *Serve) *string { return &s.Host }),
		},
		{
			Name: "port", Kind: Scalar, Value: "PORT", Default: "30000", Group: groupAddress, In: InLaunch | InIngress, Everyday: true,
			Help: "Port of the API.",
			set:  setNumber(func(s *Serve) *int { return &s.Port }, 0, maxPort),
		},
		{
			Name: "worker-urls", Kind: List, Value: "URL...", Group: groupWorkers, In: InLaunch | InIngress, Everyday: true,
			Help: "Engines to route to, such as http://w1:8000 http://w2:8000.",
			set: func(s *Serve, v string) error {
				s.WorkerURLs = append(s.WorkerURLs, v)
				return nil
			},
			clear: func(s *Serve) { s.WorkerURLs = nil },
		},
		{
			Name: "worker-startup-timeout-secs", Kind: Scalar, Value: "SECS", Default: "1800", Group: groupWorkers, In: serving,
			Help: "How long a worker that does not answer yet is waited for.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.WorkerStartupTimeout }, 0),
		},
		{
			Name: "worker-startup-delay", Kind: Scalar, Value: "SECS", Default: "0", Group: groupWorkers, In: serving,
			Help: "Wait before a worker is probed for the first time.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.WorkerStartupDelay }, 0),
		},
		{
			Name: "worker-startup-check-interval", Kind: Scalar, Value: "SECS", Default: "30", Group: groupWorkers, In: serving,
			Help: "Pause between two probes of a worker that does not answer yet.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.WorkerStartupCheckInterval }, 0),
		},
		{
			Name: "upstream-pool-idle-timeout-secs", Kind: Scalar, Value: "SECS", Default: "3", Group: groupWorkers, In: serving,
			Help: "How long an unused connection to a worker is kept, 0 for ever; stay below the engine's own limit.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.UpstreamPoolIdleTimeout }, 0),
		},
		{
			Name: "policy", Kind: Scalar, Value: "POLICY", Default: policy.CacheAware, Group: groupPolicy, In: choosing, Everyday: true,
			Help: "How a worker is chosen for a request (--help=policy lists them).",
			set:  setEnum(func(s *Serve) *string { return &s.Policy }, "policy", policy.Names()),
		},
		{
			Name: "health-check-interval-secs", Kind: Scalar, Value: "SECS", Default: "60", Group: groupHealth, In: everyProcess,
			Help: "Pause between two probes of a worker.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.HealthCheckInterval }, 0),
		},
		{
			Name: "health-check-timeout-secs", Kind: Scalar, Value: "SECS", Default: "5", Group: groupHealth, In: everyProcess,
			Help: "Limit of one probe.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.HealthCheckTimeout }, 0),
		},
		{
			Name: "health-failure-threshold", Kind: Scalar, Value: "N", Default: "3", Group: groupHealth, In: choosing,
			Help: "Failed probes in a row that make a worker unhealthy.",
			set:  setNumber(func(s *Serve) *int { return &s.HealthFailureThreshold }, 0, math.MaxInt32),
		},
		{
			Name: "health-success-threshold", Kind: Scalar, Value: "N", Default: "2", Group: groupHealth, In: choosing,
			Help: "Good probes in a row that make it healthy again.",
			set:  setNumber(func(s *Serve) *int { return &s.HealthSuccessThreshold }, 0, math.MaxInt32),
		},
		{
			Name: "health-check-endpoint", Kind: Scalar, Value: "PATH", Default: "/health", Group: groupHealth, In: everyProcess,
			Help: "Path that is probed.",
			set:  setText(func(s *Serve) *string { return &s.HealthCheckEndpoint }),
		},
		{
			Name: "disable-health-check", Kind: Bool, Group: groupHealth, In: everyProcess,
			Help: "Probe nobody: every worker counts as healthy.",
			set:  setBool(func(s *Serve) *bool { return &s.DisableHealthCheck }),
		},
		{
			Name: "request-timeout-secs", Kind: Scalar, Value: "SECS", Default: "1800", Group: groupRequests, In: serving, Everyday: true,
			Help: "Limit of a whole request, its stream included.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.RequestTimeout }, 0),
		},
		{
			Name: "shutdown-grace-period-secs", Kind: Scalar, Value: "SECS", Default: "180", Group: groupRequests, In: serving, Everyday: true,
			Help: "What running requests get after a stop signal.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.ShutdownGracePeriod }, 0),
		},
		{
			Name: "max-payload-size", Kind: Scalar, Value: "BYTES", Default: "536870912", Group: groupRequests, In: serving,
			Help: "Largest request body.",
			set:  setNumber(func(s *Serve) *int64 { return &s.MaxPayloadSize }, 0, math.MaxInt64),
		},
		{
			Name: "max-buffered-bytes-total", Kind: Scalar, Value: "BYTES", Default: "1073741824", Group: groupRequests, In: serving,
			Help: "What all buffered request bodies may take together.",
			set:  setNumber(func(s *Serve) *int64 { return &s.MaxBufferedBytesTotal }, 0, math.MaxInt64),
		},
		{
			Name: "max-header-bytes", Kind: Scalar, Value: "BYTES", Default: "65536", Group: groupRequests, In: serving,
			Help: "Largest request head.",
			set:  setNumber(func(s *Serve) *int { return &s.MaxHeaderBytes }, 0, math.MaxInt32),
		},
		{
			Name: "read-header-timeout-secs", Kind: Scalar, Value: "SECS", Default: "10", Group: groupRequests, In: serving,
			Help: "How long a client may take to send a request's head.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.ReadHeaderTimeout }, 0),
		},
		{
			Name: "max-json-depth", Kind: Scalar, Value: "N", Default: "512", Group: groupRequests, In: serving,
			Help: "Deepest nesting of a JSON body.",
			set:  setNumber(func(s *Serve) *int { return &s.MaxJSONDepth }, 0, math.MaxInt32),
		},
		{
			Name: "log-level", Kind: Scalar, Value: "LEVEL", Default: "info", Env: []string{"SMG_LOG_LEVEL"}, Group: groupLogs, In: everyProcess, Everyday: true,
			Help: "Least level that is logged: debug, info, warn or error.",
			set:  setLevel,
		},
		{
			Name: "log-json", Kind: Bool, Group: groupLogs, In: everyProcess,
			Help: "Log one JSON object a line.",
			set:  setBool(func(s *Serve) *bool { return &s.LogJSON }),
		},
		{
			Name: "no-color", Kind: Bool, Presence: []string{"NO_COLOR"}, Group: groupLogs, In: everyProcess,
			Help: "No colours and no status lines on a terminal either.",
			set:  setBool(func(s *Serve) *bool { return &s.NoColor }),
		},
		{
			Name: "prometheus-host", Kind: Scalar, Value: "HOST", Default: "0.0.0.0", Group: groupMetrics, In: everyProcess,
			Help: "Address that the metrics listen on.",
			set:  setText(func(s *Serve) *string { return &s.PrometheusHost }),
		},
		{
			Name: "prometheus-port", Kind: Scalar, Value: "PORT", Default: "29000", Group: groupMetrics, In: everyProcess, Everyday: true,
			Help: "Port of the metrics, 0 takes a free one and logs it.",
			set:  setNumber(func(s *Serve) *int { return &s.PrometheusPort }, 0, maxPort),
		},
		{
			Name: "cluster", Kind: Scalar, Value: "NAME", Default: "default", Env: []string{"SMG_CLUSTER"}, Group: groupBus, In: everyProcess,
			Help: "Name that keeps the messages of several gateways apart.",
			set:  setText(func(s *Serve) *string { return &s.Cluster }),
		},
	}
}

const maxPort = 65535
