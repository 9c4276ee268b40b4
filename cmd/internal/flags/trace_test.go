package flags

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTraceFlags holds what is taken and what is refused of the flags of table_trace.go,
// and of request ids.
func TestTraceFlags(t *testing.T) {
	for _, tt := range []struct {
		name, args string
		code       int
		says       []string
	}{
		{"buckets", "launch --prometheus-duration-buckets 0.1 1 10", 0, nil},
		{"buckets_descend", "launch --prometheus-duration-buckets 0.1 1 1", 1, []string{"must ascend", "0.1 1 1"}},
		{"buckets_zero", "launch --prometheus-duration-buckets 0 1", 1, []string{"must ascend"}},
		{"buckets_infinite", "launch --prometheus-duration-buckets 1 Inf", 1, []string{"must ascend"}},
		{"buckets_nan", "launch --prometheus-duration-buckets NaN", 1, []string{"must ascend"}},
		{"buckets_word", "launch --prometheus-duration-buckets fast", 2, []string{`"fast" is not a number`}},
		{"pprof", "launch --pprof-addr localhost:6060", 0, nil},
		{"pprof_no_port", "launch --pprof-addr localhost", 2, []string{"HOST:PORT"}},
		{"pprof_port", "launch --pprof-addr localhost:70000", 2, []string{"HOST:PORT"}},
		{"26_endpoint_is_checked_only_with_traces", "launch --otlp-traces-endpoint nowhere", 0, nil},
		{"26_no_port", "launch --enable-trace --otlp-traces-endpoint nowhere", 1, []string{"HOST:PORT"}},
		{"26_no_host", "launch --enable-trace --otlp-traces-endpoint :4317", 1, []string{"HOST:PORT"}},
		{"26_port_zero", "launch --enable-trace --otlp-traces-endpoint h:0", 1, []string{"HOST:PORT"}},
		{"26_scheme", "serve --backend sim --router-enable-trace --router-otlp-traces-endpoint http://h:4317", 1, []string{"--router-otlp-traces-endpoint", "HOST:PORT"}},
		{"id_headers", "launch --request-id-headers a:b", 2, []string{"not a header name"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, code, text := run(nil, strings.Fields(tt.args)...)
			if code != tt.code {
				t.Errorf("exit %d, want %d\n%s", code, tt.code, text)
			}
			for _, s := range tt.says {
				if !strings.Contains(text, s) {
					t.Errorf("%q is not in\n%s", s, text)
				}
			}
		})
	}
	cmd := must(t, nil, "launch", "--request-id-headers", "Foo", "bar", "--prometheus-duration-buckets", "0.5", "2")
	if diff := cmp.Diff([]string{"foo", "bar"}, cmd.Launch.Requests.RequestIDHeaders); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{0.5, 2}, cmd.Launch.Trace.DurationBuckets); diff != "" {
		t.Error(diff)
	}
}
