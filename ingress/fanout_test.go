package ingress

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/worker"
)

// replies is an engine's raw answer.
func replies(status int, body string, fields ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), len(body))
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	return b.String() + "\r\n" + body
}

// refused is a URL where nobody listens.
const refused = "http://127.0.0.1:1"

func TestGatewayFanout(t *testing.T) {
	t.Run("12_flush_cache", func(t *testing.T) {
		flush := func(t *testing.T, urls ...string) (int, flushedCard) {
			t.Helper()
			r := start(t, urls).do(post("/flush_cache", ""))
			var card flushedCard
			if err := json.Unmarshal([]byte(r.body), &card); err != nil {
				t.Fatalf("%v: %s", err, r.body)
			}
			return r.status, card
		}
		a, urlA := answers(t, replies(200, "Cache flushed."))
		_, urlB := answers(t, replies(200, ""))
		_, urlBad := answers(t, replies(500, "out of\r\nmemory"))
		status, card := flush(t, urlA, urlB)
		want := flushedCard{Status: "success", Message: "the caches of all 2 workers were flushed", Flushed: 2, HTTP: 2, Total: 2}
		if d := cmp.Diff(want, card); status != 200 || d != "" {
			t.Errorf("all: %d (-want +got):\n%s", status, d)
		}
		if got := a.last(t); got.target != "/flush_cache" || got.body != "" {
			t.Errorf("it was asked %q with %q", got.target, got.body)
		}
		status, card = flush(t, urlA, urlBad)
		want = flushedCard{
			Status: "partial_success", Message: "the caches of 1 of 2 workers were flushed", Flushed: 1, HTTP: 2, Total: 2,
			Successful: []string{urlA}, Failed: []failedWorker{{urlBad, "it answered 500 Internal Server Error: out of memory"}},
		}
		if d := cmp.Diff(want, card); status != 206 || d != "" {
			t.Errorf("one fails: %d (-want +got):\n%s", status, d)
		}
		if status, card = flush(t, refused); status != 206 || card.Flushed != 0 || len(card.Failed) != 1 {
			t.Errorf("all fail: %d %+v", status, card)
		}
		status, card = flush(t)
		if status != 200 || card.Status != "success" || card.Flushed != 0 {
			t.Errorf("nobody: %d %+v", status, card)
		}
		// Ranks of one engine are one engine.
		before := a.requests()
		g := start(t, []string{urlA + "@0", urlA + "@1"})
		for _, m := range g.fleet.workers {
			m.Spec.BaseURL = urlA
		}
		if r := g.do(post("/flush_cache", "")); r.status != 200 || a.requests() != before+1 {
			t.Errorf("ranks: %d %s, %d questions", r.status, r.body, a.requests()-before)
		}
	})

	t.Run("22_questions_carry_the_key_of_the_worker", func(t *testing.T) {
		e, url := answers(t, replies(200, "m 1\n"))
		g := start(t, []string{url}, withDeps(func(d *Deps) { d.Keys = openRing{} }))
		sealed, err := openRing{}.Seal(nil, "own")
		if err != nil {
			t.Fatal(err)
		}
		g.fleet.workers[0].Spec.SealedKey = sealed
		for _, request := range []string{post("/flush_cache", ""), get("/engine_metrics"), get("/get_model_info"), get("/health_generate")} {
			if r := g.do(request); r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
			if got := e.last(t); got.head.Get("Authorization") != "Bearer own" {
				t.Errorf("%s came with %q", got.target, got.head.Get("Authorization"))
			}
		}
	})

	t.Run("12_every_leg_is_flushed", func(t *testing.T) {
		d := startPD(t, simhttp.SGLang)
		d.known()
		r := d.do(post("/flush_cache", ""))
		if r.status != 200 || !strings.Contains(r.body, `"workers_flushed":4`) {
			t.Errorf("%d %s", r.status, r.body)
		}
	})

	t.Run("14_the_first_ready_worker_tells", func(t *testing.T) {
		_, ill := answers(t, replies(200, "wrong"))
		e, url := answers(t, replies(418, `{"model_path":"m"}`, "X-Own: 1", "Connection: keep-alive", "X-Smg-Error-Code: forged"))
		g := start(t, []string{ill, url})
		g.fleet.workers[0].Record.Status = worker.NotReady
		for _, path := range []string{"/get_model_info", "/get_server_info", "/health_generate"} {
			r := g.do("GET " + path + " HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer k\r\nCookie: c\r\n\r\n")
			if r.status != 418 || r.body != `{"model_path":"m"}` || r.header.Get("X-Own") != "1" || r.header.Get("X-Smg-Error-Code") != "" {
				t.Errorf("%s: %d %q %v", path, r.status, r.body, r.header)
			}
			if got := e.last(t); got.target != path || got.head.Get("Authorization") != "Bearer k" || got.head.Get("Cookie") != "" || got.head.Get("Content-Type") != "" {
				t.Errorf("%s: the engine got %+v", path, got)
			}
		}
		start(t, nil).do(get("/get_model_info")).fails(t, 503, "no_workers")
		start(t, []string{refused}).do(get("/get_model_info")).fails(t, 500, "call_upstream_request_error")
		_, broken := closes(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		start(t, []string{broken}).do(get("/get_server_info")).fails(t, 500, "read_response_failed")
		_, endless := answers(t, replies(200, strings.Repeat("x", maxForwarded+1)))
		start(t, []string{endless}).do(get("/get_server_info")).fails(t, 502, "upstream_response_too_large")
	})

	t.Run("14_a_prefill_worker_tells", func(t *testing.T) {
		pd := withConfig(func(c *Config) { c.Mode = PD })
		prefill := func(url string) *gateway {
			g := start(t, []string{url}, pd)
			g.fleet.workers[0].Spec.Leg = worker.Prefill
			return g
		}
		_, url := answers(t, replies(200, "{}"))
		if r := prefill(url).do(get("/get_server_info")); r.status != 200 || r.body != "{}" {
			t.Errorf("%d %s", r.status, r.body)
		}
		start(t, []string{url}, pd).do(get("/get_model_info")).fails(t, 503, "no_prefill_servers")
		prefill(refused).do(get("/get_model_info")).fails(t, 500, "proxy_request_failed")
		for _, tt := range []struct {
			status, want int
			code         string
		}{
			{400, 400, "server_bad_request"},
			{404, 404, "server_not_found"},
			{500, 500, "server_internal_error"},
			{502, 502, "server_bad_gateway"},
			{503, 503, "server_unavailable"},
			{401, 500, "server_error"},
			{302, 500, "server_error"},
		} {
			_, url := answers(t, replies(tt.status, "no"))
			prefill(url).do(get("/get_model_info")).fails(t, tt.want, tt.code)
		}
	})

	t.Run("14_prefill_tells_where_models_have_modes", func(t *testing.T) {
		multi := withConfig(func(c *Config) { c.Mode, c.Multi = Regular, true })
		_, own := answers(t, replies(200, "regular"))
		_, url := answers(t, replies(200, "prefill"))
		g := start(t, []string{url, own}, multi)
		prefill, regular := g.fleet.workers[0], g.fleet.workers[1]
		prefill.Spec.Leg = worker.Prefill
		for _, path := range []string{"/get_model_info", "/get_server_info"} {
			for _, tt := range []struct {
				name             string
				prefill, regular worker.Status
				want             string
			}{
				{"a regular worker comes first", worker.Ready, worker.Ready, "regular"},
				{"it is not ready", worker.Ready, worker.NotReady, "prefill"},
				{"nobody is", worker.NotReady, worker.NotReady, ""},
			} {
				prefill.Record.Status, regular.Record.Status = tt.prefill, tt.regular
				r := g.do(get(path))
				switch {
				case tt.want == "":
					r.fails(t, 503, "no_workers")
				case r.status != 200 || r.body != tt.want:
					t.Errorf("%s, %s: %d %q, want %q", path, tt.name, r.status, r.body, tt.want)
				}
			}
		}
		d := startPD(t, simhttp.SGLang, multi)
		d.known()
		if r := d.do(get("/health_generate")); r.status != 200 || !strings.Contains(r.body, d.pd.Prefill[0].URL) || !strings.Contains(r.body, d.pd.Decode[1].URL) {
			t.Errorf("a pair: %d %s", r.status, r.body)
		}
	})

	t.Run("a_pair_generates", func(t *testing.T) {
		d := startPD(t, simhttp.SGLang)
		r := d.do(get("/health_generate"))
		if r.status != 200 || !strings.Contains(r.body, d.pd.Prefill[0].URL) || !strings.Contains(r.body, d.pd.Decode[1].URL) {
			t.Errorf("%d %s", r.status, r.body)
		}
		for _, e := range d.pd.Decode {
			if err := e.SetFaults(t.Context(), simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: "/health_generate"}, Status: 500}}}); err != nil {
				t.Fatal(err)
			}
		}
		d.do(get("/health_generate")).fails(t, 503, "health_generate_failed")
		for id, ends := range d.selector.ends {
			if len(ends) != 1 || ends[0].Outcome != worker.Neutral {
				t.Errorf("a question of the %s leg counted as %v", id.Leg, ends)
			}
		}
		d.selector.err = worker.ErrOverloaded
		d.do(get("/health_generate")).fails(t, 503, codeShed)
		d.selector.err = worker.ErrUnavailable
		d.do(get("/health_generate")).fails(t, 503, "no_healthy_worker_pair")
	})

	t.Run("15_engine_metrics", func(t *testing.T) {
		a, urlA := answers(t, replies(200, "# HELP sglang:load Load.\n# TYPE sglang:load gauge\nsglang:load 1\nsglang:load{rank=\"1\"} 2\n"))
		_, urlB := answers(t, replies(200, "# HELP sglang:load Other.\n# TYPE sglang:load gauge\nsglang:load{worker_addr=\"x\"} 3\nother 4\n"))
		g := start(t, []string{urlA + "@0", urlA + "@1", urlB, refused})
		g.fleet.workers[0].Spec.BaseURL, g.fleet.workers[1].Spec.BaseURL = urlA, urlA
		r := g.do(get("/engine_metrics"))
		want := fmt.Sprintf(`other{worker_addr=%[2]q} 4
# HELP sglang:load Load.
# TYPE sglang:load gauge
sglang:load{worker_addr=%[1]q,rank="",exported_worker_addr=""} 1
sglang:load{worker_addr=%[1]q,rank="1",exported_worker_addr=""} 2
sglang:load{worker_addr=%[2]q,rank="",exported_worker_addr="x"} 3
`, urlA, urlB)
		if d := cmp.Diff(want, r.body); r.status != 200 || d != "" {
			t.Errorf("%d (-want +got):\n%s", r.status, d)
		}
		if ct := r.header.Get("Content-Type"); ct != "text/plain; version=0.0.4; charset=utf-8" {
			t.Errorf("content type %q", ct)
		}
		if a.requests() != 1 {
			t.Errorf("%d scrapes of one engine", a.requests())
		}
		if r := start(t, nil).do(get("/engine_metrics")); r.status != 500 || r.body != "No available workers" {
			t.Errorf("nobody: %d %q", r.status, r.body)
		}
		_, bad := answers(t, replies(503, ""))
		if r := start(t, []string{refused, bad}).do(get("/engine_metrics")); r.status != 500 || r.body != "All backend requests failed" {
			t.Errorf("all down: %d %q", r.status, r.body)
		}
	})

	t.Run("15_answers_are_held_of_the_budget", func(t *testing.T) {
		_, url := answers(t, replies(200, strings.Repeat("m 1\n", 1<<16)))
		for _, tt := range []struct{ budget, want int64 }{
			{1 << 17, 500}, // not even the answer
			{1 << 20, 500}, // not what is made of it
			{1 << 25, 200},
		} {
			g := start(t, []string{url}, withConfig(func(c *Config) { c.MaxBufferedBytes = tt.budget }))
			if r := g.do(get("/engine_metrics")); int64(r.status) != tt.want {
				t.Errorf("budget %d: %d, %d bytes", tt.budget, r.status, len(r.body))
			}
		}
	})
}

// known has the gateway know its engines as registered workers.
func (d *disaggregated) known() {
	for _, spec := range d.selector.workers {
		d.fleet.workers = append(d.fleet.workers, &worker.Worker{Spec: spec, Record: worker.Record{Status: worker.Ready}})
	}
}

func TestMetricsPage(t *testing.T) {
	tests := []struct {
		name, in, want string
	}{
		{"a histogram stays together", "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n", "# TYPE h histogram\n" +
			"h_bucket{worker_addr=\"w\",le=\"1\"} 1\nh_bucket{worker_addr=\"w\",le=\"+Inf\"} 2\nh_count{worker_addr=\"w\"} 2\nh_sum{worker_addr=\"w\"} 3\n"},
		{"escapes", `m{a="x\"y\\z\n",} 1 1700`, `m{worker_addr="w",a="x\"y\\z\n"} 1 1700` + "\n"},
		{"numbers", "a NaN\nb +Inf\nc -1e-9\n", "a{worker_addr=\"w\"} NaN\nb{worker_addr=\"w\"} +Inf\nc{worker_addr=\"w\"} -1e-9\n"},
		{"what is no sample", "m\nm x\nm 0x1p3\n1m 1\nm{a=b} 1\nm{a=\"b} 1\nm{a=\"b\"\nm{a=\"b\",a=\"c\"} 1\nm{a=\"\\q\"} 1\nm 1 2 3\nm 1 x\n{} 1\n# TYPE m nonsense\n# EOF\n\x00\n", ""},
		{"no sample, no family", "# HELP m help\n# TYPE m gauge\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, pageOf([]byte(tt.in))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A page whose every sample has a label of its own is not padded to its square.
func TestMetricsPageIsBounded(t *testing.T) {
	var in bytes.Buffer
	for i := range 20_000 {
		fmt.Fprintf(&in, "m{l%d=\"\"} 1\n", i)
	}
	if n := len(pageOf(in.Bytes())); n > 2*in.Len() {
		t.Errorf("%d bytes have become %d", in.Len(), n)
	}
}

func pageOf(in []byte) string {
	var p metricsPage
	p.add("w", in)
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	p.write(w)
	if err := w.Flush(); err != nil {
		return err.Error()
	}
	return out.String()
}

// Whatever engines send, the page can be read, and is the same when it is merged again.
func FuzzMetricsPage(f *testing.F) {
	f.Add([]byte("# HELP a:b text\n# TYPE a:b counter\na:b{x=\"y\\n\"} 1\nh_bucket{le=\"1\"} 2\n"))
	f.Add([]byte("# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh 1\nm{worker_addr=\"\",} 1e3 5\n"))
	f.Add([]byte("# TYPE h summary\nh{quantile=\"0.5\"} 1\nh_sum 1\n# HELP h \\\\"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := pageOf(in)
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			// A line at a time: how samples of a histogram belong together is the engine's.
			parser := expfmt.NewTextParser(model.UTF8Validation)
			if _, err := parser.TextToMetricFamilies(strings.NewReader(line)); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if !strings.Contains(line, `{worker_addr="w"`) {
				t.Fatalf("%q does not say whose it is", line)
			}
		}
	})
}
