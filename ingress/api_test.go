package ingress

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/wire"
	"smg/worker"
)

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: gateway\r\n\r\n" }

func TestGateway(t *testing.T) {
	t.Run("1_health_and_readiness", func(t *testing.T) {
		g := start(t, nil)
		for _, path := range []string{"/health", "/liveness"} {
			if r := g.do(get(path)); r.status != 200 || r.body != "OK" {
				t.Errorf("%s: %d %q", path, r.status, r.body)
			}
		}
		if r := g.do(get("/readiness")); r.status != 503 || r.body != `{"status":"not ready","reason":"insufficient healthy workers"}` {
			t.Errorf("no workers: %d %s", r.status, r.body)
		}
		_, url := answers(t, jsonOK)
		g = start(t, []string{url})
		if r := g.do(get("/readiness")); r.status != 200 || r.body != `{"status":"ready","healthy_workers":1,"total_workers":1}` {
			t.Errorf("one worker: %d %s", r.status, r.body)
		}
	})

	t.Run("3_models", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url, url + "/b", url + "/c"})
		g.fleet.workers[2].Spec.Models = []worker.Model{{ID: "other", Aliases: []string{"alias"}}, {ID: "m"}}
		want := `{"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"self_hosted"},{"id":"other","object":"model","created":0,"owned_by":"self_hosted"}]}`
		if r := g.do(get("/v1/models")); r.status != 200 || r.body != want {
			t.Errorf("%d %s", r.status, r.body)
		}
		if e.requests() != 0 {
			t.Error("a worker was asked")
		}
		g.fleet.workers[2].Spec.Models = []worker.Model{{ID: "new"}}
		if r := g.do(get("/v1/models")); r.body != want {
			t.Errorf("the page is made anew although nobody has come or gone: %s", r.body)
		}
		g.fleet.generation.Add(1)
		if r := g.do(get("/v1/models")); !strings.Contains(r.body, `"new"`) || strings.Contains(r.body, `"other"`) {
			t.Errorf("of another generation: %s", r.body)
		}
		if r := start(t, nil).do(get("/v1/models")); r.status != 503 || r.body != "No models available" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
			t.Errorf("empty: %d %q", r.status, r.body)
		}
	})

	t.Run("4_unknown_path_and_method", func(t *testing.T) {
		g := start(t, nil)
		for _, path := range []string{"/nothing", "/generate/", "/v1/", "//health", "/%0d%0ahealth"} {
			if r := g.do(get(path)); r.status != 404 || r.body != "" {
				t.Errorf("%s: %d %q", path, r.status, r.body)
			}
		}
		if r := g.do(get("/generate")); r.status != 405 || r.body != "" || r.header.Get("Allow") != "POST" {
			t.Errorf("GET /generate: %d %q, Allow %q", r.status, r.body, r.header.Get("Allow"))
		}
		if r := g.do(post("/health", "{}")); r.status != 405 || r.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST /health: %d, Allow %q", r.status, r.header.Get("Allow"))
		}
	})

	t.Run("16_models_of_requests", func(t *testing.T) {
		_, url := answers(t, jsonOK)
		g := start(t, []string{url})
		if r := g.do(post("/generate", `{"text":"hi"}`)); r.status != 200 || r.body != `{"ok":true}` {
			t.Errorf("no model: %d %s", r.status, r.body)
		}
		if ask := g.selector.lastAsk(t); ask.Model != "" {
			t.Errorf("asked for model %q", ask.Model)
		}
		g.do(chat(strings.Replace(chatBody, `"m"`, `"nobody's"`, 1))).fails(t, 404, "model_not_found")
		huge := strings.Repeat("é", 1<<20)
		r := g.do(chat(strings.Replace(chatBody, `"m"`, `"`+huge+`"`, 1)))
		if r.fails(t, 404, "model_not_found"); len(r.body) > 2000 {
			t.Errorf("an error of %d bytes", len(r.body))
		}
		start(t, nil).do(post("/generate", `{"text":"hi"}`)).fails(t, 404, "model_not_found")
	})

	t.Run("17_bad_json", func(t *testing.T) {
		g := start(t, nil)
		tests := []struct {
			name, request string
			status        int
			want          string // code, or the begin of the text
		}{
			{"chat_syntax", chat(`{"model":`), 400, `"code":"json_parse_error"`},
			{"chat_empty", chat(``), 400, `"code":"json_parse_error"`},
			{"chat_type", chat(`{"model":1,"messages":[]}`), 400, `"code":"json_parse_error"`},
			{"chat_no_model", chat(`{"messages":[{"role":"user","content":"hi"}]}`), 400, `"code":400`},
			{"chat_no_messages", chat(`{"model":"m","messages":[]}`), 400, `"code":400`},
			{"completions_no_prompt", post("/v1/completions", `{"model":"m"}`), 400, `"code":400`},
			{"generate_syntax", post("/generate", `{`), 400, "invalid JSON"},
			{"generate_rule", post("/generate", `{}`), 400, ""},
			{"generate_type", post("/generate", `{"text":1}`), 422, ""},
			{"generate_array", post("/generate", `[]`), 422, ""},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				r := g.do(tt.request)
				if r.status != tt.status || !strings.Contains(r.body, tt.want) || r.header.Get("X-SMG-Error-Code") != "" {
					t.Errorf("%d %q", r.status, r.body)
				}
				if strings.HasPrefix(tt.name, "generate") {
					if r.header.Get("Content-Type") != "text/plain; charset=utf-8" || strings.HasPrefix(r.body, "{") {
						t.Errorf("no plain text: %q", r.body)
					}
				} else if !strings.Contains(r.body, `"type":"invalid_request_error"`) {
					t.Errorf("type: %s", r.body)
				}
			})
		}
	})

	t.Run("18_envelope", func(t *testing.T) {
		tests := []struct {
			err    error
			status int
			code   string
		}{
			{worker.ErrNoWorkers, 404, "model_not_found"},
			{fmt.Errorf("pool: %w", worker.ErrUnavailable), 503, "no_available_workers"},
			{worker.ErrOverloaded, 503, "worker_overload_protection_shed"},
			{fmt.Errorf("%w: target index out of range", worker.ErrDeclined), 503, "no_available_workers"},
			{wire.ErrSelectionUnavailable, 503, "selection_unavailable"},
			{io.ErrShortBuffer, 500, "internal_error"},
		}
		for _, tt := range tests {
			t.Run(tt.code, func(t *testing.T) {
				g := start(t, nil)
				g.selector.err = tt.err
				g.do(chat(chatBody)).fails(t, tt.status, tt.code)
			})
		}
	})

	t.Run("21_request_headers", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url})
		g.do(chat(chatBody,
			"Cookie: a=b", "X-Api-Key: k", "Accept: */*", "Accept-Encoding: gzip", "User-Agent: x", "X-Forwarded-For: 1.2.3.4", "X-Smg-Target-Worker: 0",
			"X-Smg-Routing-Tokens: 1,2", "X-SMG-Error-Code: x", "Connection: keep-alive, x-foo", "X-Foo: 1", "TE: trailers", "Upgrade: h2c", "Trailer: X-T", "Proxy-Authorization: p",
			"X-Request-Id: r1", "X-Correlation-Id: c1", "X-Request-Id-Extra: r2", "Traceparent: 00-a-b-01", "Tracestate: s", "X-Smg-Routing-Key: key",
			"Anthropic-Version: v", "Anthropic-Beta: b1", "Anthropic-Beta: b2", "X-Request-Id-: none"))
		want := http.Header{
			"Content-Type": {"application/json"}, "Content-Length": {fmt.Sprint(len(chatBody))},
			"X-Request-Id": {"r1"}, "X-Correlation-Id": {"c1"}, "X-Request-Id-Extra": {"r2"}, "Traceparent": {"00-a-b-01"}, "Tracestate": {"s"},
			"X-Smg-Routing-Key": {"key"}, "Anthropic-Version": {"v"}, "Anthropic-Beta": {"b1", "b2"},
		}
		got := e.last(t)
		if diff := cmp.Diff(want, got.head); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
		if got.host != strings.TrimPrefix(url, "http://") || got.target != "/v1/chat/completions" || got.body != chatBody {
			t.Errorf("host %q, target %q, body %q", got.host, got.target, got.body)
		}
	})

	t.Run("22_one_authorization", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url})
		g.do(chat(chatBody, "Authorization: Bearer caller", "Authorization: Bearer second"))
		if diff := cmp.Diff([]string{"Bearer caller"}, e.last(t).head["Authorization"]); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("23_routed_worker_id", func(t *testing.T) {
		_, plain := answers(t, jsonOK)
		_, stream := answers(t, sseHead+chunk(event)+chunk(done)+lastOne)
		_, refusal := answers(t, "HTTP/1.1 429 Too Many Requests\r\nx-smg-routed-worker-id: me\r\ncontent-length: 2\r\n\r\nno")
		for _, tt := range []struct{ url, body string }{{plain, chatBody}, {stream, streamBody}, {refusal, chatBody}} {
			r := start(t, []string{tt.url}).do(chat(tt.body))
			if diff := cmp.Diff([]string{tt.url}, r.header.Values("X-Smg-Routed-Worker-Id")); diff != "" {
				t.Errorf("%d: %s", r.status, diff)
			}
		}
	})

	t.Run("24_response_headers", func(t *testing.T) {
		_, url := answers(t, "HTTP/1.1 418 Teapot\r\nConnection: X-Hop, keep-alive\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nconnection: x-hop-2\r\nx-hop-2: 1\r\n"+
			"X-SMG-Error-Code: theirs\r\nProxy-Authenticate: x\r\nTrailer: x\r\nTe: x\r\nUpgrade: x\r\nHost: x\r\n"+
			"x-custom: a\r\nX-Custom: b\r\nset-cookie: c=d\r\nServer: uvicorn\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\ncontent-type: text/plain\r\nContent-Length: 2\r\n\r\nhm")
		r := start(t, []string{url}).do(chat(chatBody))
		stepsOf(t, r.header)
		r.header.Del(timingHeader)
		r.header.Del("X-Request-Id")
		want := http.Header{
			"X-Custom": {"a", "b"}, "Set-Cookie": {"c=d"}, "Server": {"uvicorn"}, "Date": {"Mon, 01 Jan 2024 00:00:00 GMT"},
			"Content-Type": {"text/plain"}, "Content-Length": {"2"}, "X-Smg-Routed-Worker-Id": {url},
		}
		if diff := cmp.Diff(want, r.header); diff != "" || r.status != 418 || r.body != "hm" {
			t.Errorf("%d %q (-want +got):\n%s", r.status, r.body, diff)
		}
	})

	t.Run("26_routing_keys", func(t *testing.T) {
		_, url := answers(t, jsonOK)
		g := start(t, []string{url}, withConfig(func(c *Config) { c.RoutingKeyHeaders = []string{"x-a", "x-smg-routing-key"} }))
		long := strings.Repeat("k", 128)
		header := func(k string) worker.Keys { return worker.Keys{Header: worker.HashKey(k)} }
		implicit := func(k string) worker.Keys { return worker.Keys{Implicit: worker.HashKey(k)} }
		tests := []struct {
			name   string
			fields []string
			want   worker.Keys
		}{
			{"none", nil, worker.Keys{}},
			{"128_bytes", []string{"X-SMG-Routing-Key: " + long}, header(long)},
			{"129_bytes", []string{"X-SMG-Routing-Key: " + long + "k"}, worker.Keys{}},
			{"not_utf8", []string{"X-SMG-Routing-Key: a\xff"}, worker.Keys{}},
			{"utf8", []string{"X-SMG-Routing-Key: é"}, header("é")},
			{"empty", []string{"X-SMG-Routing-Key:"}, worker.Keys{}},
			{"named_first", []string{"X-SMG-Routing-Key: b", "X-A: a"}, header("a")},
			{"named_invalid", []string{"X-SMG-Routing-Key: b", "X-A: \xff"}, header("b")},
			{"first_value_counts", []string{"X-A: ", "X-A: c"}, worker.Keys{}},
			{"implicit_order", []string{"Cookie: c", "Authorization: Bearer x"}, implicit("Bearer x")},
			{"implicit_last", []string{"Cookie: c", "X-SMG-Routing-Key: " + long + "k"}, implicit("c")},
			{"implicit_unprintable_W-21", []string{"X-Forwarded-For: é", "Cookie: c"}, implicit("c")},
			{"explicit_wins", []string{"Authorization: x", "X-SMG-Routing-Key: b"}, header("b")},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				if r := g.do(chat(chatBody, tt.fields...)); r.status != 200 {
					t.Fatalf("%d %s", r.status, r.body)
				}
				if got := g.selector.lastAsk(t).Keys; got != tt.want {
					t.Errorf("got %+v, want %+v", got, tt.want)
				}
			})
		}
	})

	t.Run("26_keys_that_nobody_reads", func(t *testing.T) {
		_, url := answers(t, jsonOK)
		g := start(t, []string{url}, withDeps(func(d *Deps) { d.Reads = func(worker.Leg) wire.Reads { return 0 } }))
		g.do(chat(chatBody, "X-SMG-Routing-Key: b", "Cookie: c"))
		// The header still tells the calls of a worker apart.
		if got := g.selector.lastAsk(t).Keys; got != (worker.Keys{Header: worker.HashKey("b")}) {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("46_worker_down", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + l.Addr().String()
		l.Close()
		g := start(t, []string{url})
		r := g.do(chat(chatBody))
		r.fails(t, 500, "call_upstream_request_error")
		if !strings.Contains(r.body, url) {
			t.Errorf("the worker is not named: %s", r.body)
		}
		if got := g.selector.last(t); got != (ending{worker.Failure, true}) {
			t.Errorf("lease: %+v", got)
		}
	})

	t.Run("81_buffer_budget", func(t *testing.T) {
		e, url := hangs(t)
		g := start(t, []string{url}, withConfig(func(c *Config) { c.MaxBufferedBytes = int64(len(chatBody)) + 10 }))
		first := g.dial()
		first.send(chat(chatBody))
		within(t, patience, "the engine has the request", func() bool { return e.requests() == 1 })
		c := g.dial()
		c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
		c.answer().fails(t, 503, "buffer_budget_exhausted") // and no 100 Continue
		first.Close()
		g.idle()
	})

	t.Run("82_repeated_and_escaped_keys", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url})
		r := g.do(chat(`{"model":"x","n":1,"messages":[{"role":"user","content":"hi"}],"stream":true,"mod\u0065l":"m","\u006e":1,"str\u0065am":false}`))
		if r.status != 200 || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
		got := e.last(t).body
		var keys map[string]json.RawMessage
		if err := json.Unmarshal([]byte(got), &keys); err != nil {
			t.Fatal(err)
		}
		if strings.Count(got, "od") != 1 || len(keys) != 4 || string(keys["model"]) != `"m"` || string(keys["stream"]) != "false" || string(keys["n"]) != "1" {
			t.Errorf("the engine sees %s", got)
		}
	})
}

func TestHead(t *testing.T) {
	g := start(t, nil)
	c := g.dial()
	for range 2 { // on one connection: no stray body
		c.send("HEAD /health HTTP/1.1\r\nHost: g\r\n\r\n")
		resp, err := http.ReadResponse(c.br, &http.Request{Method: http.MethodHead})
		if err != nil || resp.StatusCode != 200 || resp.ContentLength != 2 {
			t.Fatalf("%v %v", resp, err)
		}
	}
}

func TestContentType(t *testing.T) {
	_, url := answers(t, jsonOK)
	g := start(t, []string{url})
	request := func(path, contentType, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: g\r\n%sContent-Length: %d\r\n\r\n%s", path, contentType, len(body), body)
	}
	tests := []struct {
		name, contentType string
		want              int
	}{
		{"missing", "", 415},
		{"text", "Content-Type: text/plain\r\n", 415},
		{"json", "Content-Type: application/json\r\n", 200},
		{"charset", "Content-Type: Application/JSON; charset=utf-8\r\n", 200},
		{"suffix", "Content-Type: application/vnd.x+json\r\n", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if r := g.do(request("/generate", tt.contentType, `{"text":"hi"}`)); r.status != tt.want || strings.HasPrefix(r.body, "{") != (tt.want == 200) {
				t.Errorf("generate: %d %s", r.status, r.body)
			}
			if r := g.do(request("/v1/chat/completions", tt.contentType, chatBody)); r.status != 200 {
				t.Errorf("chat: %d %s", r.status, r.body)
			}
		})
	}
}

func TestWorkers(t *testing.T) {
	_, url := answers(t, jsonOK)
	g := start(t, []string{url, url + "/b", url + "/c"})
	w := g.fleet.workers
	w[0].Spec.Models = []worker.Model{{ID: "m", Aliases: []string{"alias"}}}
	w[1].Spec.Models, w[1].Spec.Leg = []worker.Model{{ID: "other"}}, worker.Prefill
	w[2].Spec.Models, w[2].Record.Status = nil, worker.NotReady
	type list struct {
		Workers []map[string]any
		Total   int
		Stats   map[string]int
	}
	ask := func(query string) (l list) {
		r := g.do(get("/workers" + query))
		if err := json.Unmarshal([]byte(r.body), &l); err != nil || r.status != 200 {
			t.Fatalf("%d %v %s", r.status, err, r.body)
		}
		return l
	}
	all := ask("")
	if diff := cmp.Diff(map[string]int{"regular_count": 2, "prefill_count": 1, "decode_count": 0}, all.Stats); diff != "" || all.Total != 3 {
		t.Errorf("total %d, stats %s", all.Total, diff)
	}
	want := map[string]any{
		"id": w[0].Spec.ID.String(), "url": url, "model_id": "m", "models": []any{map[string]any{"id": "m", "aliases": []any{"alias"}}},
		"worker_type": "regular", "connection_mode": "http", "runtime_type": "generic", "labels": map[string]any{}, "priority": 50.0, "cost": 1.0,
		"is_healthy": true, "status": "ready", "load": 0.0, "http2": false,
	}
	if diff := cmp.Diff(want, all.Workers[0]); diff != "" {
		t.Errorf("worker (-want +got):\n%s", diff)
	}
	if all.Workers[2]["is_healthy"] != false || all.Workers[2]["status"] != "not_ready" {
		t.Errorf("the unready worker: %v", all.Workers[2])
	}
	if _, ok := all.Workers[2]["model_id"]; ok {
		t.Error("a worker without models has a model_id")
	}
	for query, want := range map[string]int{"?model=alias": 2, "?model=m": 2, "?model=other": 2, "?model=none": 1, "?model=": 3} {
		if got := ask(query); got.Total != want || len(got.Workers) != want {
			t.Errorf("%s: %d workers, want %d", query, got.Total, want)
		}
	}
}

func TestSelectionMetric(t *testing.T) {
	_, url := answers(t, jsonOK)
	g := start(t, []string{url})
	g.do(chat(chatBody))
	g.do(chat(chatBody))
	g.do(post("/generate", `{"text":"hi"}`))
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "smg_worker_selection_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			got[key] = m.GetCounter().GetValue()
		}
	}
	const name = "smg_worker_selection_total connection_mode=http model="
	want := map[string]float64{
		name + "m policy=round_robin worker_type=regular":       2,
		name + "unknown policy=round_robin worker_type=regular": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
