package flags

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/worker"
)

// env is a lookup over a map.
func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

// run parses and validates, as main does. code is the exit code that smg would end
// with before anything is started, text what it would print.
func run(vars map[string]string, args ...string) (cmd *Command, code int, text string) {
	cmd, err := Parse(Input{Args: args, Env: env(vars), Version: "smg 1.2.3", VersionVerbose: "smg 1.2.3\ngo"})
	if err == nil {
		err = cmd.Validate(worker.CanonicalURL)
	}
	var out strings.Builder
	code = Report(&out, err)
	if err == nil && cmd.Verb == Print {
		out.WriteString(cmd.Output)
	}
	return cmd, code, out.String()
}

// must parses what has to be accepted.
func must(t *testing.T, vars map[string]string, args ...string) *Command {
	t.Helper()
	cmd, code, text := run(vars, args...)
	if code != 0 {
		t.Fatalf("smg %q: exit %d\n%s", args, code, text)
	}
	return cmd
}

// lineCase is a line of TestCLI.
type lineCase struct {
	name string
	args string // split at blanks; a tilde stands for a blank inside an argument
	code int
	want []string // words that the answer holds
}

func (tt lineCase) run(t *testing.T) {
	args := strings.Fields(tt.args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "~", " ")
	}
	_, code, text := run(nil, args...)
	if code != tt.code {
		t.Errorf("exit code %d, want %d\n%s", code, tt.code, text)
	}
	for _, w := range tt.want {
		if !strings.Contains(text, w) {
			t.Errorf("answer lacks %q:\n%s", w, text)
		}
	}
	if strings.Contains(text, "SECRET") {
		t.Errorf("answer shows a key:\n%s", text)
	}
}

func TestGateway(t *testing.T) {
	for _, tt := range []lineCase{
		{"44_the_older_name", "launch --stream-request-bodies-over 1", 2, []string{"unknown flag", "write --max-buffered-request-bytes"}},
		{"44_the_older_name_in_serve", "serve --backend sim --router-stream-request-bodies-over 1", 2, []string{"write --router-max-buffered-request-bytes"}},
		{"44_the_older_name_is_no_engines", "serve --backend sim --stream-request-bodies-over 1", 2, []string{"write --router-max-buffered-request-bytes"}},
		{"54_an_interval_of_nothing", "launch --load-monitor-interval 0", 1, []string{"--load-monitor-interval 0", "must be more than 0"}},
	} {
		t.Run(tt.name, tt.run)
	}
}

// TestCLI holds the numbered cases that end before anything is started: exit code
// and words of the answer.
func TestCLI(t *testing.T) {
	w1, w2 := "http://w1:8000", "http://w2:8000"
	tests := []lineCase{
		{"4_flags_before_the_command", "--policy random launch", 2, []string{"put flags after the command"}},
		{"4_flags_before_the_command_list", "--worker-urls " + w1 + " serve", 2, []string{"put flags after the command"}},
		{"5_version_wins", "launch --version --nonsense", 0, []string{"smg 1.2.3\n"}},
		{"5_version_short", "serve --model m -V", 0, []string{"smg 1.2.3\n"}},
		{"5_version_verbose", "--version-verbose", 0, []string{"smg 1.2.3\ngo\n"}},
		{"6_nothing", "", 0, []string{"Examples:", "Commands:", "--worker-urls"}},
		{"6_server", "server", 2, []string{"unknown command", "did you mean serve?"}},
		{"7_typo", "launch --polcy random", 2, []string{"unknown flag", "--polcy", "did you mean --policy?"}},
		{"7_word_order", "launch --urls-worker " + w1, 2, []string{"did you mean --worker-urls?"}},
		{"7_single_dash", "launch -policy random", 2, []string{"unknown flag", "did you mean --policy?"}},
		{"7_prefix_of_serve", "launch --router-policy random", 2, []string{"unknown flag", "write --policy"}},
		{"7_flag_of_serve", "launch --engine-bin x", 2, []string{"unknown flag", "--engine-bin is a flag of smg serve"}},
		{"8_policy_lists_the_ten", "launch --policy fastest", 2, policy.Names()},
		{"10_equals_takes_one_value", "--worker-urls=" + w1 + " " + w2, 2, []string{"unexpected argument", w2}},
		{"12_twice", "launch --policy random --policy random", 2, []string{"--policy is given twice"}},
		{"12_twice_bool", "launch --log-json --log-json", 2, []string{"--log-json is given twice"}},
		{"12_twice_router", "serve --backend sim --router-policy random --router_policy random", 2, []string{"--router-policy is given twice"}},
		{"17_port_range", "launch --port 70000", 2, []string{"70000 is out of range", "--port 70000"}},
		{"17_port_negative", "launch --port -1", 2, []string{"-1 is out of range"}},
		{"17_port_zero", "launch --port 0", 1, []string{"a stable port is required", "--port 0"}},
		{"17_port_zero_serve", "serve --backend sim --port 0", 1, []string{"a stable port is required", "--port 0"}},
		{"21_header_name", "launch --routing-key-headers has~space", 2, []string{`"has space" is not a header name`}},
		{"21_header_empty", "launch --routing-key-headers=", 2, []string{`"" is not a header name`}},
		{"26_no_scheme", "launch --worker-urls w1:8000", 1, []string{"--worker-urls w1:8000", "http://w1:8000"}},
		{"26_upper_case", "launch --worker-urls HTTP://w1:8000", 1, []string{"HTTP://w1:8000"}},
		{"26_ftp", "launch --worker-urls ftp://w1", 1, []string{"http, https"}},
		{"26_ipc", "launch --worker-urls ipc://", 1, []string{"ipc://"}},
		{"26_no_host", "launch --worker-urls http://", 1, []string{"http://"}},
		{"26_ipv6", "launch --worker-urls http://[::1]:8000", 0, nil},
		{"26_no_port", "launch --worker-urls http://w", 0, nil},
		{"26_grpc", "launch --worker-urls grpc://w:50051", 1, []string{"gRPC engines are not supported yet"}},
		{"17_health_port_range", "launch --health-check-port 70000", 2, []string{"--health-check-port 70000"}},
		{"17_health_port_zero", "launch --health-check-port 0", 1, []string{"--health-check-port 0", "a stable port is required"}},
		{"V42_health_port", "launch --health-check-port 30000", 1, []string{"--health-check-port 30000 and --port 30000"}},
		{"V42_health_port_serve", "serve --backend sim --router-health-check-port 29000", 1, []string{"--router-health-check-port 29000 and --router-prometheus-port 29000"}},
		{"cors_origin", "launch --cors-allowed-origins https://a.example http://localhost:3000 chat.example https://a.example/", 1, []string{
			"--cors-allowed-origins chat.example", "--cors-allowed-origins https://a.example/", "as browsers do",
		}},
		{"V42_two_listeners", "launch --port 30000 --prometheus-port 30000", 1, []string{"--port", "--prometheus-port"}},
		{"V42_two_listeners_serve", "serve --backend sim --router-prometheus-port 8080", 1, []string{"--port 8080", "--router-prometheus-port 8080"}},
		{"52_no_engines", "serve --backend sim --data-parallel-size 0", 2, []string{"0 is out of range", "--data-parallel-size"}},
		{"59_unknown_router_flag", "serve --backend sim --router-nonsense", 2, []string{"--router-nonsense"}},
		{"59_router_typo", "serve --backend sim --router-polcy random", 2, []string{"did you mean --router-policy?"}},

		{"worker_urls_in_serve", "serve --backend sim --worker-urls " + w1, 2, []string{"smg launch"}},
		{"policy_in_serve", "serve --backend sim --policy random", 2, []string{"use --router-policy"}},
		{"router_host", "serve --backend sim --router-host x", 2, []string{"write --host"}},
		{"default_backend", "serve", 2, []string{"--model is required", "--backend sglang (the default)", "--backend"}},
		{"unknown_backend", "serve --backend foo", 2, []string{`"foo" is not a known backend`}},
		{"model_required", "serve --backend llamacpp", 2, []string{"--model is required"}},
		{"model_short", "serve --backend llamacpp -m x.gguf", 2, []string{"write --model instead of -m"}},
		{"urls_with_commas", "launch --worker-urls http://a:1,http://u:s3cret@b:1", 1, []string{"2 URLs in one argument", "--worker-urls http://a:1,http://***@b:1", "write blanks between them: --worker-urls http://a:1 http://***@b:1"}},
		{"prefill_with_commas", "launch --pd-disaggregation --prefill http://a:1,http://b:1", 1, []string{"hint: write --prefill in front of each"}},
		{"workers", "launch --workers http://a:1", 2, []string{"unknown flag", "did you mean --worker-urls?"}},
		{"host_with_a_port", "launch --host 127.0.0.1:80", 1, []string{"without a port", "hint: write --host 127.0.0.1 --port 80"}},
		{"host_that_is_a_url", "launch --host http://localhost:80/", 1, []string{"hint: write --host localhost --port 80"}},
		{"host_in_brackets", "launch --host [::1]", 1, []string{"not an address or a host name"}},
		{"prometheus_host_with_a_port", "serve --backend sim --router-prometheus-host ::1]:9", 1, []string{"--router-prometheus-host ::1]:9"}},
		{"worker_host_with_a_port", "serve --backend sim --worker-host 10.0.0.1:9", 1, []string{"write --worker-host 10.0.0.1 --worker-base-port 9"}},
		{"grpc", "serve --backend sglang --model m --connection-mode grpc", 2, []string{"connection mode grpc is not supported yet", "http"}},
		{"value_missing", "launch --port --log-json", 2, []string{"a value is missing", "--port PORT"}},
		{"value_missing_at_end", "launch --port", 2, []string{"a value is missing"}},
		{"bool_value", "launch --log-json true", 2, []string{"unexpected argument"}},
		{"bool_value_bad", "launch --log-json=yes", 2, []string{"neither true nor false"}},
		{"dashes_in_launch", "launch -- x", 2, []string{"only smg serve passes arguments on"}},
		{"check_of_serve", "check serve --backend sim", 2, []string{"unexpected argument", "write smg serve --dry-run"}},
		{"stray", "launch x", 2, []string{"unexpected argument", "x"}},
		{"not_a_number", "launch --max-payload-size 1k", 2, []string{`"1k" is not a whole number`}},
		{"too_many_seconds", "launch --request-timeout-secs 99999999999", 2, []string{"out of range"}},
		{"log_level", "launch --log-level loud", 2, []string{"debug, info, warn, error"}},
		{"engine_log", "serve --backend sim --engine-log loud", 2, []string{"prefix, raw, file"}},
		{"V16_zero", "launch --request-timeout-secs 0", 1, []string{"--request-timeout-secs 0", "must be more than 0"}},
		{"V25_metrics_host", "launch --prometheus-host=", 1, []string{"--prometheus-host ''"}},
		{"V41_same_url_twice", "launch --worker-urls " + w1 + " " + w1 + "/", 1, []string{"given twice"}},
		{"V43_thresholds", "serve --backend sim --router-health-failure-threshold 0", 1, []string{"--router-health-failure-threshold 0"}},
		{"V43_endpoint", "launch --health-check-endpoint health", 1, []string{"write /health"}},
		{"V44_fewer_than_none", "launch --max-concurrent-requests -2", 1, []string{"--max-concurrent-requests -2"}},
		{"38_queue_without_time_and_a_limit", "launch --max-concurrent-requests 1 --queue-timeout-secs 0", 1, []string{"--queue-timeout-secs 0", "--queue-size 0"}},
		{"rate_of_nothing", "launch --rate-limit-tokens-per-second 5", 1, []string{"--max-concurrent-requests as well"}},
		{"cluster", "launch --cluster a.b", 1, []string{"--cluster a.b"}},
		{"81_api_key_without_a_value", "launch --api-key=", 2, []string{"it is empty", "--api-key\n"}},
		{"81_api_key_with_a_blank", "launch --api-key=SECRET~SECRET", 2, []string{"--api-key\n"}},
		{"81_api_key_twice", "launch --api-key SECRET --api-key SECRET", 2, []string{"given twice"}},
		{"81_api_key_misspelt", "launch --api-kye=SECRET", 2, []string{"did you mean --api-key?"}},
		{"81_api_key_and_a_fault", "launch --api-key SECRET --port 0", 1, []string{"--port 0"}},
		{"40_certificate_without_key", "launch --tls-cert-path x", 1, []string{"--tls-cert-path x", "add --tls-key-path FILE"}},
		{"40_key_without_certificate", "launch --tls-key-path x", 1, []string{"--tls-key-path x", "add --tls-cert-path FILE"}},
		{"40_no_such_files", "launch --tls-cert-path /no/x --tls-key-path /no/y", 1, []string{"--tls-cert-path /no/x", "/no/x: no such file"}},
		{"40_client_certificate_without_key", "launch --client-cert-path x", 1, []string{"add --client-key-path FILE"}},
		{"40_client_key_without_certificate", "selector --leg regular --nats-url nats://n --client-key-path x", 1, []string{"add --client-cert-path FILE"}},
		{"40_no_such_authority", "launch --ca-cert-paths /no/x /no/y", 1, []string{"--ca-cert-paths /no/x /no/y", "/no/x: no such file"}},
		{"40_serve", "serve --backend sim --router-tls-cert-path x", 1, []string{"--router-tls-cert-path x", "add --router-tls-key-path FILE"}},
		{"81_plan", "check --api-key SECRET --worker-urls " + w1, 0, nil},
		{"81_password_in_a_url", "launch --worker-urls http://user:SECRET@w:1", 1, []string{"http://***@w:1"}},
		{"help_unknown_topic", "launch --help=zzz", 2, []string{"--help=groups"}},
		{"help_unknown_command", "help lunch", 2, []string{"did you mean smg help launch?"}},
	}
	lines := slices.Concat(tests, legLines(), policyLines(), laterLines(), ruleLines())
	for _, tt := range lines {
		t.Run(tt.name, tt.run)
	}
	t.Run("every_rule", func(t *testing.T) { testEveryRule(t, lines) })
	t.Run("V29_files", testFilesOfCertificates)
	t.Run("39_ten_mistakes", testTenMistakes)
	t.Run("78_flags_of_the_specification", testSpecFlags)
	t.Run("78_first_screens", testFirstScreens)

	t.Run("9_lists_add_up", func(t *testing.T) {
		cmd := must(t, nil, "--worker-urls", "http://a", "http://b", "--worker_urls", "http://c")
		want := []string{"http://a", "http://b", "http://c"}
		if diff := cmp.Diff(want, cmd.Launch.WorkerURLs); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("13_bootstrap_ports", testPrefillPorts)
	t.Run("8_all_ten", func(t *testing.T) {
		for _, name := range policy.Names() {
			if got := must(t, nil, "launch", "--policy", name, "--enable-igw").Launch.Policy; got != name {
				t.Errorf("policy %s became %s", name, got)
			}
		}
	})
	t.Run("19_aliases", testAliases)
	t.Run("20_assignment_modes", testAssignment)
	t.Run("22_overload", testOverload)
	t.Run("33_bucket_that_decode_inherits_warns", func(t *testing.T) {
		wantWarning(t, "launch --pd-disaggregation --prefill http://p1 --decode http://d1 --policy bucket", "--decode-policy")
	})
	t.Run("34_bucket_without_legs_warns", func(t *testing.T) {
		wantWarning(t, "launch --worker-urls http://w1 http://w2 --policy bucket", "--policy bucket")
	})
	t.Run("21_headers_replace_the_default", func(t *testing.T) {
		cmd := must(t, nil, "launch", "--routing-key-headers", "X-A", "x-smg-routing-key")
		if diff := cmp.Diff([]string{"x-a", "x-smg-routing-key"}, cmd.Launch.RoutingKeyHeaders); diff != "" {
			t.Error(diff)
		}
		cmd = must(t, nil, "launch", "--routing-key-headers", "--log-json")
		if len(cmd.Launch.RoutingKeyHeaders) != 0 {
			t.Errorf("an empty list gave %q", cmd.Launch.RoutingKeyHeaders)
		}
	})
	t.Run("25_environment", testEnvironment)
	t.Run("25_environment_of_legs", testLegsFromEnvironment)
	t.Run("24_variables", testLaterVariables)
	t.Run("39_three_mistakes", func(t *testing.T) {
		_, code, text := run(nil, "launch", "--port", "0", "--policy", "manual", "--worker-urls", "w1", "--cache-boundaries", "0")
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if code != 1 || len(lines) != 3 {
			t.Fatalf("exit %d and %d lines, want 1 and 3:\n%s", code, len(lines), text)
		}
		for i, flag := range []string{"--port", "--worker-urls", "--cache-boundaries"} {
			if !strings.HasPrefix(lines[i], "error: "+flag+" ") {
				t.Errorf("line %d does not name %s: %s", i, flag, lines[i])
			}
		}
	})
	t.Run("51_replicas", func(t *testing.T) {
		for _, flag := range []string{"--data-parallel-size", "--dp-size", "--dp_size"} {
			cmd := must(t, nil, "serve", "--backend", "sim", flag, "2", "--router-policy", "random")
			if cmd.Serve.Engines.Replicas != 2 || cmd.Serve.Policy != "random" || len(cmd.Notices) != 0 {
				t.Errorf("%s 2: %d engines, policy %s, notices %q", flag, cmd.Serve.Engines.Replicas, cmd.Serve.Policy, cmd.Notices)
			}
		}
		cmd := must(t, nil, "serve", "--backend", "sim", "--dp", "2")
		if diff := cmp.Diff([]string{"--dp", "2"}, cmd.Serve.Engines.EngineArgs); diff != "" || cmd.Serve.Engines.Replicas != 1 {
			t.Errorf("%d engines, %s", cmd.Serve.Engines.Replicas, diff)
		}
		if len(cmd.Warnings) != 1 || !strings.Contains(cmd.Warnings[0], "did you mean --dp-size?") {
			t.Errorf("warnings %q", cmd.Warnings)
		}
	})
	t.Run("50_one_worker_is_passthrough", func(t *testing.T) {
		cmd := must(t, nil, "serve", "--backend", "sim", "--router-policy", "cache_aware")
		if cmd.Launch.Policy != policy.Passthrough || !strings.Contains(strings.Join(cmd.Notices, "\n"), "--router-policy cache_aware") {
			t.Errorf("policy %s, notices %q", cmd.Launch.Policy, cmd.Notices)
		}
		cmd = must(t, nil, "serve", "--backend", "sim", "--router-retry-max-retries", "3", "--router-retry-jitter-factor=0")
		want := []string{"one worker: retries and circuit breaker are off, --router-retry-max-retries 3 does not apply, --router-retry-jitter-factor=0 does not apply"}
		if diff := cmp.Diff(want, cmd.Notices); diff != "" {
			t.Error(diff)
		}
		if r, b := cmd.Launch.Retry, cmd.Launch.Breaker; !r.Disabled || r.Max != 1 || !b.Disabled {
			t.Errorf("retries %+v, breaker %+v", r, b)
		}
	})
	t.Run("58_behind_dashes", func(t *testing.T) {
		cmd := must(t, nil, "serve", "--backend", "sim", "--", "--data-parallel-size", "2", "--", "--version")
		want := []string{"--data-parallel-size", "2", "--", "--version"}
		if diff := cmp.Diff(want, cmd.Serve.Engines.EngineArgs); diff != "" || cmd.Serve.Engines.Replicas != 1 {
			t.Errorf("%d engines, %s", cmd.Serve.Engines.Replicas, diff)
		}
	})
	t.Run("59_unknown_flags_reach_the_engine", func(t *testing.T) {
		cmd := must(t, nil, "serve", "--nonsense", "3", "--backend=sim", "-c", "4096", "--a_b=1", "x", "--temp", "-1",
			"--host", "::1", "--host", "::", "--log-level", "debug", "--", "--parallel", "2")
		want := []string{"--nonsense", "3", "-c", "4096", "--a_b=1", "x", "--temp", "-1", "--log-level", "debug", "--parallel", "2"}
		if diff := cmp.Diff(want, cmd.Serve.Engines.EngineArgs); diff != "" {
			t.Error(diff)
		}
		if cmd.Serve.Host != "::" {
			t.Errorf("host %q: of serve's own flags the last counts", cmd.Serve.Host)
		}
		if len(cmd.Warnings) != 0 {
			t.Errorf("warnings %q", cmd.Warnings)
		}
	})
	t.Run("help", testHelp)
	t.Run("credentials_are_never_shown", func(t *testing.T) {
		for _, args := range []string{
			"launch --worker-urls http://u:SECRET@w:1", "launch --worker-urls u:SECRET@w:1", "launch --worker-urls=ftp://u:SECRET@w:1/x",
		} {
			if _, code, text := run(nil, strings.Fields(args)...); code != 1 || strings.Contains(text, "SECRET") {
				t.Errorf("%s: exit %d\n%s", args, code, text)
			}
		}
	})
}

func testEnvironment(t *testing.T) {
	vars := map[string]string{
		"SMG_FLAG_POLICY": "random", "SMG_PORT": "tcp://10.0.0.1:30000", "SMG_FLAG_CLUSTER": "",
		"SMG_FLAG_WORKER_URLS": "http://a\n http://b", "SMG_FLAG_LOG_JSON": "true", "NO_COLOR": "1", "SMG_LOG_LEVEL": "warn",
	}
	if got := must(t, vars, "launch", "--policy", "round_robin").Launch; got.Policy != "round_robin" || !got.PolicySet {
		t.Errorf("policy %s, the command line comes first", got.Policy)
	}
	got := must(t, vars, "launch").Launch
	want := DefaultLaunch()
	want.Policy, want.PolicySet = "random", true
	want.PrefillPolicy, want.DecodePolicy = "random", "random"
	want.WorkerURLs = []string{"http://a", "http://b"}
	want.LogJSON, want.NoColor, want.LogLevel = true, true, 4
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}

	serve := must(t, map[string]string{"SMG_DEFAULT_BACKEND": "sim", "SMG_FLAG_POLICY": "random", "SMG_FLAG_PORT": "9"}, "serve", "--dp-size", "2")
	if s := serve.Serve; s.Engines.Backend != "sim" || s.Policy != "random" || s.Port != 8080 {
		t.Errorf("serve: backend %s, policy %s, port %d", s.Engines.Backend, s.Policy, s.Port)
	}

	for name, tt := range map[string]struct {
		vars map[string]string
		want string
	}{
		"bad value names the variable": {map[string]string{"SMG_FLAG_PORT": "x"}, "SMG_FLAG_PORT=x"},
		"bad bool names the variable":  {map[string]string{"SMG_FLAG_LOG_JSON": "1"}, "SMG_FLAG_LOG_JSON=1"},
	} {
		if _, code, text := run(tt.vars, "launch"); code != 2 || !strings.Contains(text, tt.want) {
			t.Errorf("%s: exit %d\n%s", name, code, text)
		}
	}
}

func testHelp(t *testing.T) {
	_, code, text := run(nil, "--help")
	if n := strings.Count(text, "\n"); code != 0 || n > 40 {
		t.Errorf("exit %d, %d lines", code, n)
	}
	for _, args := range [][]string{{"-h"}, {"help"}, {"help", "-x"}, {"--policy", "random", "-h"}} {
		if _, code, other := run(nil, args...); code != 0 || other != text {
			t.Errorf("smg %q: exit %d, not the first screen", args, code)
		}
	}
	_, _, launch := run(nil, "launch", "--help")
	for _, args := range [][]string{{"help", "launch"}, {"help", "start"}, {"start", "-h"}, {"launch", "--nonsense", "-h"}} {
		if _, code, other := run(nil, args...); code != 0 || other != launch {
			t.Errorf("smg %q: exit %d, not the help of launch", args, code)
		}
	}
	_, _, list := run(nil, "launch", "--help=policy")
	for _, p := range policy.Names() {
		if !strings.Contains(list, p) {
			t.Errorf("--help=policy lacks %s", p)
		}
	}
	for command, in := range map[string]Scope{nameLaunch: InLaunch, nameServe: InRouter | InServe} {
		_, code, all := run(nil, command, "--help=all")
		_, _, groups := run(nil, command, "--help=groups")
		for _, e := range newSet(command, Table()).entries {
			if code != 0 || !strings.Contains(all, "--"+e.name) || !strings.Contains(groups, "--"+e.name) {
				t.Errorf("help of %s lacks --%s", command, e.name)
			}
			if e.In&in == 0 {
				t.Errorf("%s has --%s", command, e.name)
			}
			if _, _, one := run(nil, command, "--help="+e.name); !strings.Contains(one, e.Help) {
				t.Errorf("smg %s --help=%s does not show it:\n%s", command, e.name, one)
			}
		}
	}
	if _, code, text := run(nil, "launch", "--help=HEADERS"); code != 0 || !strings.Contains(text, "--routing-key-headers") {
		t.Errorf("--help=HEADERS: exit %d\n%s", code, text)
	}
	cmd, err := Parse(Input{Args: []string{"serve", "--help=all"}, Env: env(nil), Width: 80})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(cmd.Output) {
		if strings.HasPrefix(line, "  ") && len(line) > 81 {
			t.Errorf("longer than the terminal: %q", line)
		}
	}
}

func TestParseVerbs(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want Verb
		sim  []string
	}{
		{"bare flags", []string{"--log-json"}, RunLaunch, nil},
		{"launch", []string{"launch"}, RunLaunch, nil},
		{"start", []string{"start", "--policy=random"}, RunLaunch, nil},
		{"serve", []string{"serve", "--backend", "sim"}, RunServe, nil},
		{"sim", []string{"sim", "--x", "y", "-h"}, RunSim, []string{"--x", "y", "-h"}},
		{"help sim", []string{"help", "sim"}, RunSim, []string{"--help"}},
		{"version of sim", []string{"sim", "--version"}, Print, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := must(t, nil, tt.args...)
			if cmd.Verb != tt.want || !slices.Equal(cmd.SimArgs, tt.sim) {
				t.Errorf("verb %d, args %q", cmd.Verb, cmd.SimArgs)
			}
		})
	}
}
