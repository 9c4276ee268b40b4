package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// must are the metrics of gateway.md 5.2 and 5.3 that every gateway shows after a run in
// which everything happens, with their labels; policies are those of single policies.
var (
	must = map[string]string{
		"smg_worker_requests_active": "worker", "smg_worker_selection_total": "connection_mode model policy worker_type",
		"smg_worker_health": "worker", "smg_worker_cb_state": "worker", "smg_workers_overloaded": "model", "smg_worker_overload_shed_total": "stage",
		"smg_worker_pool_size": "connection_mode model worker_type", "smg_engine_running_requests": "dp_rank model worker",
		"smg_engine_waiting_requests": "dp_rank model worker", "smg_engine_token_usage": "dp_rank model worker",
		"smg_engine_gen_throughput": "dp_rank model worker", "smg_engine_cache_hit_rate": "dp_rank model worker",
		"smg_worker_retries_total": "endpoint worker_type", "smg_worker_retries_exhausted_total": "endpoint worker_type",
		"smg_worker_routing_keys_active": "worker", "smg_selector_requests_active": "worker", "smg_bootstrap_conflicts": "",
		"smg_router_request_body_path_total": "path reason",
	}
	mustOfPolicies = map[string]string{
		"smg_cache_aware_policy_branch_total": "branch", "smg_prefix_hash_policy_branch_total": "branch",
		"smg_consistent_hashing_policy_branch_total": "branch", "smg_manual_policy_branch_total": "branch",
		"smg_manual_policy_cache_entries": "", "smg_routing_key_source_total": "source",
	}
	mustOfLegs = map[string]string{
		"smg_engine_pd_kv_transfer_latency_ms": "dp_rank role worker", "smg_engine_pd_kv_transfer_speed_gb_s": "dp_rank role worker",
		"smg_engine_pd_prefill_queue_reqs": "dp_rank role worker", "smg_engine_pd_decode_queue_reqs": "dp_rank role worker",
	}
)

// labelsOf are the metrics of a page, with the names of their labels.
func labelsOf(page string) map[string]string {
	all := map[string]string{}
	name := regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "smg_") {
			continue
		}
		metric, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		metric, _, _ = strings.Cut(metric, "{")
		var labels []string
		for _, m := range name.FindAllStringSubmatch(line, -1) {
			labels = append(labels, m[1])
		}
		slices.Sort(labels)
		all[metric] = strings.Join(labels, " ")
	}
	return all
}

// musts waits until a gateway shows all of some metrics, with their labels.
func (g *gateway) musts(t *testing.T, wanted ...map[string]string) {
	t.Helper()
	want := map[string]string{}
	for _, w := range wanted {
		maps.Copy(want, w)
	}
	awaitSame(t, "metrics", want, func() map[string]string {
		all := labelsOf(get(t, g.metrics))
		maps.DeleteFunc(all, func(name, _ string) bool { _, ok := want[name]; return !ok })
		return all
	})
}

// seenModels are the policies that the workers of a model ask for by their labels; the
// model has the policy's name.
var seenModels = []string{"cache_aware", "prefix_hash", "least_load", "power_of_two", "manual", "bucket", "passthrough", "consistent_hashing"}

// TestGatewaySeen is what an operator sees of a gateway of regular workers, whose models
// have every policy.
func TestGatewaySeen(t *testing.T) {
	parallel(t)
	for _, topology := range []string{"single", "split"} {
		t.Run(topology, func(t *testing.T) {
			s := startSeen(t, "--topology", topology)
			for _, c := range []struct {
				name string
				run  func(t *testing.T, s *seenSite)
			}{
				{"65_lines_carry_the_id", linesCarryTheID},
				{"63_decision_lines", decisionLines},
				{"64_misuse_is_told", misuseIsTold},
				{"60_metrics_of_regular_workers", regularMetrics},
				{"62_buckets", bucketsOfDurations},
			} {
				t.Run(c.name, func(t *testing.T) {
					s.t = t
					c.run(t, s)
				})
			}
			s.t = t
			s.stop(0)
			for _, phase := range []string{"stopping", "draining", "all requests have ended|cutting requests", "the API has stopped", "exit"} {
				s.says(`"message":"(` + phase + `)"`)
			}
		})
	}
}

// seenSite is a gateway that logs everything for machines, here and to a folder.
type seenSite struct {
	*gateway
	logs  string
	by    map[string][]string // URLs of workers, by model
	first *simtest.Engine     // of passthrough
}

func startSeen(t *testing.T, args ...string) *seenSite {
	t.Helper()
	s := &seenSite{gateway: &gateway{}, logs: filepath.Join(t.TempDir(), "a", "b"), by: map[string][]string{}}
	all := append([]string{
		"launch", "--host", "127.0.0.1", "--log-json", "--log-level", "debug", "--log-requests", "--log-dir", s.logs, "--shutdown-grace-period-secs", "0",
		"--retry-max-retries", "2", "--retry-initial-backoff-ms", "1", "--health-check-interval-secs", "1", "--health-failure-threshold", "1",
	}, gatewayArgs(t, "")...)
	s.process = start(t, "smg", append(all, args...)...)
	m := s.says(`"api":"(http://[^"]+)"`)
	s.url = m[1]
	s.metrics = s.says(`"metrics":"(http://[^"]+)"`)[1]
	for _, name := range seenModels {
		cfg := simtest.Config()
		cfg.Model = name
		for i, e := range simtest.StartN(t, 2, cfg) {
			if name == "passthrough" && i == 0 {
				s.first = e
			}
			s.by[name] = append(s.by[name], e.URL)
			body := fmt.Sprintf(`{"url":%q,"labels":{"policy":%q}}`, e.URL, name)
			if a := do(t, http.MethodPost, s.url+"/workers", body); a.status != http.StatusAccepted {
				t.Fatalf("%d %s", a.status, a.body)
			}
			// One after the other: the first is the first that was registered.
			await(t, "the worker to be ready", func() bool {
				w, _ := s.worker(e.URL)
				return w.Healthy && gauges(t, s.metrics, "smg_worker_health")[fmt.Sprintf("{worker=%q}", e.URL)] == 1
			})
		}
	}
	return s
}

// ask has a model answer, and returns who did.
func (s *seenSite) ask(t *testing.T, model string, header ...string) (answer, string) {
	t.Helper()
	a := do(t, http.MethodPost, s.url+"/v1/chat/completions", strings.Replace(chat, `"sim"`, `"`+model+`"`, 1), header...)
	return a, a.header.Get("X-Smg-Routed-Worker-Id")
}

// line is one line of the log.
type line struct {
	Timestamp  string `json:"timestamp"`
	Level      string `json:"level"`
	Message    string `json:"message"`
	Target     string `json:"target"`
	Filename   string `json:"filename"`
	LineNumber int    `json:"line_number"`
	Span       struct {
		Method    string `json:"method"`
		URI       string `json:"uri"`
		Version   string `json:"version"`
		Module    string `json:"module"`
		RequestID string `json:"request_id"`
		Status    int    `json:"status_code"`
		Latency   *int64 `json:"latency"`
	} `json:"span"`
	Policy, Worker string
	ModelID        string `json:"model_id"`
}

// lines are those of the log that a test wants.
func (s *seenSite) lines(t *testing.T, wanted func(l *line) bool) (all []line) {
	t.Helper()
	for _, text := range s.said() {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Errorf("%v in %s", err, text)
		}
		if wanted(&l) {
			all = append(all, l)
		}
	}
	return all
}

func linesCarryTheID(t *testing.T, s *seenSite) {
	served, _ := s.ask(t, "least_load")
	refused, _ := s.ask(t, "nobody's", "X-Request-Id", "mine")
	gone := do(t, http.MethodGet, s.url+"/no/such/path", "")
	if refused.header.Get("X-Request-Id") != "mine" {
		t.Errorf("id %q", refused.header.Get("X-Request-Id"))
	}
	for _, c := range []struct {
		a      answer
		method string
		level  string
	}{{served, "POST", "INFO"}, {refused, "POST", "WARN"}, {gone, "GET", "WARN"}} {
		id := c.a.header.Get("X-Request-Id")
		if id == "" {
			t.Fatal("an answer has no id")
		}
		var got []line
		await(t, "both lines of "+id, func() bool {
			got = s.lines(t, func(l *line) bool { return l.Span.RequestID == id })
			return len(got) == 2
		})
		begin, end := got[0], got[1]
		if begin.Target != "smg::request" || end.Target != "smg::response" || begin.Level != "INFO" || end.Level != c.level {
			t.Errorf("%+v\n%+v", begin, end)
		}
		if end.Span.Status != c.a.status || end.Span.Latency == nil || begin.Span.Latency != nil || end.Span.Method != c.method ||
			end.Span.Version != "HTTP/1.1" || end.Span.Module != "smg" || end.Span.URI == "" {
			t.Errorf("%+v", end)
		}
	}
	for _, l := range s.lines(t, func(l *line) bool { return !strings.Contains(l.Message, "service ") }) {
		if _, err := time.Parse(time.RFC3339Nano, l.Timestamp); err != nil || l.Target == "" || l.Filename == "" || l.LineNumber == 0 || l.Message == "" {
			t.Errorf("a line lacks something: %+v (%v)", l, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(s.logs, "smg.????-??-??"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	text, err := os.ReadFile(files[len(files)-1])
	if err != nil || !strings.Contains(string(text), `"request_id":"mine"`) || !strings.Contains(string(text), `"message":"startup"`) {
		t.Errorf("%v: %s has not what standard error has", err, files[0])
	}
}

// decisionLines has one line for each request of the five families, which names who got
// it.
func decisionLines(t *testing.T, s *seenSite) {
	messages := map[string]string{
		"cache_aware": "cache-aware selection", "prefix_hash": "prefix-hash selection", "least_load": "load selection",
		"power_of_two": "load selection", "manual": "sticky routing decision",
	}
	for model, message := range messages {
		decided := func() []line {
			return s.lines(t, func(l *line) bool { return l.ModelID == model && l.Message == message && l.Level == "DEBUG" })
		}
		before := len(decided())
		var want []string
		for i := range 4 {
			a, worker := s.ask(t, model, "X-SMG-Routing-Key", fmt.Sprint("k", i))
			if a.status != http.StatusOK {
				t.Fatalf("%s: %d %s", model, a.status, a.body)
			}
			want = append(want, worker)
		}
		awaitSame(t, "decisions of "+model, want, func() []string {
			var got []string
			for _, l := range decided()[before:] {
				got = append(got, l.Worker)
				if l.Policy != model {
					t.Errorf("%+v is not of %s", l, model)
				}
			}
			return got
		})
	}
}

// TestGatewayDecisionsAtInfo: at the usual level of the log nobody tells of decisions,
// which would be a line a request.
func TestGatewayDecisionsAtInfo(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){"63_none_at_info": func(t *testing.T, topology ...string) {
		for _, flags := range [][]string{
			{"--policy", "cache_aware"}, {"--policy", "prefix_hash"}, {"--policy", "least_load"}, {"--policy", "power_of_two"}, {"--policy", "manual"},
		} {
			g := launched(t, urls(simtest.StartN(t, 2, simtest.Config())), slices.Concat(topology, flags, []string{"--shutdown-grace-period-secs", "0"})...)
			for i := range 3 {
				if a := do(t, http.MethodPost, g.url+chatPath, chat, "X-SMG-Routing-Key", fmt.Sprint("k", i)); a.status != http.StatusOK {
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			g.stop(0)
			g.silent(`(?i) selection"|routing decision|level=DEBUG`)
		}
	}})
}

func misuseIsTold(t *testing.T, s *seenSite) {
	warned := func(words string) int {
		return len(s.lines(t, func(l *line) bool { return l.Level == "WARN" && strings.Contains(l.Message, words) }))
	}
	before := warned("bucket has no buckets")
	for range 3 {
		if a, _ := s.ask(t, "bucket"); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	await(t, "a warning for each request", func() bool { return warned("bucket has no buckets") == before+3 })
	for range 3 {
		if _, w := s.ask(t, "passthrough"); w != s.by["passthrough"][0] {
			t.Errorf("%s got a request", w)
		}
	}
	if n := warned("passthrough sends every request"); n != 1 {
		t.Errorf("%d warnings of passthrough", n)
	}
	if err := s.first.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: "/health"}, Status: 503}); err != nil {
		t.Fatal(err)
	}
	await(t, "the second worker to be used", func() bool {
		_, w := s.ask(t, "passthrough")
		return w == s.by["passthrough"][1]
	})
	if n := warned("passthrough sends every request"); n != 1 {
		t.Errorf("%d warnings of passthrough", n)
	}
}

func regularMetrics(t *testing.T, s *seenSite) {
	for _, model := range seenModels {
		s.ask(t, model, "X-SMG-Routing-Key", "k")
	}
	// The first fails: a retry that is exhausted.
	if err := s.first.SetRules(t.Context()); err != nil {
		t.Fatal(err)
	}
	failing := simtest.Config()
	failing.Model = "failing"
	e := simtest.StartN(t, 1, failing)[0]
	if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: chatPath}, Status: 500}); err != nil {
		t.Fatal(err)
	}
	if a := do(t, http.MethodPost, s.url+"/workers", fmt.Sprintf(`{"url":%q}`, e.URL)); a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.body)
	}
	await(t, "it fails", func() bool { a, _ := s.ask(t, "failing"); return a.status == http.StatusInternalServerError })
	s.musts(t, must, mustOfPolicies)
}

func bucketsOfDurations(t *testing.T, s *seenSite) {
	want := strings.Fields("0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 15 30 45 60 90 120 180 240 300 480 900 1200 1800 2700 3600 5400 7200 +Inf")
	var got []string
	for labels := range gauges(t, s.metrics, "smg_http_request_duration_seconds_bucket") {
		if strings.Contains(labels, `path="/v1/chat/completions"`) {
			got = append(got, label(labels, "le"))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGatewayLegsSeen is what an operator sees of disaggregated fleets.
func TestGatewayLegsSeen(t *testing.T) {
	for _, c := range []struct {
		name string
		legs legs
		ask  string
	}{
		{"60_metrics_of_pd", legs{kind: simhttp.SGLang, roles: roles{prefill: 1, decode: 1}}, ""},
		{"60_metrics_of_epd", legs{kind: simhttp.VLLM, roles: roles{encode: 1, prefill: 1, decode: 1}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			parallel(t)
			c.legs.args = []string{"--retry-max-retries", "2", "--retry-initial-backoff-ms", "1", "--prometheus-duration-buckets", "0.5", "2"}
			c.legs.inBoth(t, func(t *testing.T, f *legFleet) {
				f.fresh(t)
				if a := f.asks(t, c.ask); a.status != http.StatusOK {
					t.Fatalf("%d %s", a.status, a.body)
				}
				f.refuses(t, "decode", chatPath, http.StatusInternalServerError)
				if a := f.asks(t, c.ask); a.status != http.StatusInternalServerError {
					t.Errorf("%d %s", a.status, a.body)
				}
				wanted := maps.Clone(must)
				if c.legs.kind == simhttp.SGLang {
					maps.Copy(wanted, mustOfLegs)
				} else {
					delete(wanted, "smg_engine_gen_throughput") // which vLLM does not tell
				}
				f.musts(t, wanted)
				for labels := range gauges(t, f.metrics, "smg_router_request_duration_seconds_bucket") {
					if le := label(labels, "le"); !slices.Contains([]string{"0.5", "2", "+Inf"}, le) {
						t.Errorf("62: a bucket of %s", le)
					}
				}
			})
		})
	}
}
