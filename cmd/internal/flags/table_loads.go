package flags

import (
	"math"
	"time"
)

// loadTable defines the flags of load reports and of overload protection.
func loadTable() []Def {
	return []Def{
		{
			Name: "load-monitor-interval", Kind: Scalar, Value: "SECS", Default: "10", Group: groupLoads, In: everyProcess | InReplay,
			Help: "Pause between two questions for a worker's load.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.LoadMonitorInterval }, 0),
		},
		{
			Name: "disable-load-monitoring", Kind: Bool, Group: groupLoads, In: choosing,
			Help: "Ask for loads only where a policy, overload protection or --engine-metrics needs them.",
			set:  setBool(func(s *Serve) *bool { return &s.DisableLoadMonitoring }),
		},
		{
			Name: "engine-metrics", Kind: Bool, Group: groupLoads, In: choosing,
			Help: "Ask for loads in any case, for the smg_engine_ metrics.",
			set:  setBool(func(s *Serve) *bool { return &s.EngineMetrics }),
		},
		{
			Name: "worker-overload-protection", Kind: Bool, Group: groupLoads, In: choosing,
			Help: "Send nothing to workers that report too much load: 0.9 of the KV cache in use, if no other limit is given for it.",
			set:  setBool(func(s *Serve) *bool { return &s.OverloadProtection }),
		},
		{
			Name: "worker-overload-waiting-requests", Kind: Scalar, Value: "N", Group: groupLoads, In: choosing,
			Help: "Send nothing to workers with so many waiting requests, or more.",
			set:  setNumber(func(s *Serve) *int { return &s.OverloadWaiting }, 1, math.MaxInt32),
		},
		{
			Name: "worker-overload-token-usage", Kind: Scalar, Value: "SHARE", Group: groupLoads, In: choosing,
			Help: "Send nothing to workers that use this share of their KV cache, or more.",
			set:  setUsage(func(s *Serve) *float64 { return &s.OverloadTokenUsage }),
		},
	}
}
