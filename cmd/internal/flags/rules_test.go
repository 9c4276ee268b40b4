package flags

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ruleLines are the lines of TestCLI about the rules V1 to V44 of what is refused before
// a start, each by the least that breaks it, and what is just not refused.
func ruleLines() []lineCase {
	const (
		one    = "launch --worker-urls http://w1:8000 "
		two    = "launch --worker-urls http://w1:8000 http://w2:8000 "
		p1, d1 = "--prefill http://p1:8000 ", "--decode http://d1:8000 "
		pd     = "launch --pd-disaggregation " + p1
		epd    = "launch --epd-disaggregation " + p1
		later  = "is not supported yet"
	)
	return []lineCase{
		{"V1_no_scheme", "launch --worker-urls w1", 1, []string{"--worker-urls w1", "http://w1"}},
		{"V1_prefill", "launch --pd-disaggregation --prefill HTTP://p1 " + d1, 1, []string{"--prefill HTTP://p1"}},
		{"V1_ipv6_without_brackets", "launch --worker-urls http://::1:8000", 1, []string{"--worker-urls http://::1:8000"}},
		{"V2_prefill_meets_at_0", "launch --pd-disaggregation --prefill http://p1:8000 0 " + d1, 1, []string{"--prefill http://p1:8000 0", "1..65535 or 'none'"}},
		{"V3_above_one", one + "--cache-threshold 1.01", 1, []string{"--cache-threshold 1.01", "between 0 and 1"}},
		{"V3_below_zero", one + "--cache-threshold=-0.1", 1, []string{"--cache-threshold -0.1"}},
		{"V3_both_ends", one + "--cache-threshold 1.0", 0, nil},
		{"V4_below_one", one + "--balance-rel-threshold 0.99", 1, []string{"--balance-rel-threshold 0.99"}},
		{"V4_not_in_use", two + "--policy power_of_two --balance-rel-threshold 0.5", 0, nil},
		{"V5_zeros", one + "--eviction-interval 0 --max-tree-size 0 --block-size 0", 1, []string{"--eviction-interval 0", "--max-tree-size 0", "--block-size 0"}},
		{"V6_zeros", one + "--balance-token-usage-threshold 0 --overload-token-usage-threshold 0", 1, []string{"--balance-token-usage-threshold 0", "--overload-token-usage-threshold 0"}},
		{"V7_endless", one + "--overlap-decay -1 --selection-temperature NaN", 1, []string{"--overlap-decay -1", "--selection-temperature NaN"}},
		{"V8_no_life", one + "--cache-ttl-secs 0", 2, []string{"--cache-ttl-secs 0"}},
		{"V9_hash_alone", one + "--cache-index hash", 1, []string{"--cache-index hash", "--cache-boundaries"}},
		{"V10_first_is_0", one + "--policy random --cache-boundaries 0", 1, []string{"--cache-boundaries 0", "above 0"}},
		{"V10_twice_the_same", one + "--policy random --cache-boundaries 1,1", 1, []string{"--cache-boundaries 1"}},
		{"V11_zeros", one + "--policy least_load --least-load-mean-prefill-tokens 0 --least-load-default-throughput Inf --least-load-kv-pressure-weight NaN", 1, []string{
			"--least-load-mean-prefill-tokens 0", "--least-load-default-throughput +Inf", "--least-load-kv-pressure-weight NaN",
		}},
		{"V12_no_head", one + "--policy prefix_hash --prefix-token-count 0 --prefix-hash-load-factor 0.9", 1, []string{"--prefix-token-count 0", "--prefix-hash-load-factor 0.9"}},
		{"V13_both_ends", pd + d1 + "--prefill-policy bucket --bucket-adjust-interval-secs 0", 1, []string{"--bucket-adjust-interval-secs 0"}},
		{"V14_least_load", epd + d1 + "--encode-policy least_load", 2, encodePolicies()},
		{"V15_port_0", "launch --port 0", 1, []string{"--port 0", "a stable port is required"}},
		{"V15_health_port_0", "serve --backend sim --router-health-check-port 0", 1, []string{"--router-health-check-port 0", "a stable port is required"}},
		{
			"V16_zeros", one + "--max-payload-size 0 --request-timeout-secs 0 --worker-startup-timeout-secs 0 --worker-startup-check-interval 0 --load-monitor-interval 0 --max-buffered-bytes-total 0", 1,
			[]string{
				"--max-payload-size 0", "--request-timeout-secs 0", "--worker-startup-timeout-secs 0", "--worker-startup-check-interval 0",
				"--load-monitor-interval 0", "--max-buffered-bytes-total 0",
			},
		},
		{"V17_queue_without_time", one + "--queue-timeout-secs 0", 1, []string{"--queue-timeout-secs 0", "--queue-size 0 for no queue"}},
		{"V18_rate_below_0", one + "--max-concurrent-requests 1 --rate-limit-tokens-per-second -1", 1, []string{"--rate-limit-tokens-per-second -1", "0 or more"}},
		{"V19_more_than_a_body", one + "--max-buffered-request-bytes 1001 --max-payload-size 1000", 1, []string{"--max-buffered-request-bytes 1001", "--max-payload-size 1000"}},
		{"V19_as_much_as_a_body", one + "--max-buffered-request-bytes 1000 --max-payload-size 1000", 0, nil},
		{"V19_small_bodies_alone", one + "--max-payload-size 1000", 0, nil},
		{"V20_no_worker_at_all", one + "--worker-overload-waiting-requests 0", 2, []string{"--worker-overload-waiting-requests 0"}},
		{"V20_more_than_all", one + "--worker-overload-token-usage Inf", 2, []string{"out of range"}},
		{"V21_discovery", "launch --service-discovery", 2, []string{"--service-discovery " + later}},
		{"V22_discovery_of_legs", "launch --pd-disaggregation --service-discovery", 2, []string{"--service-discovery " + later}},
		{"V23_discovery_of_encoders", "launch --epd-disaggregation --encode-selector a=b --service-discovery", 2, []string{"--encode-selector " + later}},
		{"V24_discovery_port", "launch --service-discovery-port 0", 2, []string{"--service-discovery-port " + later, "--service-discovery-port 80"}},
		{"V24_providers", "launch --backend openai", 2, []string{"openai is not supported yet", "use one of auto"}},
		{"V25_empty", "launch --prometheus-host=", 1, []string{"--prometheus-host ''"}},
		{"V26_no_port", one + "--enable-trace --otlp-traces-endpoint collector", 1, []string{"--otlp-traces-endpoint collector", "HOST:PORT"}},
		{"V26_no_traces", one + "--otlp-traces-endpoint collector", 0, nil},
		{"V27_all", one + "--retry-max-retries 0 --retry-initial-backoff-ms 0 --retry-backoff-multiplier 0.9 --retry-jitter-factor 1.1", 1, []string{
			"--retry-max-retries 0", "--retry-initial-backoff-ms 0", "--retry-backoff-multiplier 0.9", "--retry-jitter-factor 1.1",
		}},
		{"V28_all", one + "--cb-failure-threshold 0 --cb-success-threshold 0 --cb-timeout-duration-secs 0 --cb-window-duration-secs 0", 1, []string{
			"--cb-failure-threshold 0", "--cb-success-threshold 0", "--cb-timeout-duration-secs 0", "--cb-window-duration-secs 0",
		}},
		{"V29_half_a_pair", one + "--tls-cert-path c --client-key-path k", 1, []string{"add --tls-key-path", "add --client-cert-path"}},
		{"V30_bucket_decodes", pd + d1 + "--decode-policy bucket --enable-igw", 1, []string{"--decode-policy bucket", "--prefill-policy bucket"}},
		{"V31_inherited", epd + d1 + "--policy bucket --enable-igw", 1, []string{"the decode leg inherits it", "--decode-policy"}},
		{"V31_inherited_in_pd", pd + d1 + "--policy bucket", 0, nil},
		{"V32_passthrough", pd + d1 + "--prefill-policy passthrough", 2, []string{"--prefill-policy passthrough"}},
		{"V32_passthrough_decodes", pd + d1 + "--decode-policy passthrough", 2, []string{"--decode-policy passthrough"}},
		{"V33_nobody", "launch --policy power_of_two", 1, []string{"--policy power_of_two", "--enable-igw"}},
		{"V33_one_each", pd + d1 + "--policy power_of_two", 0, nil},
		{"V34_one_decodes", pd + d1 + "--decode-policy power_of_two", 1, []string{"power_of_two needs 2 workers, on the decode leg there is 1", "add another --decode, or use --decode-policy least_load, or --enable-igw"}},
		{"V35_effective", epd + d1 + "--decode http://d2 --policy power_of_two", 1, []string{"on the prefill leg there is 1"}},
		{"V36_two_models", one + "--model-alias a=b --model-alias a=c", 1, []string{"--model-alias a=c", "another name of b"}},
		{"V36_the_same_twice", one + "--model-alias a=b --model-alias a=b", 0, nil},
		{"V37_control_character", one + "--routing-key-headers a\x01", 2, []string{"is not a header name"}},
		{"V38_model_id", "launch --model-id-from label:", 2, []string{"--model-id-from " + later}},
		{"V39_tokenizer_cache", "launch --tokenizer-cache-l0-max-entries 0", 2, []string{"--tokenizer-cache-l0-max-entries " + later}},
		{"V39_database", "launch --history-backend oracle", 2, []string{"--history-backend " + later}},
		{"V39_mesh", "launch --mesh-server-name a:b", 2, []string{"--mesh-server-name " + later}},
		{"V40_no_mode", "launch " + p1, 1, []string{"did you forget --pd-disaggregation?"}},
		{"V40_encode_in_pd", pd + d1 + "--encode http://e1", 1, []string{"did you forget --epd-disaggregation?"}},
		{"V41_two_legs", pd + "--decode http://p1:8000", 1, []string{"--decode http://p1:8000", "given twice"}},
		{"V42_pprof", "launch --pprof-addr 127.0.0.1:30000", 1, []string{"--pprof-addr 127.0.0.1:30000 and --port 30000", "two listeners cannot share a port"}},
		{"V42_probes_and_bus", "serve --backend sim --router-health-check-port 7000 --router-nats-listen u:p@127.0.0.1:7000", 1, []string{
			"--router-nats-listen 127.0.0.1:7000 and --router-health-check-port 7000",
		}},
		{"V42_ports_of_any_choice", "launch --prometheus-port 0 --nats-listen u:p@127.0.0.1:0", 0, nil},
		{
			"V43_zeros", one + "--health-check-interval-secs 0 --health-check-timeout-secs 0 --health-failure-threshold 0 --health-success-threshold 0 --health-check-endpoint h", 1,
			[]string{
				"--health-check-interval-secs 0", "--health-check-timeout-secs 0", "--health-failure-threshold 0", "--health-success-threshold 0",
				"--health-check-endpoint h: a path must start with /; write /h",
			},
		},
		{"V44_zero", one + "--max-concurrent-requests 0", 1, []string{"--max-concurrent-requests 0", "-1 for any number"}},

		{"11_any_number", one + "--max-concurrent-requests -1", 0, nil},
		{"11_any_number_behind_the_sign", one + "--max-concurrent-requests=-1", 0, nil},
		{"11_none", one + "--max-concurrent-requests 0", 1, []string{"--max-concurrent-requests 0"}},
		{"38_queue_without_time", one + "--queue-timeout-secs 0", 1, []string{"--queue-timeout-secs 0"}},
		{"38_no_queue", one + "--queue-timeout-secs 0 --queue-size 0", 0, nil},
		{"40_free_metrics_port", "launch --prometheus-port 0", 0, nil},
		{"40_two_listeners", "launch --port 30000 --prometheus-port 30000", 1, []string{"--prometheus-port 30000 and --port 30000"}},
		{"26_seed_line_of_grpc_engines", "launch --policy least_load --worker-urls grpc://worker1:50051 grpc://worker2:50052 --model-path meta-llama/Llama-3.1-8B-Instruct", 1, []string{
			"--worker-urls grpc://worker1:50051: ", "gRPC engines are not supported yet", "--worker-urls grpc://worker2:50052: ",
		}},
	}
}

// testEveryRule wants a line for each rule.
func testEveryRule(t *testing.T, lines []lineCase) {
	const rules = 44
	var missing []string
	for i := range rules {
		prefix := "V" + strconv.Itoa(i+1)
		if !slices.ContainsFunc(lines, func(l lineCase) bool { return strings.HasPrefix(l.name, prefix+"_") }) {
			missing = append(missing, prefix)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no line breaks %s", strings.Join(missing, ", "))
	}
}

// testTenMistakes is case 39 at its worst: ten of ten kinds, each with its line.
func testTenMistakes(t *testing.T) {
	const mistakes = "--PREFIXhealth-check-port 0 --PREFIXcache-boundaries 8192,2048 --PREFIXretry-max-retries 0 --PREFIXcb-window-duration-secs 0 --PREFIXmodel-alias a=b --PREFIXmodel-alias a=c " +
		"--PREFIXqueue-timeout-secs 0 --PREFIXtls-cert-path /no/such.pem --PREFIXhealth-check-endpoint h --PREFIXcluster a.b --PREFIXprometheus-port PORT"
	want := []string{
		"prometheus-port", "cache-boundaries", "retry-max-retries", "cb-window-duration-secs", "model-alias", "queue-timeout-secs",
		"health-check-endpoint", "tls-cert-path", "health-check-port", "cluster",
	}
	for _, tt := range []struct{ command, prefix, port string }{
		{"launch --worker-urls http://w1", "", "30000"},
		{"serve --backend sim --dp-size 2", routerPrefix, "8080"},
	} {
		args := strings.Fields(tt.command + " " + strings.NewReplacer("PREFIX", tt.prefix, "PORT", tt.port).Replace(mistakes))
		_, code, text := run(nil, args...)
		if n := strings.Count(text, "\n"); code != 1 || n != len(want) {
			t.Errorf("%s: exit %d and %d lines\n%s", tt.command, code, n, text)
		}
		for _, flag := range want {
			if !strings.Contains(text, "error: --"+tt.prefix+flag+" ") {
				t.Errorf("%s: no line names --%s%s\n%s", tt.command, tt.prefix, flag, text)
			}
		}
	}
}

// testFilesOfCertificates is rule V29 where files are read.
func testFilesOfCertificates(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{
		{"--tls-cert-path", empty, "--tls-key-path", empty},
		{"--client-cert-path", empty, "--client-key-path", empty},
		{"--ca-cert-paths", empty},
		{"--ca-cert-paths", filepath.Dir(empty)},
	} {
		if _, code, text := run(nil, append([]string{"launch"}, flags...)...); code != 1 || !strings.Contains(text, flags[0]+" "+flags[1]) {
			t.Errorf("%q: exit %d\n%s", flags, code, text)
		}
	}
}

// TestHelpInsideValues tells a question for help from an engine's flag in a value.
func TestHelpInsideValues(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want Verb
	}{
		{[]string{"serve", "--backend", "sim", "--prefill-replicas", "1", "--decode-replicas", "1", "--prefill-args", "--help"}, RunServe},
		{[]string{"serve", "--backend", "sim", "--prefill-replicas", "1", "--decode-replicas", "1", "--decode_args", "--version"}, RunServe},
		{[]string{"serve", "--prefill-args", "--x", "--help"}, Print},
		{[]string{"serve", "--prefill-args=--x", "-h"}, Print},
		{[]string{"serve", "--prefill-args", "--", "--help"}, RunServe},
		{[]string{"launch", "--max-concurrent-requests", "--help"}, Print},
	} {
		cmd, err := Parse(Input{Args: tt.args, Env: env(nil)})
		switch {
		case tt.want == RunServe && err != nil && !strings.Contains(err.Error(), "a value is missing"):
			t.Errorf("%q: %v", tt.args, err)
		case err == nil && cmd.Verb != tt.want:
			t.Errorf("%q: verb %d, want %d", tt.args, cmd.Verb, tt.want)
		}
	}
}
