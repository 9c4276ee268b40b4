package ingress

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/bootstrap"
	"smg/wire"
	"smg/worker"
)

const newWorker = "http://new:8000"

func del(path string, fields ...string) string {
	return "DELETE " + path + " HTTP/1.1\r\nHost: gateway\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n"
}

// refuses checks an error as the routes of workers have them, and its words.
func (r reply) refuses(t *testing.T, status int, code, words string) {
	t.Helper()
	var e map[string]string
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || r.status != status || e["code"] != code || len(e) != 2 || !strings.Contains(e["error"], words) {
		t.Errorf("%d %s (%v), want %d %s … %s …", r.status, r.body, err, status, code, words)
	}
}

func TestWorkerIsAdded(t *testing.T) {
	prefill := func(s *worker.Spec) { s.Leg = worker.Prefill }
	tests := []struct {
		name, body string
		mode       Mode
		want       func(*worker.Spec)
		message    string // part of the answer's
	}{
		{name: "url alone", body: `{"url":"http://new:8000/"}`},
		{name: "nulls and unknown keys", body: `{"url":"http://new:8000","labels":null,"models":null,"overload":null,"bootstrap_port":null,"api_key":null,"cost":null,"health":{},"resilience":null,"connection_mode":"zmq","new":1}`},
		{
			name: "everything",
			body: `{"url":"http://new:8000","worker_type":"regular","runtime_type":"vllm","models":[{"id":"a","aliases":["b","c"],"context_length":9},{"id":"d"}],` +
				`"labels":{"policy":"random","zone":"z"},"priority":-3,"cost":0.25,"kv_connector":"NixlConnector","kv_engine_id":"e","kv_role":"kv_both",` +
				`"overload":{"waiting_requests":5,"token_usage":0.5},"load_monitor_interval_secs":3}`,
			want: func(s *worker.Spec) {
				s.Runtime, s.Models = worker.VLLM, []worker.Model{{ID: "a", Aliases: []string{"b", "c"}}, {ID: "d"}}
				s.Labels = map[string]string{"policy": "random", "zone": "z"}
				s.KVConnector, s.KVEngineID, s.KVRole = worker.NixlConnector, "e", "kv_both"
				s.Priority, s.Cost = -3, 0.25
				s.Overload, s.LoadInterval = worker.OverloadLimits{Waiting: 5, TokenUsage: 0.5}, 3*time.Second
			},
		},
		{name: "a model id", body: `{"url":"http://new:8000","model_id":"a"}`, want: func(s *worker.Spec) { s.Models = []worker.Model{{ID: "a"}} }},
		{name: "models before a model id", body: `{"url":"http://new:8000","model_id":"a","models":[{"id":"b"}]}`, want: func(s *worker.Spec) { s.Models = []worker.Model{{ID: "b"}} }},
		{name: "the other name of the runtime", body: `{"url":"http://new:8000","runtime":"sglang"}`, want: func(s *worker.Spec) { s.Runtime = worker.SGLang }},
		{name: "a runtime that is to be found", body: `{"url":"http://new:8000","runtime_type":"unspecified"}`},
		{
			name: "a prefill worker", mode: PD, body: `{"url":"http://new:8000","worker_type":"prefill","bootstrap_port":9001}`,
			want: func(s *worker.Spec) { prefill(s); s.BootstrapPort, s.BootstrapSource = 9001, "spec" },
		},
		{
			name: "a bootstrap host", mode: PD, body: `{"url":"http://new:8000","worker_type":"prefill","bootstrap_host":"fe80::1"}`,
			want: func(s *worker.Spec) { prefill(s); s.BootstrapHost, s.BootstrapSource = "[fe80::1]", "spec" },
		},
		{name: "a decode worker", mode: PD, body: `{"url":"http://new:8000","worker_type":"decode"}`, want: func(s *worker.Spec) { s.Leg = worker.Decode }},
		{name: "an encode worker", mode: EPD, body: `{"url":"http://new:8000","worker_type":"encode"}`, want: func(s *worker.Spec) { s.Leg = worker.Encode }},
		{
			name: "what has no effect yet is named", body: `{"url":"http://new:8000","http_pool":{"http2":true,"timeout_secs":9},"resilience":{"max_retries":1}}`,
			message: "not applied yet: http_pool.http2",
			want:    func(s *worker.Spec) { s.Pool = &worker.PoolRules{Timeout: 9 * time.Second} },
		},
		{
			name: "rules of its own", body: `{"url":"http://new:8000","health":{"timeout_secs":1,"check_interval_secs":2,"success_threshold":3,"failure_threshold":4,"disable_health_check":true,"drain_settle_secs":0},` +
				`"resilience":{"cb_failure_threshold":5,"cb_success_threshold":6,"cb_timeout_secs":7,"retryable_status_codes":[500],"capacity_status_codes":[]}}`,
			want: func(s *worker.Spec) {
				s.Health = &worker.HealthRules{
					Timeout: time.Second, Interval: 2 * time.Second, SuccessThreshold: 3, FailureThreshold: 4,
					Disabled: new(true), Settle: new(time.Duration(0)),
				}
				s.Breaker = &worker.BreakerRules{FailureThreshold: 5, SuccessThreshold: 6, Timeout: 7 * time.Second, FailureStatuses: []int{500}, CapacityStatuses: []int{}}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := start(t, nil, withConfig(func(c *Config) { c.Mode = tt.mode }))
			want, err := bootstrap.SpecOf(newWorker, worker.Regular)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want != nil {
				tt.want(want)
			}
			r := g.do(post("/workers", tt.body))
			var got accepted
			if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != http.StatusAccepted || r.header.Get("Content-Type") != "application/json" {
				t.Fatalf("%d %s: %v", r.status, r.body, err)
			}
			location := "/workers/" + want.ID.String()
			if r.header.Get("Location") != location || !strings.Contains(got.Message, tt.message) || tt.message == "" && strings.Contains(got.Message, "not applied") {
				t.Errorf("location %q, message %q", r.header.Get("Location"), got.Message)
			}
			got.Message = ""
			if diff := cmp.Diff(accepted{Status: "accepted", ID: want.ID.String(), URL: newWorker, Location: location}, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]*worker.Spec{want}, g.workers.added); diff != "" {
				t.Errorf("added (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGatewayWorkers holds the acceptance cases of the routes of workers that the
// ingress decides alone.
func TestGatewayWorkers(t *testing.T) {
	t.Run("6_wrong_bodies", func(t *testing.T) {
		many := map[string]string{}
		for i := range wire.MaxList + 1 {
			many[fmt.Sprint(i)] = ""
		}
		labels, err := json.Marshal(many)
		if err != nil {
			t.Fatal(err)
		}
		with := func(fields string) string { return `{"url":"http://new:8000",` + fields + `}` }
		tests := []struct {
			name, body string
			mode       Mode
			status     int
			code       string // "" for plain text
			words      string // what to do
		}{
			{"no_scheme", `{"url":"host:1"}`, Regular, 400, codeBadRequest, "write http://host:1"},
			{"upper_case_scheme", `{"url":"HTTP://h:1"}`, Regular, 400, codeBadRequest, "lower case: http://h:1"},
			{"strange_scheme", `{"url":"ftp://h"}`, Regular, 400, codeBadRequest, "is not one of http, https"},
			{"grpc", `{"url":"grpc://h:1"}`, Regular, 400, codeBadRequest, "use an http:// address"},
			{"empty_url", `{"url":""}`, Regular, 400, codeBadRequest, "empty"},
			{"url_with_a_password", `{"url":"http://u:p@h:1"}`, Regular, 400, codeBadRequest, "leave it out"},
			{"worker_type", with(`"worker_type":"prefil"`), Regular, 422, "", `one of regular, prefill`},
			{"runtime_type", with(`"runtime_type":"torch"`), Regular, 422, "", `one of unspecified, sglang`},
			{"syntax", `{`, Regular, 400, "", "no JSON"},
			{"nothing", ``, Regular, 400, "", "no JSON"},
			{"two_values", `{"url":"http://h:1"}{}`, Regular, 400, "", "no JSON"},
			{"no_url", `{"worker_type":"regular"}`, Regular, 422, "", "url is missing: send"},
			{"null_url", `{"url":null}`, Regular, 422, "", "url is missing: send"},
			{"array", `[]`, Regular, 422, "", `{"url":"http://host:8000"}`},
			{"url_type", `{"url":1}`, Regular, 422, "", "url must be a string"},
			{"priority_type", with(`"priority":1.5`), Regular, 422, "", "priority must be a whole number"},
			{"cost_type", with(`"cost":1e999`), Regular, 422, "", "cost must be a number"},
			{"labels_type", with(`"labels":{"a":1}`), Regular, 422, "", "must be a string"},
			{"labels_array", with(`"labels":[]`), Regular, 422, "", "labels must be an object of strings"},
			{"models_type", with(`"models":["m"]`), Regular, 422, "", "models must be an object"},
			{"model_without_id", with(`"models":[{}]`), Regular, 422, "", `such as {"id":"llama"}`},
			{"too_many_labels", with(`"labels":` + string(labels)), Regular, 400, codeBadRequest, "4097 labels, more than 4096: send fewer"},
			{"long_label", with(`"labels":{"a":"` + strings.Repeat("x", wire.MaxString+1) + `"}`), Regular, 400, codeBadRequest, "4097 bytes, more than 4096: send fewer or shorter"},
			{"empty_alias", with(`"models":[{"id":"m","aliases":[""]}]`), Regular, 400, codeBadRequest, "aliases is empty"},
			{"port_0", with(`"worker_type":"prefill","bootstrap_port":0`), PD, 400, codeBadRequest, "1..65535: leave it out"},
			{"port_65536", with(`"worker_type":"prefill","bootstrap_port":65536`), PD, 400, codeBadRequest, "1..65535"},
			{"port_type", with(`"worker_type":"prefill","bootstrap_port":"9"`), PD, 422, "", "bootstrap_port must be a whole number"},
			{"port_of_decode", with(`"worker_type":"decode","bootstrap_port":9`), PD, 400, codeBadRequest, "leave them out for a decode worker"},
			{"bootstrap_host", with(`"worker_type":"prefill","bootstrap_host":"http://h"`), PD, 400, codeBadRequest, "without scheme"},
			{"bootstrap_host_with_port", with(`"worker_type":"prefill","bootstrap_host":"h:1"`), PD, 400, codeBadRequest, "without scheme, port"},
			{"bootstrap_host_empty", with(`"worker_type":"prefill","bootstrap_host":""`), PD, 400, codeBadRequest, "no host name"},
			{"bootstrap_host_half_bracket", with(`"worker_type":"prefill","bootstrap_host":"[::1"`), PD, 400, codeBadRequest, "no host name"},
			{"leg_of_another_fleet", with(`"worker_type":"prefill"`), Regular, 400, codeBadRequest, "which has regular workers"},
			{"regular_among_legs", `{"url":"http://new:8000"}`, PD, 400, codeBadRequest, "which has prefill, decode workers"},
			{"overload_waiting", with(`"overload":{"waiting_requests":0}`), Regular, 400, codeBadRequest, "1 or more"},
			{"overload_usage", with(`"overload":{"token_usage":1.5}`), Regular, 400, codeBadRequest, "at most 1"},
			{"overload_type", with(`"overload":{"waiting_requests":"5"}`), Regular, 422, "", "overload.waiting_requests must be a whole number"},
			{"health_type", with(`"health":{"disable_health_check":1}`), Regular, 422, "", "disable_health_check must be true or false"},
			{"health_threshold", with(`"health":{"failure_threshold":0}`), Regular, 400, codeBadRequest, "health.failure_threshold 0 is not in 1.."},
			{"health_settle", with(`"health":{"drain_settle_secs":-1}`), Regular, 400, codeBadRequest, "health.drain_settle_secs -1"},
			{"health_interval", with(`"health":{"check_interval_secs":99999999999}`), Regular, 400, codeBadRequest, "leave it out"},
			{"breaker_timeout", with(`"resilience":{"cb_timeout_secs":0}`), Regular, 400, codeBadRequest, "resilience.cb_timeout_secs"},
			{"breaker_status", with(`"resilience":{"retryable_status_codes":[500,42]}`), Regular, 400, codeBadRequest, "retryable_status_codes[1]: 42"},
			{"pool_limit", with(`"http_pool":{"timeout_secs":0}`), Regular, 400, codeBadRequest, "http_pool.timeout_secs"},
			{"load_interval", with(`"load_monitor_interval_secs":0`), Regular, 400, codeBadRequest, "1..31536000"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				g := start(t, nil, withConfig(func(c *Config) { c.Mode = tt.mode }))
				r := g.do(post("/workers", tt.body))
				if tt.code != "" {
					r.refuses(t, tt.status, tt.code, tt.words)
				} else if r.status != tt.status || r.header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(r.body, tt.words) {
					t.Errorf("%d %q, want %d … %s …", r.status, r.body, tt.status, tt.words)
				}
				if len(g.workers.added) != 0 || strings.Contains(r.body+g.log.String(), "secret-key") {
					t.Errorf("added %v; answer %s, log %s", g.workers.added, r.body, g.log)
				}
			})
		}
		g := start(t, nil)
		if r := g.do(strings.Replace(post("/workers", `{"url":"http://new:8000"}`), "application/json", "text/plain", 1)); r.status != 415 || !strings.Contains(r.body, "application/json") {
			t.Errorf("no content type: %d %s", r.status, r.body)
		}
		g.do("POST /workers HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", wire.MaxMessage+9, strings.Repeat("x", wire.MaxMessage+9))).fails(t, 413, "request_body_too_large")
	})

	t.Run("7_ids", func(t *testing.T) {
		g := start(t, nil)
		g.workers.removeErr = bootstrap.ErrUnknown
		with := func(method string) func(string) string {
			return func(path string) string {
				return strings.Replace(post(path, `{"url":"http://new:8000"}`), "POST", method, 1)
			}
		}
		for _, request := range []func(string) string{get, func(path string) string { return del(path) }, with("PUT"), with("PATCH")} {
			g.do(request("/workers/not-a-uuid")).refuses(t, 400, codeBadRequest, "UUID")
			g.do(request("/workers/ftp://h")).refuses(t, 400, codeBadRequest, "is not one of http")
			g.do(request("/workers/6ba7b810-9dad-11d1-80b4-00c04fd430c8")).refuses(t, 404, codeNotFound, "GET /workers")
			g.do(request("/workers/http://nobody:1")).refuses(t, 404, codeNotFound, worker.IDOf("http://nobody:1").String())
		}
		if r := g.do(get("/workers/")); r.status != 404 || r.body != "" {
			t.Errorf("no id: %d %s", r.status, r.body)
		}
		if r := g.do(post("/workers/6ba7b810-9dad-11d1-80b4-00c04fd430c8", "{}")); r.status != 405 || r.header.Get("Allow") != "GET, HEAD, PUT, PATCH, DELETE" {
			t.Errorf("POST: %d, Allow %q", r.status, r.header.Get("Allow"))
		}
		if r := g.do(del("/workers")); r.status != 405 || r.header.Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("DELETE of all: %d, Allow %q", r.status, r.header.Get("Allow"))
		}
	})

	t.Run("10_alias_and_counts", func(t *testing.T) {
		g := start(t, []string{"http://a:1", "http://b:1", "http://c:1", "http://d:1"})
		for i, leg := range []worker.Leg{worker.Prefill, worker.Decode, worker.Encode, worker.Regular} {
			g.fleet.workers[i].Spec.Leg = leg
		}
		g.fleet.workers[0].Spec.Models = []worker.Model{{ID: "x", Aliases: []string{"nick"}}}
		g.fleet.workers[3].Spec.Models = nil // serves no model by name, and is listed for each
		tests := []struct {
			name, query string
			want        workerStats
			total       int
		}{
			{"all", "", workerStats{1, 1, 1}, 4},
			{"an_alias", "?model=nick", workerStats{1, 0, 1}, 2},
			{"an_id", "?model=m", workerStats{0, 1, 1}, 3},
			{"nobody's", "?model=none", workerStats{0, 0, 1}, 1},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				var list workerList
				if err := json.Unmarshal([]byte(g.do(get("/workers"+tt.query)).body), &list); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, list.Stats); diff != "" || list.Total != tt.total || len(list.Workers) != tt.total {
					t.Errorf("total %d, %d workers (-want +got):\n%s", list.Total, len(list.Workers), diff)
				}
			})
		}
	})
}

func TestAddIsRefused(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		code   string
		words  string
	}{
		{"registered", bootstrap.ErrRegistered, 409, codeExists, "DELETE /workers/"},
		{"being registered", bootstrap.ErrRegistering, 409, codeRegistering, "GET /workers/"},
		{"too many", bootstrap.ErrFull, 500, codeInternal, "try again later"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := start(t, nil)
			g.workers.addErr = tt.err
			g.do(post("/workers", `{"url":"http://new:8000"}`)).refuses(t, tt.status, tt.code, tt.words)
		})
	}
}

func TestWorkerIsShown(t *testing.T) {
	id := worker.IDOf(newWorker)
	spec, err := bootstrap.SpecOf(newWorker, worker.Regular)
	if err != nil {
		t.Fatal(err)
	}
	limited := spec.Clone()
	limited.Models, limited.Labels = []worker.Model{{ID: "m", Aliases: []string{"n"}}}, map[string]string{"zone": "z"}
	limited.Overload, limited.LoadInterval = worker.OverloadLimits{Waiting: 5}, 3*time.Second
	begin := fmt.Sprintf(`{"id":%q,"url":%q,`, id, newWorker)
	const end = `"worker_type":"regular","connection_mode":"http","runtime_type":"unspecified","labels":{},"priority":50,"cost":1,` +
		`"bootstrap_host":"new","bootstrap_source":"default","is_healthy":false,"status":"pending","load":0,"http2":false`
	job := func(status, message string) string {
		return `,"job_status":{"job_type":"AddWorker","worker_url":"` + newWorker + `","status":"` + status + `","message":` + message + `,"timestamp":1}}`
	}
	tests := []struct {
		name  string
		fleet *worker.Worker
		job   *bootstrap.Job
		want  string
	}{
		{name: "waiting", job: &bootstrap.Job{Worker: spec, Reason: "refused", Since: time.Unix(1, 0)}, want: begin + `"models":[],` + end + job("pending", `"refused"`)},
		{name: "trying", job: &bootstrap.Job{Worker: spec, Trying: true, Since: time.Unix(1, 0)}, want: begin + `"models":[],` + end + job("processing", "null")},
		{name: "registered, not heard of yet", fleet: &worker.Worker{Spec: spec}, want: begin + `"models":[],` + end + "}"},
		{
			name: "registered", fleet: &worker.Worker{Spec: limited, Record: worker.Record{Status: worker.Ready}},
			want: begin + `"model_id":"m","models":[{"id":"m","aliases":["n"]}],` +
				strings.NewReplacer(`"labels":{}`, `"labels":{"zone":"z"}`, `false,"status":"pending"`, `true,"status":"ready"`).Replace(end) +
				`,"overload":{"waiting_requests":5},"load_monitor_interval_secs":3}`,
		},
		{
			name: "registered, and being registered again", fleet: &worker.Worker{Spec: spec}, job: &bootstrap.Job{Worker: spec, Since: time.Unix(1, 0)},
			want: begin + `"models":[],` + end + job("pending", "null"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := start(t, nil)
			if tt.fleet != nil {
				g.fleet.workers = []*worker.Worker{tt.fleet}
			}
			if tt.job != nil {
				g.workers.jobs[id] = *tt.job
			}
			for _, name := range []string{id.String(), newWorker, url.PathEscape(newWorker)} {
				if r := g.do(get("/workers/" + name)); r.status != 200 || r.body != tt.want {
					t.Errorf("%s: %d\n%s, want\n%s", name, r.status, r.body, tt.want)
				}
			}
			if list := g.do(get("/workers")).body; strings.Contains(list, id.String()) != (tt.fleet != nil) {
				t.Errorf("the list is %s", list)
			}
		})
	}
}

func TestWorkerIsRemoved(t *testing.T) {
	g := start(t, nil)
	id := worker.IDOf(newWorker)
	for _, name := range []string{id.String(), newWorker, url.PathEscape(newWorker + "/")} {
		r := g.do(del("/workers/" + name))
		var got accepted
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != http.StatusAccepted || got.Message == "" {
			t.Errorf("%s: %d %s: %v", name, r.status, r.body, err)
		}
		got.Message = ""
		if diff := cmp.Diff(accepted{Status: "accepted", ID: id.String()}, got); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]worker.ID{id, id, id}, g.workers.removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	g.workers.removeErr = errors.New("no connection to NATS")
	g.do(del("/workers/"+id.String())).refuses(t, 500, codeInternal, "no connection to NATS; try again")
}

// FuzzReadWorker: whatever describes a worker is refused, or is a worker that can
// be kept and comes back as the same.
func FuzzReadWorker(f *testing.F) {
	for _, body := range []string{
		`{"url":"http://h:1"}`, `{"url":"http://h:1","models":[{"id":"a","aliases":["b"]}],"labels":{"policy":"random"}}`, `{"url":1}`, `[]`, `{`,
		`{"url":"http://h:1","worker_type":"prefill","bootstrap_port":1,"bootstrap_host":"[::1]","overload":{"waiting_requests":1,"token_usage":0.1},"load_monitor_interval_secs":1}`,
		`{"url":"http://h:1","kv_connector":"x","cost":1e300,"priority":-1,"runtime":"vllm","health":{}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		asked, err := readWorker(body)
		var spec *worker.Spec
		if err == nil {
			spec, err = asked.spec(EPD.Legs())
		}
		if err != nil {
			if p := (*problem)(nil); !errors.As(err, &p) || p.message == "" || p.status < 400 || p.status > 499 {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		data, err := wire.AppendSpec(nil, spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.DecodeSpec(data); err != nil {
			t.Fatal(err)
		}
		if u, err := worker.CanonicalURL(spec.URL); err != nil || u != spec.URL || spec.ID != worker.IDOf(u) {
			t.Fatalf("URL %q: %v", spec.URL, err)
		}
	})
}

// TestCardOfALeg is what the API says of a worker that hands KV over.
func TestCardOfALeg(t *testing.T) {
	g := start(t, []string{"http://d:1@1"})
	w := g.fleet.workers[0]
	w.Spec.Leg, w.Spec.Runtime, w.Record.Epoch = worker.Decode, worker.VLLM, 7
	w.Spec.KVConnector, w.Spec.KVRole, w.Spec.KVEngineID = worker.NixlConnector, "kv_consumer", "e"
	w.Spec.DPRank, w.Spec.DPSize, w.Spec.Labels = 0, 2, map[string]string{worker.GroupLabel: "blue"}
	r := g.do(get("/workers"))
	for _, want := range []string{
		`"kv_connector":"NixlConnector","kv_role":"kv_consumer","kv_engine_id":"e"`, `"dp_rank":0,"dp_size":2`, `"pair_group":"blue","epoch":7`,
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("%s lacks %s", r.body, want)
		}
	}
}

// TestRemarksAreShown with the workers that they are about, alone and in the list.
func TestRemarksAreShown(t *testing.T) {
	g := start(t, []string{"http://localhost:1", "http://d:1"}, withConfig(func(c *Config) { c.Mode = PD }))
	p, d := g.fleet.workers[0].Spec, g.fleet.workers[1].Spec
	p.Leg, p.Runtime, p.BootstrapHost, p.BootstrapPort = worker.Prefill, worker.SGLang, "localhost", 9001
	d.Leg, d.Runtime = worker.Decode, worker.VLLM
	const want = `"remarks":["decode worker http://d:1 may not reach this prefill worker at localhost"]`
	if r := g.do(get("/workers/http://localhost:1")); !strings.Contains(r.body, want) {
		t.Errorf("%s lacks %s", r.body, want)
	}
	if r := g.do(get("/workers")); strings.Count(r.body, "remarks") != 1 || !strings.Contains(r.body, want) {
		t.Errorf("%s, want once %s", r.body, want)
	}
	if r := g.do(get("/workers/http://d:1")); strings.Contains(r.body, "remarks") {
		t.Errorf("%s of nothing", r.body)
	}
}
