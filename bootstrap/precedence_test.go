package bootstrap

import (
	"cmp"
	"log/slog"
	"testing"

	"smg/worker"
)

// TestDisaggPrecedence is who decides on a bootstrap port: who describes the worker,
// before the command line, before the engine, before what the engine's kind has where
// nobody says anything. Annotations are Kubernetes', which is not built.
func TestDisaggPrecedence(t *testing.T) {
	const spec, cli = "spec", "cli"
	type who struct {
		port   uint16
		source string
	}
	sglang := func(mode, port string) Found {
		return Found{Runtime: worker.SGLang, Labels: map[string]string{modeLabel: mode, portLabel: port}}
	}
	vllm := Found{Runtime: worker.VLLM}
	for _, tt := range []struct {
		name   string
		leg    worker.Leg
		says   who // of the worker's description or the command line
		found  Found
		labels map[string]string
		want   who
	}{
		{name: "10_the_description_before_the_engine", says: who{9001, spec}, found: sglang("prefill", "9003"), want: who{9001, spec}},
		{name: "10_the_command_line_before_the_engine", says: who{9002, cli}, found: sglang("prefill", "9003"), want: who{9002, cli}},
		{name: "10_the_engine", found: sglang("prefill", "9003"), want: who{9003, worker.EngineSource}},
		{name: "10_the_command_line_says_none", says: who{0, cli}, found: sglang("prefill", "9003"), want: who{9003, worker.EngineSource}},
		{name: "10_SGLang_has_no_default", found: Found{Runtime: worker.SGLang}, want: who{0, defaultSource}},
		{name: "10_an_engine_that_decodes", found: sglang("decode", "9003"), want: who{0, defaultSource}},
		{name: "10_an_engine_that_does_both", found: sglang("null", "9003"), want: who{0, defaultSource}},
		{name: "10_an_engine_that_says_0", found: sglang("prefill", "0"), want: who{0, defaultSource}},
		{name: "10_an_engine_that_says_65536", found: sglang("prefill", "65536"), want: who{0, defaultSource}},
		{name: "10_an_engine_that_says_none", found: sglang("prefill", "None"), want: who{0, defaultSource}},
		{name: "10_a_decode_worker", leg: worker.Decode, found: sglang("prefill", "9003"), want: who{0, defaultSource}},
		{name: "10_an_encode_worker", leg: worker.Encode, found: sglang("prefill", "9003"), want: who{0, defaultSource}},
		{name: "10_vLLM_with_NIXL", found: vllm, want: who{0, defaultSource}},
		{name: "10_Mooncake_s_default", found: vllm, labels: map[string]string{"kv_connector": mooncake}, want: who{DefaultPort, defaultSource}},
		{name: "10_the_command_line_before_Mooncake_s", says: who{9002, cli}, found: vllm, labels: map[string]string{"kv_connector": mooncake}, want: who{9002, cli}},
		{name: "10_the_description_before_Mooncake_s", says: who{9001, spec}, found: vllm, labels: map[string]string{"kv_connector": mooncake}, want: who{9001, spec}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leg := tt.leg
			if leg == worker.Regular {
				leg = worker.Prefill
			}
			asked, err := specOf(Candidate{URL: "http://w:1", Leg: leg, BootstrapPort: tt.says.port, BootstrapSource: cmp.Or(tt.says.source, defaultSource)})
			if err != nil {
				t.Fatal(err)
			}
			asked.Labels = tt.labels
			r, err := NewRegistrar(DefaultConfig(), &prober{}, &memory{}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			s := merged(asked, tt.found)
			r.mooncake(t.Context(), s)
			if got := (who{s.BootstrapPort, s.BootstrapSource}); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
