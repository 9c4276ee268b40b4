package flags

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
)

// legLines are the lines of TestCLI about legs, retries and engines in roles.
func legLines() []lineCase {
	const (
		pd     = "launch --pd-disaggregation "
		epd    = "launch --epd-disaggregation "
		p1, d1 = "--prefill http://p1:8000 ", "--decode http://d1:8000 "
		e1     = "--encode http://e1:8000 "
		sim    = "serve --backend sim "
		port   = "a port 1..65535 or 'none'"
	)
	return []lineCase{
		{"14_word", pd + p1 + "abc " + d1, 2, []string{`"abc" is not a bootstrap port`, "--prefill http://p1:8000 abc", port}},
		{"14_too_large", pd + p1 + "70000", 2, []string{`"70000" is not a bootstrap port`, port}},
		{"14_negative", pd + p1 + "-1", 2, []string{`"-1" is not a bootstrap port`, port}},
		{"14_second_url", pd + p1 + "http://u:SECRET@p2", 2, []string{`"http://***@p2" is not a bootstrap port`, "--prefill in front of each URL"}},
		{"14_encode", epd + "--encode=http://e1:8000 x", 2, []string{`"x" is not a bootstrap port`, "--encode http://e1:8000 x"}},
		{"14_nothing", pd + "--prefill", 2, []string{"needs a URL", "--prefill URL [PORT|none]"}},
		{"14_flag_instead", pd + "--decode --log-json", 2, []string{"needs a URL", "--decode URL"}},
		{"14_command_behind", "--prefill http://p1:8000 launch", 2, []string{"put flags after the command"}},
		{"15_port_zero", pd + p1 + "0 " + d1, 1, []string{"--prefill http://p1:8000 0", "must be 1 or more", port}},
		{"15_port_zero_encode", epd + e1 + "0 " + d1, 1, []string{"--encode http://e1:8000 0", port}},
		{"16_decode_port", pd + d1 + "9001", 2, []string{"decode workers take no bootstrap port", "--decode http://d1:8000 9001"}},
		{"16_decode_none", pd + "--decode=http://d1:8000 none", 2, []string{"decode workers take no bootstrap port"}},
		{"16_two_urls", pd + d1 + "http://d2:8000", 2, []string{"unexpected argument", "http://d2:8000", "write --decode in front of each URL"}},
		{"26_prefill", pd + "--prefill p1:8000 9001", 1, []string{"--prefill p1:8000 9001", "http://p1:8000"}},
		{"26_decode", pd + "--decode ftp://d1", 1, []string{"--decode ftp://d1", "http, https"}},
		{"26_encode", epd + "--encode grpc://e1:1", 1, []string{"--encode grpc://e1:1", "gRPC engines are not supported yet"}},
		{"31_policies_of_legs", pd + p1 + "9001 --prefill http://p2:8000 9001 " + d1 + "--decode http://d2:8000 --prefill-policy random --decode-policy consistent_hashing", 0, nil},
		{"35_prefill_passthrough", pd + "--prefill-policy passthrough", 2, []string{"passthrough is for a single worker", "--prefill-policy passthrough", "use one of random"}},
		{"35_decode_passthrough", pd + "--decode-policy passthrough", 2, []string{"passthrough is for a single worker", "--decode-policy passthrough"}},
		{"35_unknown", pd + "--prefill-policy fastest", 2, append(legPolicies(), `"fastest" is not a known policy of a leg`)},
		{"36_encode_least_load", epd + "--encode-policy least_load", 2, append(encodePolicies(), "--encode-policy least_load")},
		{"encode_fallback", epd + "--encode-fallback prefill", 0, nil},
		{"encode_fallback_unknown", epd + "--encode-fallback decode", 2, []string{`"decode" is not a known fallback of the encode leg`, "use one of none, prefill"}},
		{"38_retries_zero", "launch --retry-max-retries 0", 1, []string{"--retry-max-retries 0", "--disable-retries"}},
		{"38_retries_off", "launch --retry-max-retries 0 --disable-retries", 0, nil},
		{"V27_first_wait", "launch --retry-initial-backoff-ms 0", 1, []string{"--retry-initial-backoff-ms 0"}},
		{"V27_longest_wait", "launch --retry-max-backoff-ms 49", 1, []string{"--retry-max-backoff-ms 49", "--retry-initial-backoff-ms 50"}},
		{"V27_multiplier", "launch --retry-backoff-multiplier 0.9", 1, []string{"--retry-backoff-multiplier 0.9"}},
		{"V27_jitter", "serve --backend sim --dp-size 2 --router-retry-jitter-factor -0.1", 1, []string{"--router-retry-jitter-factor -0.1"}},
		{"V27_jitter_is_no_number", "launch --retry-jitter-factor NaN", 2, []string{`"NaN" is not a number`}},
		{"V28_failures", "launch --cb-failure-threshold 0", 1, []string{"--cb-failure-threshold 0", "--disable-circuit-breaker"}},
		{"V28_failures_off", "launch --cb-failure-threshold 0 --disable-circuit-breaker", 0, nil},
		{"V28_others", "launch --cb-success-threshold 0 --cb-timeout-duration-secs 0 --cb-window-duration-secs 0", 1, []string{"--cb-success-threshold 0", "--cb-timeout-duration-secs 0", "--cb-window-duration-secs 0"}},
		{"40_prefill_without_a_mode", "launch " + p1 + "9001", 1, []string{"--prefill http://p1:8000 9001", "did you forget --pd-disaggregation?"}},
		{"40_decode_without_a_mode", "launch " + d1, 1, []string{"--decode http://d1:8000", "did you forget --pd-disaggregation?"}},
		{"40_three_legs_without_a_mode", "launch " + e1 + p1 + d1, 1, []string{"--encode http://e1:8000: there", "--decode http://d1:8000: there is no decode leg; did you forget --epd-disaggregation?"}},
		{"40_encode_in_pd", pd + e1, 1, []string{"--encode http://e1:8000", "did you forget --epd-disaggregation?"}},
		{"V41_in_one_leg", pd + p1 + "9001 " + p1 + "9002", 1, []string{"--prefill http://p1:8000 9002", "given twice"}},
		{"V41_in_two_legs", pd + p1 + "--decode http://p1:8000/", 1, []string{"--decode http://p1:8000/", "given twice"}},
		{"empty_legs", pd, 0, nil},
		{"epd_wins", epd + "--pd-disaggregation " + e1 + "NONE", 0, nil},

		{"71_pd", sim + "--router-pd-disaggregation", 2, []string{"serve starts its own engines", "--prefill-replicas"}},
		{"71_epd", sim + "--router_epd_disaggregation=true", 2, []string{"--encode-replicas"}},
		{"71_unprefixed", sim + "--pd-disaggregation", 2, []string{"--prefill-replicas"}},
		{"71_leg", sim + "--router-prefill http://p1:8000 9001", 2, []string{"--prefill-replicas", "smg launch"}},
		{"71_roles", sim + "--prefill-replicas 2 --decode-replicas 2 --router-prefill-policy random --router-decode-policy round_robin", 0, nil},
		{"71_prefill_alone", sim + "--prefill-replicas 2", 2, []string{"there are no decode engines", "--prefill-replicas 2", "--decode-replicas N"}},
		{"71_decode_alone", sim + "--decode-replicas 2", 2, []string{"there are no prefill engines"}},
		{"71_encode_alone", sim + "--encode-replicas 1 --decode-replicas 1", 2, []string{"there are no prefill engines"}},
		{"71_none", sim + "--prefill-replicas 0 --decode-replicas 1", 2, []string{"0 is out of range"}},
		{"71_with_replicas", sim + "--prefill-replicas 1 --decode-replicas 1 --dp-size 2", 2, []string{"--dp-size 2", "leave it out"}},
		{"71_args_without_a_role", sim + "--prefill-args --api-key=SECRET", 2, []string{"there are no prefill engines", "--prefill-args\n"}},
		{"71_args_unclosed", sim + "--prefill-replicas 1 --decode-replicas 1 --decode-args 'SECRET", 2, []string{"a quote is not closed", "--decode-args\n"}},
		{"71_args_missing", sim + "--prefill-replicas 1 --decode-replicas 1 --decode-args -- x", 2, []string{"a value is missing"}},
		{"71_llamacpp", "serve --backend llamacpp --model m.gguf --prefill-replicas 1 --decode-replicas 1", 2, []string{"llamacpp has no prefill/decode roles"}},
		{"71_encoders_of_sglang", sim + "--prefill-replicas 1 --decode-replicas 1 --encode-replicas 1 --engine sglang", 0, nil},
		{"71_two_kinds", sim + "--prefill-replicas 1 --decode-replicas 1 --prefill-args --engine=vllm", 2, []string{"two kinds"}},
		{"71_unknown_kind", sim + "--prefill-replicas 1 --decode-replicas 1 --engine foo", 2, []string{`"foo" is no kind`, "--engine foo"}},
		{"71_flag_of_serve", "launch --prefill-replicas 2", 2, []string{"--prefill-replicas is a flag of smg serve"}},
	}
}

func testPrefillPorts(t *testing.T) {
	cmd := must(t, nil, "--prefill", "http://p1:8000", "9001", "--prefill", "http://p2:8000", "none", "--prefill", "http://p3:8000",
		"--decode", "http://d1:8000", "--pd-disaggregation")
	l := cmd.Launch
	want := []LegWorker{{"http://p1:8000", 9001}, {"http://p2:8000", 0}, {"http://p3:8000", 0}}
	if diff := cmp.Diff(want, l.Prefill); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"http://d1:8000"}, l.Decode); diff != "" || l.Mode != PD {
		t.Errorf("mode %s, decode %s", l.Mode, diff)
	}
	l = must(t, nil, "launch", "--prefill=http://p1:8000", "65535", "--prefill", "http://p2:8000", "NONE", "--pd_disaggregation").Launch
	want = []LegWorker{{"http://p1:8000", 65535}, {"http://p2:8000", 0}}
	if diff := cmp.Diff(want, l.Prefill); diff != "" {
		t.Error(diff)
	}
}

func testLegsFromEnvironment(t *testing.T) {
	vars := map[string]string{
		"SMG_FLAG_EPD_DISAGGREGATION": "true", "SMG_FLAG_PREFILL": "http://p1 9001 http://p2\nhttp://p3 none",
		"SMG_FLAG_DECODE": " http://d1 http://d2", "SMG_FLAG_ENCODE": "http://e1", "SMG_FLAG_RETRY_MAX_RETRIES": "7",
	}
	l := must(t, vars, "launch", "--decode", "http://d3").Launch
	want := DefaultLaunch()
	want.Mode = EPD
	want.Prefill = []LegWorker{{"http://p1", 9001}, {"http://p2", 0}, {"http://p3", 0}}
	want.Decode = []string{"http://d3"}
	want.Encode = []LegWorker{{"http://e1", 0}}
	want.Retry.Max = 7
	if diff := cmp.Diff(&want, l); diff != "" {
		t.Error(diff)
	}
	if _, code, text := run(map[string]string{"SMG_FLAG_PREFILL": "http://p1 abc"}, "launch", "--pd-disaggregation"); code != 1 || !strings.Contains(text, "SMG_FLAG_PREFILL=abc") {
		t.Errorf("exit %d\n%s", code, text)
	}
}

func TestLegPolicies(t *testing.T) {
	tests := []struct {
		name, args              string
		encode, prefill, decode string
	}{
		{"36_defaults", "--epd-disaggregation", policy.ConsistentHashing, policy.CacheAware, policy.CacheAware},
		{"inherited", "--pd-disaggregation --policy random", policy.ConsistentHashing, policy.Random, policy.Random},
		{"chosen", "--epd-disaggregation --policy random --encode-policy round_robin --decode-policy consistent_hashing", policy.RoundRobin, policy.Random, policy.ConsistentHashing},
		{"passthrough can be inherited", "--pd-disaggregation --policy passthrough", policy.ConsistentHashing, policy.Passthrough, policy.Passthrough},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := must(t, nil, append([]string{"launch"}, strings.Fields(tt.args)...)...).Launch
			if l.EncodePolicy != tt.encode || l.PrefillPolicy != tt.prefill || l.DecodePolicy != tt.decode {
				t.Errorf("encode %s, prefill %s, decode %s", l.EncodePolicy, l.PrefillPolicy, l.DecodePolicy)
			}
		})
	}
}

func TestLegRemarks(t *testing.T) {
	tests := []struct {
		name, args        string
		notices, warnings []string
	}{
		{"neither", "launch --pd-disaggregation", nil, nil},
		{"one", "launch --pd-disaggregation --prefill-policy random", []string{"one leg has a policy of its own: prefill random, decode cache_aware"}, nil},
		{"one and the main policy", "launch --epd-disaggregation --policy consistent_hashing --decode-policy random", []string{"one leg has a policy of its own: prefill consistent_hashing, decode random"}, nil},
		{"both", "launch --pd-disaggregation --prefill-policy random --decode-policy random", nil, nil},
		{"both and the main policy", "launch --pd-disaggregation --policy random --prefill-policy random --decode-policy random", nil, []string{"--policy random is not used: both legs have a policy of their own"}},
		{"no legs", "launch --policy random --prefill-policy random", nil, []string{"--prefill-policy is not used: there is no prefill leg"}},
		{"worker URLs", "launch --epd-disaggregation --policy random --worker-urls http://w", nil, []string{"--worker-urls is not used in encode/prefill/decode mode"}},
		{"serve", "serve --backend sim --prefill-replicas 1 --decode-replicas 1 --router-policy random --router-prefill-policy random --router-decode-policy random", nil, []string{"--router-policy random is not used: both legs have a policy of their own"}},
		{"serve, no legs", "serve --backend sim --dp-size 2 --router-policy random --router-decode-policy random", nil, []string{"--router-decode-policy is not used: there is no decode leg"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := must(t, nil, strings.Fields(tt.args)...)
			if diff := cmp.Diff(tt.notices, cmd.Notices, cmpEmpty()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.warnings, cmd.Warnings, cmpEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestServeRoles(t *testing.T) {
	cmd := must(t, nil, "serve", "--backend", "sim", "--prefill-replicas", "2", "--decode-replicas=3", "--encode-replicas", "1", "--engine", "vllm",
		"--prefill-args", `--kv-lease 5s --model 'a b'`, "--decode-args=", "--decode-args", "--kv-blocks", "--encode-args=-x", "--bootstrap-base-port", "9100",
		"--router-prefill-policy", "random", "--router-encode-policy", "round_robin", "--", "--kv-lease", "7s")
	e := cmd.Serve.Engines
	if e.Prefill != 2 || e.Decode != 3 || e.Encode != 1 || e.Total() != 6 || e.BootstrapBasePort != 9100 {
		t.Errorf("engines %+v", e)
	}
	for _, args := range []struct{ got, want []string }{
		{e.PrefillArgs, []string{"--kv-lease", "5s", "--model", "a b"}},
		{e.DecodeArgs, []string{"--kv-blocks"}},
		{e.EncodeArgs, []string{"-x"}},
		{e.EngineArgs, []string{"--engine", "vllm", "--kv-lease", "7s"}},
	} {
		if diff := cmp.Diff(args.want, args.got); diff != "" {
			t.Error(diff)
		}
	}
	if cmd.Serve.Mode != EPD || cmd.Serve.SingleWorker() || cmd.Launch.Retry.Disabled || cmd.Launch.Breaker.Disabled {
		t.Errorf("gateway %+v", cmd.Launch)
	}
	if got, want := cmd.Serve.PolicyLine(), "encode round_robin, prefill random, decode cache_aware"; got != want {
		t.Errorf("policy %q, want %q", got, want)
	}
	if err := e.Validate(); err != nil {
		t.Errorf("what serve accepts the launcher must accept: %v", err)
	}
	if len(cmd.Warnings) != 0 {
		t.Errorf("warnings %q", cmd.Warnings)
	}

	one := must(t, nil, "serve", "--backend", "sim", "--prefill-replicas", "1", "--decode-replicas", "1", "--router-policy", "random").Serve
	if one.Mode != PD || one.Policy != "random" || one.PolicyLine() != "prefill random, decode random" || one.Retry.Max != 5 {
		t.Errorf("one engine for each leg: %+v", one.Launch)
	}
}

func TestSplitWords(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
		bad      bool
	}{
		{"nothing", " \t", nil, false},
		{"blanks", " a  b\tc\n", []string{"a", "b", "c"}, false},
		{"single quotes", `'a "b' c''d`, []string{`a "b`, "cd"}, false},
		{"double quotes", `"a 'b" --x="c d"`, []string{"a 'b", "--x=c d"}, false},
		{"empty word", `'' ""`, []string{"", ""}, false},
		{"backslash", `a\ b \'c "\"\\\n" '\'`, []string{"a b", "'c", `"\\n`, `\`}, false},
		{"JSON", `--config '{"a":"b c"}'`, []string{"--config", `{"a":"b c"}`}, false},
		{"open quote", `a 'b`, nil, true},
		{"open backslash", `a\`, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := splitWords(tt.in)
			if diff := cmp.Diff(tt.want, got, cmpEmpty()); diff != "" || (err != nil) != tt.bad {
				t.Errorf("error %v, %s", err, diff)
			}
		})
	}
}
