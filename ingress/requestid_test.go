package ingress

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/sim/simctl"
	"smg/sim/simhttp"
)

func TestGatewayRequestIDs(t *testing.T) {
	e, url := answers(t, "HTTP/1.1 200 OK\r\nX-Request-Id: engine\r\nConnection: X-Request-Id\r\nContent-Length: 2\r\n\r\n{}")
	g := start(t, []string{url})

	t.Run("4_unknown_path_has_an_id", func(t *testing.T) {
		r := g.do("GET /no/such HTTP/1.1\r\nHost: g\r\n\r\n")
		if id := r.header["X-Request-Id"]; r.status != 404 || len(id) != 1 || !strings.HasPrefix(id[0], "req-") || r.body != "" {
			t.Errorf("%d %v %q", r.status, id, r.body)
		}
		if r = g.do("GET /generate HTTP/1.1\r\nHost: g\r\n\r\n"); r.status != 405 || !strings.HasPrefix(r.header.Get("X-Request-Id"), "gnt-") {
			t.Errorf("%d %v", r.status, r.header)
		}
	})

	t.Run("19_ids", func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			path   string
			fields []string
			want   string // of the answer, a pattern
			sent   map[string]string
		}{
			{"chat", chatPath, nil, "chatcmpl-[A-Za-z0-9]{24}", nil},
			{"completions", "/v1/completions", nil, "cmpl-[A-Za-z0-9]{24}", nil},
			{"generate", "/generate", nil, "gnt-[A-Za-z0-9]{24}", nil},
			{"responses", "/v1/responses", nil, "resp-[A-Za-z0-9]{24}", nil},
			{"messages", "/v1/messages", nil, "msg_[A-Za-z0-9]{24}", nil},
			{"others", "/v1/embeddings", nil, "req-[A-Za-z0-9]{24}", nil},
			{"correlation", chatPath, []string{"x-correlation-id: a"}, "a", map[string]string{"X-Correlation-Id": "a"}},
			{"its own comes first", chatPath, []string{"request-id: d", "x-trace-id: c", "x-correlation-id: b", "x-request-id: a"}, "a", map[string]string{"X-Request-Id": "a", "X-Correlation-Id": "b"}},
			{"the third", chatPath, []string{"request-id: d", "x-trace-id: c"}, "c", nil},
			{"the last", chatPath, []string{"request-id: d"}, "d", nil},
			{"an empty one is none", chatPath, []string{"x-request-id:", "x-trace-id: c"}, "c", nil},
			{"one of 256 bytes", chatPath, []string{"x-trace-id: " + strings.Repeat("a", 256)}, "a{256}", nil},
			{"a longer one is none", chatPath, []string{"x-trace-id: " + strings.Repeat("a", 257)}, "chatcmpl-[A-Za-z0-9]{24}", nil},
			{"a longer one does not reach the worker", chatPath, []string{"x-request-id: " + strings.Repeat("a", 257), "x-correlation-id: " + strings.Repeat("b", 300), "request-id: d"}, "d", nil},
			{"one with a control character is none", chatPath, []string{"x-trace-id: a\tb", "request-id: d"}, "d", nil},
		} {
			t.Run(tt.name, func(t *testing.T) {
				before := e.requests()
				r := g.do(post(tt.path, `{"model":"m","prompt":"a","text":"a","input":"a","max_tokens":1,"messages":[{"role":"user","content":"a"}]}`, tt.fields...))
				id := r.header["X-Request-Id"]
				if len(id) != 1 || !regexp.MustCompile("^"+tt.want+"$").MatchString(id[0]) || r.status != 200 {
					t.Errorf("%d, id %q, want %s", r.status, id, tt.want)
				}
				if e.requests() != before+1 {
					t.Fatalf("%d requests", e.requests()-before)
				}
				sent := map[string]string(nil)
				for _, name := range []string{"X-Request-Id", "X-Correlation-Id", "X-Trace-Id", "Request-Id"} {
					if v := e.last(t).head.Get(name); v != "" {
						if sent == nil {
							sent = map[string]string{}
						}
						sent[name] = v
					}
				}
				if diff := cmp.Diff(tt.sent, sent); diff != "" {
					t.Errorf("the worker got (-want +got):\n%s", diff)
				}
			})
		}
		r := g.do(chat(`{`, "x-request-id: bad"))
		if got := r.header.Get("X-Request-Id"); r.status != 400 || got != "bad" {
			t.Errorf("an error: %d %q", r.status, got)
		}
		if a, b := newID("x"), newID("x"); a == b {
			t.Errorf("twice %s", a)
		}
	})

	t.Run("19_legs_of_vllm_get_one", func(t *testing.T) {
		d := startPD(t, simhttp.VLLM)
		for _, e := range slices.Concat(d.pd.Prefill, d.pd.Decode) {
			if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
				t.Fatal(err)
			}
		}
		r := d.do(chat(chatBody, "x-correlation-id: mine"))
		if r.status != 200 || r.header.Get("X-Request-Id") != "mine" {
			t.Fatalf("%d %v", r.status, r.header)
		}
		var ids []string
		for _, e := range slices.Concat(d.pd.Prefill, d.pd.Decode) {
			records, err := e.Records(t.Context(), chatPath)
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range records {
				ids = append(ids, rec.Header.Get("X-Request-Id"))
			}
		}
		if diff := cmp.Diff([]string{"mine-0", "mine-0"}, ids); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		d.quiet(t)
	})

	t.Run("20_request_id_headers", func(t *testing.T) {
		g := start(t, []string{url}, withConfig(func(c *Config) { c.Access.RequestIDHeaders = []string{"foo"} }))
		if id := g.do(chat(chatBody, "x-request-id: a", "Foo: b")).header.Get("X-Request-Id"); id != "b" {
			t.Errorf("id %q", id)
		}
		if id := g.do(chat(chatBody, "x-request-id: a")).header.Get("X-Request-Id"); !strings.HasPrefix(id, "chatcmpl-") {
			t.Errorf("id %q", id)
		}
	})
}

// TestAccessLines holds the two lines of a request: at which level they are, and what
// they say. Nothing of a body and of a query is among it.
func TestAccessLines(t *testing.T) {
	broken := sseHead + chunk(event) + "nonsense"
	for _, tt := range []struct {
		name   string
		engine string
		send   string
		want   []string // level, message and target of each line
		says   []string // of the last
	}{
		{"served", jsonOK, chat(chatBody, "x-request-id: i"), []string{"INFO request smg::request", "INFO response smg::response"}, []string{
			"span.method=POST", "span.uri=/v1/chat/completions", "span.version=HTTP/1.1", "span.module=smg", "span.request_id=i", "span.status_code=200",
			"span.latency=", "bytes=11", "model=m", "plan=1", "attempts=1",
		}},
		{"refused", jsonOK, chat(`{"secret`), []string{"INFO request smg::request", "WARN response smg::response"}, []string{"span.status_code=400"}},
		{"no such path", jsonOK, "GET /no/such?key=secret HTTP/1.1\r\nHost: g\r\n\r\n", []string{"INFO request smg::request", "WARN response smg::response"}, []string{"span.uri=/no/such ", "span.status_code=404"}},
		{
			"the worker fails", "HTTP/1.1 500 No\r\nContent-Length: 8\r\n\r\n\"secret\"", chat(chatBody),
			[]string{"INFO request smg::request", "ERROR response smg::response"},
			[]string{"span.status_code=500"},
		},
		{"an error of the gateway", jsonOK, chat(strings.Replace(chatBody, `"m"`, `"other"`, 1)), []string{"INFO request smg::request", "WARN response smg::response"}, []string{"error_code=model_not_found"}},
		{"a stream that breaks", broken, chat(streamBody), []string{"INFO request smg::request", "ERROR response smg::response"}, []string{"span.status_code=200", `error="the answer broke off"`}},
		{"a probe", jsonOK, "GET /health HTTP/1.1\r\nHost: g\r\n\r\n", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &script{pieces: []string{tt.engine}, then: 'c'}
			for _, loud := range []bool{true, false} {
				out := &logBuffer{} // the gateway's own must have no errors
				g := start(t, []string{engineAt(t, e.serve)}, withConfig(func(c *Config) { c.Access.LogRequests = loud }), withDeps(func(d *Deps) {
					d.Log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo}))
				}))
				g.do(tt.send)
				g.idle()
				lines := func() (all []string, last string) {
					for line := range strings.Lines(out.String()) {
						if m := regexp.MustCompile(`level=(\S+) msg=(request|response) target=(\S+)`).FindStringSubmatch(line); m != nil {
							all, last = append(all, strings.Join(m[1:], " ")), line
						}
					}
					return all, last
				}
				want := tt.want
				if !loud {
					want = nil
				}
				within(t, patience, "the request has its lines", func() bool { all, _ := lines(); return len(all) == len(want) && g.active.Load() == 0 })
				got, last := lines()
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("loud: %v (-want +got):\n%s", loud, diff)
				}
				for _, s := range tt.says {
					if loud && !strings.Contains(last, s) {
						t.Errorf("%q is not in %s", s, last)
					}
				}
				if strings.Contains(out.String(), "secret") {
					t.Errorf("a secret is in the log:\n%s", out)
				}
			}
		})
	}
}

// TestAccessLinesAtDebug has them where nobody asked for them at info.
func TestAccessLinesAtDebug(t *testing.T) {
	_, url := answers(t, jsonOK)
	out := &logBuffer{}
	g := start(t, []string{url}, withDeps(func(d *Deps) {
		d.Log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}))
	g.do(chat(chatBody))
	g.do("GET /health HTTP/1.1\r\nHost: g\r\n\r\n")
	within(t, patience, "each request has two lines", func() bool { return strings.Count(out.String(), "level=DEBUG msg=re") == 4 })
}

// TestSeverity says how much the end of a request matters.
func TestSeverity(t *testing.T) {
	for _, tt := range []struct {
		x    *exchange
		want slog.Level
	}{
		{&exchange{out: answer{status: 204}}, slog.LevelInfo},
		{&exchange{out: answer{status: 302}}, slog.LevelInfo},
		{&exchange{out: answer{status: 401}}, slog.LevelWarn},
		{&exchange{out: answer{status: 503}}, slog.LevelError},
		{&exchange{err: errClientGone}, slog.LevelInfo},
		{&exchange{out: answer{status: 200}, err: errCut}, slog.LevelError},
		{&exchange{out: answer{status: 200}, failed: errCut}, slog.LevelError},
	} {
		if got := tt.x.severity(); got != tt.want {
			t.Errorf("%d, %v: %v, not %v", tt.x.out.status, tt.x.err, got, tt.want)
		}
	}
}
