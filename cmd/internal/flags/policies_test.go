package flags

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/worker"
)

// policyLines are the lines of TestCLI about policies, loads and overload.
func policyLines() []lineCase {
	const (
		one    = "launch --worker-urls http://w1:8000 "
		two    = "launch --worker-urls http://w1:8000 http://w2:8000 "
		pd     = "launch --pd-disaggregation "
		epd    = "launch --epd-disaggregation "
		p1, p2 = "--prefill http://p1:8000 ", "--prefill http://p2:8000 "
		d1, d2 = "--decode http://d1:8000 ", "--decode http://d2:8000 "
		sim    = "serve --backend sim "
		roles  = sim + "--prefill-replicas 2 --decode-replicas "
		metric = "expected_wait, requests, least_requests"
	)
	return []lineCase{
		{"18_no_number", one + "--cache-boundaries 2048,big", 2, []string{`"big" is not a whole number`, "--cache-boundaries 2048,big"}},
		{"18_empty_item", one + "--cache-boundaries 2048,,8192", 2, []string{`"" is not a whole number`}},
		{"18_empty", one + "--cache-boundaries=", 2, []string{`"" is not a whole number`}},
		{"18_descending", one + "--cache-boundaries 8192,2048", 1, []string{"--cache-boundaries 2048", "above the boundary before it"}},
		{"18_zero", one + "--cache-boundaries 0,2048", 1, []string{"--cache-boundaries 0", "must be above 0"}},
		{"18_twice", one + "--cache-boundaries 2048,2048", 1, []string{"--cache-boundaries 2048"}},
		{"18_whatever_the_policy", one + "--policy random --cache-boundaries 8192,2048", 1, []string{"--cache-boundaries 2048"}},
		{"18_ascending", one + "--policy random --cache-boundaries 2048,8192", 0, nil},
		{"18_serve", sim + "--router-cache-boundaries 8192,2048", 1, []string{"--router-cache-boundaries 2048"}},
		{"22_no_waiting", one + "--worker-overload-waiting-requests 0", 2, []string{"0 is out of range"}},
		{"22_no_usage", one + "--worker-overload-token-usage 0", 2, []string{"0 is out of range", "above 0, at most 1"}},
		{"22_usage_above_one", one + "--worker-overload-token-usage 1.5", 2, []string{"1.5 is out of range"}},
		{"22_usage_below_zero", one + "--worker-overload-token-usage -0.5", 2, []string{"-0.5 is out of range"}},
		{"22_usage_is_no_number", one + "--worker-overload-token-usage NaN", 2, []string{"NaN is out of range"}},
		{"22_least_and_most", one + "--worker-overload-waiting-requests 1 --worker-overload-token-usage 1.0", 0, nil},
		{"23_requests", two + "--policy power_of_two --power-of-two-load-metric requests", 0, nil},
		{"23_bogus", two + "--policy power_of_two --power-of-two-load-metric bogus", 2, []string{`"bogus" is not a known load metric`, metric}},
		{"23_bogus_of_another_policy", two + "--power-of-two-load-metric bogus", 2, []string{metric}},
		{"27_one", one + "--policy power_of_two", 1, []string{"power_of_two needs 2 workers, there is 1", "--policy power_of_two", "use --policy passthrough for one worker", "--enable-igw"}},
		{"27_none", "launch --policy power_of_two", 1, []string{"there are none"}},
		{"27_igw", one + "--policy power_of_two --enable-igw", 0, nil},
		{"27_two", two + "--policy power_of_two", 0, nil},
		{"27_serve", sim + "--dp-size 2 --router-policy power_of_two", 0, nil},
		{"28_two_in_total", pd + "--policy power_of_two " + p1 + d1, 0, nil},
		{"28_one_in_total", pd + "--policy power_of_two " + p1, 1, []string{"there is 1", "add workers, or --enable-igw"}},
		{"29_decode_one", pd + "--decode-policy power_of_two " + p1 + p2 + d1, 1, []string{"--decode-policy power_of_two", "power_of_two needs 2 workers, on the decode leg there is 1", "add another --decode, or use --decode-policy least_load, or --enable-igw"}},
		{"29_decode_two", pd + "--decode-policy power_of_two " + p1 + d1 + d2, 0, nil},
		{"29_prefill_one", pd + "--prefill-policy power_of_two " + p1 + d1 + d2, 1, []string{"on the prefill leg there is 1", "add another --prefill"}},
		{"29_igw", pd + "--prefill-policy power_of_two --enable-igw " + p1 + d1, 0, nil},
		{"30_effective", epd + "--policy power_of_two " + p1 + d1 + d2, 1, []string{"--policy power_of_two", "on the prefill leg there is 1"}},
		{"30_encoders_count_in_total", epd + "--policy power_of_two --enable-igw --encode http://e1:8000 " + p1 + d1, 0, nil},
		{"30_two_each", epd + "--policy power_of_two " + p1 + p2 + d1 + d2, 0, nil},
		{"31_bucket_and_power_of_two", pd + "--prefill http://prefill1:8000 9001 --prefill http://prefill2:8000 9002 " + d1 + d2 + "--prefill-policy bucket --decode-policy power_of_two", 0, nil},
		{"32_bucket_decodes", pd + p1 + d1 + "--decode-policy bucket", 1, []string{"bucket serves the prefill leg only: use --prefill-policy bucket", "--decode-policy bucket", "for the decode leg use one of random"}},
		{"32_bucket_decodes_with_igw", pd + p1 + d1 + "--decode-policy bucket --enable-igw", 1, []string{"--decode-policy bucket"}},
		{"32_bucket_decodes_nowhere", one + "--decode-policy bucket", 1, []string{"--decode-policy bucket"}},
		{"32_serve", roles + "2 --router-decode-policy bucket", 1, []string{"use --router-prefill-policy bucket", "--router-decode-policy bucket"}},
		{"33_inherited_in_epd", epd + p1 + d1 + "--policy bucket --enable-igw", 1, []string{"the decode leg inherits it", "add --decode-policy, such as power_of_two"}},
		{"33_not_inherited_in_epd", epd + p1 + d1 + "--policy bucket --decode-policy random", 0, nil},
		{"35_least_load", pd + p1 + d1 + "--prefill-policy least_load --decode-policy least_load", 0, nil},
		{"37_threshold", one + "--cache-threshold 1.5", 1, []string{"--cache-threshold 1.5", "must be between 0 and 1"}},
		{"37_rel", one + "--policy cache_aware --balance-rel-threshold 0.9", 1, []string{"--balance-rel-threshold 0.9"}},
		{"37_tree", one + "--max-tree-size 0", 1, []string{"--max-tree-size 0"}},
		{"37_not_in_use", one + "--policy random --cache-threshold 1.5 --balance-rel-threshold 0.9 --max-tree-size 0", 0, nil},
		{"37_of_a_leg", pd + p1 + d1 + "--policy random --prefill-policy cache_aware --cache-threshold 1.5", 1, []string{"--cache-threshold 1.5"}},
		{"37_of_no_leg", one + "--policy random --prefill-policy cache_aware --cache-threshold 1.5", 0, nil},
		{"71_power_of_two", roles + "1 --router-prefill-policy bucket --router-decode-policy power_of_two", 1, []string{"--router-decode-policy power_of_two", "raise --decode-replicas, or use --router-decode-policy least_load, or --router-enable-igw"}},
		{"71_bucket_and_power_of_two", roles + "2 --router-prefill-policy bucket --router-decode-policy power_of_two", 0, nil},

		{"V3_is_no_number", one + "--cache-threshold NaN", 1, []string{"--cache-threshold NaN"}},
		{"V4_bucket", one + "--policy bucket --balance-rel-threshold 0.9", 1, []string{"--balance-rel-threshold 0.9"}},
		{"V5", one + "--eviction-interval-secs 0 --block-size 0", 1, []string{"--eviction-interval 0", "--block-size 0"}},
		{"V5_pins_for_ever", one + "--policy manual --eviction-interval 0", 0, nil},
		{"V6", one + "--balance-token-usage-threshold 0 --overload-token-usage-threshold -1", 1, []string{"--balance-token-usage-threshold 0", "--overload-token-usage-threshold -1"}},
		{"V6_above_one", one + "--balance-token-usage-threshold 2 --overload-token-usage-threshold inf", 0, nil},
		{"V7", one + "--overlap-decay inf --selection-temperature -0.1", 1, []string{"--overlap-decay +Inf", "--selection-temperature -0.1"}},
		{"V8", one + "--cache-ttl-secs 0", 2, []string{"0 is out of range"}},
		{"V9", one + "--cache-index hash", 1, []string{"--cache-index hash", "needs --cache-boundaries"}},
		{"V9_serve", sim + "--dp-size 2 --router-cache-index hash", 1, []string{"--router-cache-index hash", "needs --router-cache-boundaries"}},
		{"V9_with_boundaries", one + "--cache-index hash --cache-boundaries 2048", 0, nil},
		{"V9_unknown", one + "--cache-index list", 2, []string{"tree, hash"}},
		{
			"V11", one + "--policy least_load --least-load-kv-pressure-weight -1 --least-load-mean-prefill-tokens 0 --least-load-default-throughput 0", 1,
			[]string{"--least-load-kv-pressure-weight -1", "--least-load-mean-prefill-tokens 0", "--least-load-default-throughput 0"},
		},
		{"V11_zeros_that_mean_something", one + "--policy least_load --least-load-kv-pressure-weight 0 --least-load-max-waiting-requests 0", 0, nil},
		{"V12", one + "--policy prefix_hash --prefix-token-count 0 --prefix-hash-load-factor 0.99", 1, []string{"--prefix-token-count 0", "--prefix-hash-load-factor 0.99"}},
		{"V12_purely_relative", one + "--policy prefix_hash --prefix-hash-balance-abs-threshold 0", 0, nil},
		{"V13", one + "--policy bucket --bucket-adjust-interval-secs 0", 1, []string{"--bucket-adjust-interval-secs 0"}},
		{"V13_too_long", one + "--policy bucket --bucket-adjust-interval-secs 4294967296", 1, []string{"--bucket-adjust-interval-secs 4294967296"}},
		{"V13_longest", one + "--policy bucket --bucket-adjust-interval-secs 4294967295", 0, nil},
		{"V13_not_in_use", one + "--bucket-adjust-interval-secs 0", 0, nil},
		{"V36_alias_without_model", one + "--model-alias a=", 2, []string{"is not ALIAS=MODEL"}},
		{"V36_alias_of_itself", one + "--model-alias a=a", 2, []string{"is not ALIAS=MODEL"}},
		{"V36_alias_of_two", one + "--model-alias a=b --model-alias a=c", 1, []string{"--model-alias a=c", "another name of b"}},
		{"drain_settle", one + "--drain-settle-secs -1", 2, []string{"out of range"}},
		{"V16_loads", one + "--load-monitor-interval 0", 1, []string{"--load-monitor-interval 0"}},
		{"V16_loads_of_a_selector", "selector --leg decode --nats-url n --load-monitor-interval 0", 1, []string{"--load-monitor-interval 0"}},
		{"negative_margin", one + "--balance-abs-threshold -1", 2, []string{"-1 is out of range"}},
		{"assignment_mode", one + "--assignment-mode best", 2, policy.Assignments()},
		{"what_two_policies_share_is_said_once", pd + p1 + d1 + "--prefill-policy bucket --balance-rel-threshold 0.9", 1, []string{"error: must be a finite number, at least 1.0\n  --balance-rel-threshold 0.9\n"}},

		{"selector_settings", "selector --leg decode --nats-url n --cache-threshold 2", 1, []string{"--cache-threshold 2"}},
		{"selector_one_is_not_counted", "selector --leg decode --nats-url n --policy power_of_two", 0, nil},
		{"ingress_has_no_settings", "ingress --nats-url n --cache-threshold 0.3", 2, []string{"--cache-threshold is a flag of smg selector"}},
		{"alias_twice", one + "--cache-threshold 0.3 --cache-match-threshold 0.3", 2, []string{"--cache-threshold is given twice"}},
	}
}

// testAliases is case 19, with an alias for each flag that has one.
func testAliases(t *testing.T) {
	canonical := strings.Fields("--cache-threshold 0.6 --balance-abs-threshold 8 --balance-rel-threshold 1.2 --max-idle-secs 300 --routing-key-override --eviction-interval 60 --remove-unhealthy-workers")
	aliases := strings.Fields("--cache-match-threshold 0.6 --spill-abs-threshold 8 --spill-rel-threshold 1.2 --sticky-key-idle-secs 300 --sticky-sessions --eviction-interval-secs 60 --worker-auto-recovery")
	want := must(t, nil, append([]string{"launch"}, canonical...)...).Launch
	if diff := cmp.Diff(want, must(t, nil, append([]string{"launch"}, aliases...)...).Launch); diff != "" {
		t.Error(diff)
	}
	p := want.Policies
	if b := (policy.Balance{Abs: 8, Rel: 1.2}); p.CacheAware.Balance != b || p.Bucket.Balance != b || p.CacheAware.Threshold != 0.6 {
		t.Errorf("settings %+v", p)
	}
	if p.Pins.MaxIdle != 5*time.Minute || !p.Sticky.On || p.Pins.EvictionInterval != time.Minute || p.CacheAware.EvictionInterval != time.Minute {
		t.Errorf("pins %+v", p)
	}
	serve := []string{"serve", "--backend", "sim", "--dp-size", "2"}
	for _, a := range aliases {
		serve = append(serve, strings.Replace(a, "--", "--router-", 1))
	}
	if diff := cmp.Diff(p, must(t, nil, serve...).Launch.Policies); diff != "" {
		t.Error(diff)
	}
}

// testAssignment is case 20.
func testAssignment(t *testing.T) {
	tests := []struct {
		name, args     string
		on             bool
		manual, sticky string
	}{
		{"neither", "", false, policy.AssignRandom, policy.AssignDelegate},
		{"override", "--routing-key-override", true, policy.AssignRandom, policy.AssignDelegate},
		{"manual and override", "--policy manual --routing-key-override", true, policy.AssignRandom, policy.AssignDelegate},
		{"explicit", "--policy manual --routing-key-override --assignment-mode min_load", true, policy.AssignMinLoad, policy.AssignMinLoad},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := must(t, nil, append([]string{"launch"}, strings.Fields(tt.args)...)...).Launch.Policies
			if c.Sticky.On != tt.on || c.Pins.Assignment != tt.manual || c.Sticky.Assignment != tt.sticky {
				t.Errorf("sticky %+v, pins %+v", c.Sticky, c.Pins)
			}
		})
	}
}

// testOverload is case 22 where it is accepted: what each of the three flags sets.
func testOverload(t *testing.T) {
	tests := []struct {
		name, args string
		waiting    int
		usage      float64
	}{
		{"off", "", 0, 0},
		{"on", "--worker-overload-protection", 0, 0.9},
		{"waiting alone", "--worker-overload-waiting-requests 4", 4, 0},
		{"usage alone", "--worker-overload-token-usage 0.5", 0, 0.5},
		{"on with a usage", "--worker-overload-protection --worker-overload-token-usage 0.5", 0, 0.5},
		{"on with waiting", "--worker-overload-protection --worker-overload-waiting-requests 4", 4, 0.9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := must(t, nil, append([]string{"launch"}, strings.Fields(tt.args)...)...).Launch
			if l.OverloadWaiting != tt.waiting || l.OverloadTokenUsage != tt.usage {
				t.Errorf("waiting %d, usage %v", l.OverloadWaiting, l.OverloadTokenUsage)
			}
		})
	}
}

// TestPolicyConfig goes through all settings of all policies, and loads.
func TestPolicyConfig(t *testing.T) {
	args := "--policy least_load --cache-threshold 0.25 --balance-abs-threshold 1 --balance-rel-threshold 2 --balance-token-usage-threshold 0.3 " +
		"--overload-token-usage-threshold 0.95 --overlap-decay 4 --selection-temperature 0.5 --eviction-interval 6 --max-tree-size 7 --block-size 8 " +
		"--cache-index hash --cache-boundaries 9,10 --cache-ttl-secs 11 --kv-indexer-ttl-secs 12 --kv-indexer-max-entries 13 --prefix-token-count 14 " +
		"--prefix-hash-load-factor 1.5 --prefix-hash-balance-abs-threshold 16 --power-of-two-load-metric requests --least-load-kv-pressure-weight 0.17 " +
		"--least-load-default-throughput 18 --least-load-mean-prefill-tokens 19 --least-load-max-waiting-requests 20 --bucket-adjust-interval-secs 21 " +
		"--routing-key-override --assignment-mode min_group --max-idle-secs 22"
	loads := " --load-monitor-interval 23 --disable-load-monitoring --engine-metrics"
	want := policy.Config{
		Policy:     policy.LeastLoad,
		Sticky:     policy.StickyConfig{On: true, Assignment: policy.AssignMinGroup},
		LeastLoad:  policy.LeastLoadConfig{KVPressureWeight: 0.17, DefaultThroughput: 18, MeanTokens: 19, MaxWaiting: 20},
		PowerOfTwo: policy.PowerOfTwoConfig{Metric: policy.Requests},
		CacheAware: policy.CacheAwareConfig{
			Balance: policy.Balance{Abs: 1, Rel: 2}, Threshold: 0.25, EvictionInterval: 6 * time.Second, MaxTreeSize: 7, BlockSize: 8,
			UsageSpread: 0.3, UsageCeiling: 0.95, OverlapDecay: 4, Temperature: 0.5, Index: policy.HashIndex, TTL: 11 * time.Second,
			KVTTL: 12 * time.Second, KVMaxBlocks: 13,
		},
		PrefixHash: policy.PrefixHashConfig{TokenCount: 14, LoadFactor: 1.5, BalanceAbs: 16},
		Bucket:     policy.BucketConfig{Balance: policy.Balance{Abs: 1, Rel: 2}, Interval: 21 * time.Second},
		Pins:       policy.PinConfig{Assignment: policy.AssignMinGroup, MaxIdle: 22 * time.Second, EvictionInterval: 6 * time.Second},
		Boundaries: []int{9, 10},
	}
	cmd := must(t, nil, append([]string{"launch", "--topology", "split"}, strings.Fields(args+loads)...)...)
	l := cmd.Launch
	if diff := cmp.Diff(want, l.PolicyConfig(l.Policy)); diff != "" {
		t.Error(diff)
	}
	if l.LoadMonitorInterval != 23*time.Second || !l.DisableLoadMonitoring || !l.EngineMetrics {
		t.Errorf("loads every %s, disabled %t, engine metrics %t", l.LoadMonitorInterval, l.DisableLoadMonitoring, l.EngineMetrics)
	}

	t.Run("in serve", func(t *testing.T) {
		given := []string{"serve", "--backend", "sim", "--dp-size", "2"}
		for a := range strings.FieldsSeq(args + loads) {
			given = append(given, strings.Replace(a, "--", "--router-", 1))
		}
		got := must(t, nil, given...).Launch
		if diff := cmp.Diff(want, got.PolicyConfig(got.Policy)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("in a child process", func(t *testing.T) {
		got := child(t, nil, "selector", cmd.SelectorArgs(worker.Regular, l.Policy)).Launch
		if diff := cmp.Diff(want, got.PolicyConfig(got.Policy)); diff != "" {
			t.Error(diff)
		}
		if got.LoadMonitorInterval != 23*time.Second || !got.DisableLoadMonitoring || !got.EngineMetrics {
			t.Errorf("loads %+v", got)
		}
		if in := child(t, nil, "ingress", cmd.IngressArgs()).Launch; !in.Policies.Sticky.On || in.LoadMonitorInterval != 23*time.Second {
			t.Errorf("ingress %+v", in)
		}
	})
	t.Run("by the environment of a parent", func(t *testing.T) {
		vars := map[string]string{"SMG_FLAG_CACHE_BOUNDARIES": "9,10", "SMG_FLAG_ROUTING_KEY_OVERRIDE": "true", "SMG_FLAG_MAX_IDLE_SECS": "0"}
		parent := must(t, vars, "launch", "--topology", "split")
		got := child(t, nil, "selector", parent.SelectorArgs(worker.Regular, parent.Launch.Policy)).Launch
		if diff := cmp.Diff(parent.Launch.Policies, got.Policies); diff != "" || !slices.Equal(got.Policies.Boundaries, []int{9, 10}) {
			t.Errorf("%v %s", got.Policies.Boundaries, diff)
		}
	})
	t.Run("each has its own boundaries", func(t *testing.T) {
		l.PolicyConfig(policy.PrefixHash).Boundaries[0] = 1
		if l.Policies.Boundaries[0] != 9 {
			t.Error("two legs share a slice")
		}
	})
}

// child is a command that a parent has written.
func child(t *testing.T, vars map[string]string, command string, args []string) *Command {
	t.Helper()
	cmd, err := Parse(Input{Command: command, Args: append(args, "--nats-url=n"), Env: env(vars), Child: true})
	if err == nil {
		err = cmd.Validate(worker.CanonicalURL)
	}
	if err != nil {
		t.Fatalf("%s %q: %v", command, args, err)
	}
	return cmd
}

func TestPolicyWarnings(t *testing.T) {
	const (
		w2       = " --worker-urls http://w1 http://w2"
		pd       = "launch --pd-disaggregation --prefill http://p1 --prefill http://p2 --decode http://d1"
		outside  = "--policy bucket has its buckets on a prefill leg only; here it picks workers at random"
		first    = "--policy passthrough sends every request to the first available worker; the others wait until it is not"
		selector = "selector --nats-url n --policy bucket --leg "
	)
	tests := []struct {
		name, args string
		want       []string
	}{
		{"several behind passthrough", "launch --policy passthrough" + w2, []string{first}},
		{"one behind passthrough", "launch --policy passthrough --worker-urls http://w1", nil},
		{"serve", "serve --backend sim --dp-size 2 --router-policy passthrough", []string{strings.Replace(first, "--", "--router-", 1)}},
		{"serve, one", "serve --backend sim --router-policy passthrough", nil},
		{"passthrough inherited", pd + " --policy passthrough", []string{first}},
		{"passthrough inherited by a leg of one", pd + " --policy passthrough --prefill-policy random", nil},
		{"bucket of regular workers", "launch --policy bucket" + w2, []string{outside}},
		{"bucket that decode inherits", pd + " --policy bucket", []string{"--policy bucket: the decode leg inherits it without its buckets and picks workers at random; give it a policy with --decode-policy"}},
		{"bucket that prefill inherits", pd + " --policy bucket --decode-policy random", nil},
		{"bucket of prefill", pd + " --prefill-policy bucket --decode-policy random", nil},
		{"selector of prefill", selector + "prefill", nil},
		{"selector of regular workers", selector + "regular", []string{outside}},
		{"ingress", "ingress --nats-url n" + w2, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, must(t, nil, strings.Fields(tt.args)...).Warnings, cmpEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// wantWarning parses what has to be accepted with one warning that says word.
func wantWarning(t *testing.T, line, word string) {
	t.Helper()
	if got := must(t, nil, strings.Fields(line)...).Warnings; len(got) != 1 || !strings.Contains(got[0], word) {
		t.Errorf("%s: warnings %q", line, got)
	}
}

// TestPolicies holds the start-up rules about policies of legs.
func TestPolicies(t *testing.T) {
	const (
		pd = "launch --pd-disaggregation --prefill http://p1:8000 --decode http://d1:8000 "
		p2 = "--prefill http://p2:8000 "
		d2 = "--decode http://d2:8000 "
	)
	tests := []struct {
		name, args      string
		code            int
		prefill, decode string
		warning         string
	}{
		{"LG-1 one decode worker for power_of_two", pd + "--decode-policy power_of_two", 1, "", "", ""},
		{"LG-1 the same with IGW", pd + "--decode-policy power_of_two --enable-igw", 0, policy.CacheAware, policy.PowerOfTwo, ""},
		{"LG-2 bucket decodes", pd + "--decode-policy bucket", 1, "", "", ""},
		{"LG-3 bucket and power_of_two", pd + p2 + d2 + "--prefill-policy bucket --decode-policy power_of_two", 0, policy.Bucket, policy.PowerOfTwo, ""},
		{"LG-4 bucket inherited", pd + "--policy bucket", 0, policy.Bucket, policy.Bucket, "--decode-policy"},
		{"LG-4 bucket inherited with IGW", pd + "--policy bucket --enable-igw", 0, policy.Bucket, policy.Bucket, "--decode-policy"},
		{"LG-5 encode cache_aware", "launch --epd-disaggregation --encode-policy cache_aware", 2, "", "", ""},
		{"LG-5 encode least_load", "launch --epd-disaggregation --encode-policy least_load", 2, "", "", ""},
		{"LG-6 prefill passthrough", pd + "--prefill-policy passthrough", 2, "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd, code, text := run(nil, strings.Fields(tt.args)...)
			if code != tt.code {
				t.Fatalf("exit %d, want %d\n%s", code, tt.code, text)
			}
			if code != 0 {
				return
			}
			if l := cmd.Launch; l.PrefillPolicy != tt.prefill || l.DecodePolicy != tt.decode {
				t.Errorf("prefill %s, decode %s", l.PrefillPolicy, l.DecodePolicy)
			}
			if got := strings.Join(cmd.Warnings, "\n"); (got == "") != (tt.warning == "") || !strings.Contains(got, tt.warning) {
				t.Errorf("warnings %q", cmd.Warnings)
			}
		})
	}

	t.Run("LG-4 a decode child is started", func(t *testing.T) {
		parent := must(t, nil, strings.Fields(pd+"--policy bucket --topology split")...)
		got := child(t, nil, "selector", parent.SelectorArgs(worker.Decode, parent.Launch.DecodePolicy)).Launch
		if got.Policy != policy.Bucket || got.Leg != worker.Decode {
			t.Errorf("policy %s of leg %s", got.Policy, got.Leg)
		}
	})
}

// TestHelpOfPolicies is the rest of what case 78 wants.
func TestHelpOfPolicies(t *testing.T) {
	for command, prefix := range map[string]string{"launch": "--", "serve": "--router-", "selector": "--"} {
		_, code, text := run(nil, command, "--help=policy")
		list, _, _ := strings.Cut(text, "\n\n")
		if n := strings.Count(list, "\n  ") - strings.Count(list, "\n   "); code != 0 || n != 10 {
			t.Errorf("%s: exit %d, %d policies\n%s", command, code, n, list)
		}
		for _, want := range []string{
			"cache_aware", "(the default)", "tuned by " + prefix + "power-of-two-load-metric\n",
			"tuned by " + prefix + "eviction-interval, " + prefix + "assignment-mode, " + prefix + "max-idle-secs\n",
			"Sticky sessions (" + prefix + "routing-key-override)",
		} {
			if !strings.Contains(list, want) {
				t.Errorf("%s: help lacks %q\n%s", command, want, list)
			}
		}
	}
	if _, code, text := run(nil, "launch", "--help=cache"); code != 0 || !strings.Contains(text, "--cache-threshold") || !strings.Contains(text, "--cache-boundaries") {
		t.Errorf("--help=cache: exit %d\n%s", code, text)
	}
	if _, _, text := run(nil, "serve", "--help=bucket"); !strings.Contains(text, "\n        How far") {
		t.Errorf("sentences are not indented where all names are long:\n%s", text)
	}
	cmd, err := Parse(Input{Args: []string{"launch", "--help=policy"}, Env: env(nil), Width: 80})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(cmd.Output) {
		if len(line) > 81 && strings.HasPrefix(line, "  ") {
			t.Errorf("longer than the terminal: %q", line)
		}
	}
	tuned := map[string]bool{}
	for _, d := range Table() {
		for _, name := range d.Tunes {
			tuned[name] = true
			if !slices.Contains(policy.Names(), name) && name != stickySessions {
				t.Errorf("--%s tunes %q, which is no policy", d.Name, name)
			}
		}
	}
	if len(tuned) != 8 { // all but random, round_robin and passthrough, and sticky sessions
		t.Errorf("policies that can be tuned: %v", tuned)
	}
}
