package flags

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"smg/launcher"
	"smg/policy"
)

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Table() {
		if (d.set == nil) != (d.Later || d.Observed) || d.Help == "" || !strings.HasSuffix(d.Help, ".") || d.Group == "" || d.In == 0 {
			t.Errorf("--%s is incomplete", d.Name)
		}
		if (d.Kind == Bool) != (d.Value == "") {
			t.Errorf("--%s: kind and placeholder differ", d.Name)
		}
		if several := d.Kind != Bool && d.Kind != Scalar; d.set != nil && several != (d.clear != nil) {
			t.Errorf("--%s: flags with several values need clear, others do not", d.Name)
		}
		if d.Dashed && d.Kind != Scalar {
			t.Errorf("--%s: only a scalar takes what begins with a dash", d.Name)
		}
	}
	for _, command := range []string{nameLaunch, nameServe, nameIngress, nameSelector, nameReplay} {
		for _, e := range newSet(command, Table()).entries {
			for _, n := range e.names() {
				if seen[command+n] {
					t.Errorf("%s has --%s twice", command, n)
				}
				seen[command+n] = true
			}
		}
	}
}

func TestPolicyNotes(t *testing.T) {
	for _, name := range policy.Names() {
		if noteOf(name) == "" {
			t.Errorf("policy %s has no line for help", name)
		}
	}
}

func TestDefaults(t *testing.T) {
	want := Launch{
		Host: "0.0.0.0", Port: 30000, WorkerStartupTimeout: 1800 * time.Second, WorkerStartupCheckInterval: 30 * time.Second,
		UpstreamPoolIdleTimeout: 3 * time.Second, Policy: "cache_aware", RoutingKeyHeaders: []string{"x-smg-routing-key"},
		PrefillPolicy: "cache_aware", DecodePolicy: "cache_aware", EncodePolicy: "consistent_hashing",
		Policies: policy.Config{
			Sticky:     policy.StickyConfig{Assignment: "delegate"},
			LeastLoad:  policy.LeastLoadConfig{KVPressureWeight: 0.15, DefaultThroughput: 2000, MeanTokens: 1024},
			PowerOfTwo: policy.PowerOfTwoConfig{Metric: "expected_wait"},
			CacheAware: policy.CacheAwareConfig{
				Balance: policy.Balance{Abs: 64, Rel: 1.5}, Threshold: 0.3, EvictionInterval: 120 * time.Second, MaxTreeSize: 67108864,
				BlockSize: 16, UsageSpread: 1, UsageCeiling: 1, Index: "tree", TTL: 180 * time.Second,
			},
			PrefixHash: policy.PrefixHashConfig{TokenCount: 256, LoadFactor: 1.25, BalanceAbs: 10},
			Bucket:     policy.BucketConfig{Balance: policy.Balance{Abs: 64, Rel: 1.5}, Interval: 5 * time.Second},
			Pins:       policy.PinConfig{Assignment: "random", MaxIdle: 14400 * time.Second, EvictionInterval: 120 * time.Second},
		},
		LoadMonitorInterval: 10 * time.Second,
		Trace:               Trace{OTLPEndpoint: "localhost:4317"},
		Sharing:             Sharing{EncodeFallback: "none", Answers: "list", AdmissionWait: 30 * time.Second},
		Retry:               Retry{Max: 5, Initial: 50 * time.Millisecond, MaxBackoff: 30 * time.Second, Multiplier: 1.5, Jitter: 0.2},
		Breaker:             Breaker{FailureThreshold: 10, SuccessThreshold: 3, Timeout: time.Minute, Window: 2 * time.Minute},
		Requests:            Requests{MaxBuffered: 1048576, BodyStall: 5 * time.Minute},
		Admission:           Admission{MaxConcurrent: -1, QueueSize: 100, QueueTimeout: time.Minute},
		Models:              Models{DrainSettle: 5 * time.Second, Backend: "auto"},
		HealthCheckInterval: time.Minute, HealthCheckTimeout: 5 * time.Second, HealthFailureThreshold: 3, HealthSuccessThreshold: 2,
		HealthCheckEndpoint: "/health", RequestTimeout: 1800 * time.Second, ShutdownGracePeriod: 180 * time.Second,
		MaxPayloadSize: 536870912, MaxBufferedBytesTotal: 1073741824, MaxHeaderBytes: 65536, ReadHeaderTimeout: 10 * time.Second,
		MaxJSONDepth: 512, PrometheusHost: "0.0.0.0", PrometheusPort: 29000, Cluster: "default", PlanTimeout: 200 * time.Millisecond,
	}
	got := DefaultLaunch()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&want, must(t, nil, "launch").Launch); diff != "" {
		t.Error(diff)
	}

	serve := DefaultServe()
	want.Host, want.Port = "127.0.0.1", 8080
	engines := launcher.DefaultConfig() // the flags say the same as the package
	engines.Backend = "sglang"
	wantServe := Serve{Launch: want, ConnectionMode: "http", Engines: engines}
	if diff := cmp.Diff(wantServe, serve, cmpopts.IgnoreFields(launcher.Config{}, "Environ")); diff != "" {
		t.Error(diff)
	}
}

func TestServeConfig(t *testing.T) {
	cmd := must(t, nil, "serve", "--backend", "llamacpp", "--model-path", "m.gguf", "--dp-size=3", "--worker-host", "127.0.0.2",
		"--worker-base-port", "40000", "--worker-startup-timeout", "7", "--engine-bin", "/opt/llama", "--engine-log", "file",
		"--router-log-json", "--router-prometheus-port", "0", "--port", "9000", "--router-request-timeout-secs", "9")
	s := cmd.Serve
	want := launcher.DefaultConfig()
	want.Backend, want.Model, want.Replicas, want.Host = "llamacpp", "m.gguf", 3, "127.0.0.2"
	want.BasePort, want.StartupTimeout, want.EngineBin, want.Log = 40000, 7*time.Second, "/opt/llama", launcher.LogFile
	want.ReservedPorts, want.JSON = []int{9000}, true
	if diff := cmp.Diff(want, s.Engines); diff != "" {
		t.Error(diff)
	}
	if err := s.Engines.Validate(); err != nil {
		t.Errorf("what serve accepts the launcher must accept: %v", err)
	}
	if cmd.Launch != &s.Launch || s.RequestTimeout != 9*time.Second || s.PolicyLine() != "cache_aware" {
		t.Errorf("gateway part %+v", s.Launch)
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"worker-urls", "policy", "port", "host", "worker-startup-timeout-secs", "worker-startup-delay", "worker-startup-check-interval"}
	tests := []struct {
		name string
		want []string
	}{
		{"polcy", []string{"policy"}},
		{"ports", []string{"port"}},
		{"urls-worker", []string{"worker-urls"}},
		{"worker-startup", []string{"worker-startup-delay", "worker-startup-timeout-secs", "worker-startup-check-interval"}},
		{"zzzzzz", nil},
		{"", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, suggest(tt.name, known)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
