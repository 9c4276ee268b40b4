package simhttp_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

func TestStatusRules(t *testing.T) {
	e := simtest.Start(t, config(simhttp.VLLM))
	setFaults(t, e, simctl.Faults{Rules: []simctl.Rule{
		{Match: simctl.Match{Path: "/health", Skip: 1, First: 2}, Status: 500},
		{Match: simctl.Match{Contains: "boom", Method: "POST"}, Status: 418, Body: json.RawMessage(`{"a":1}`)},
		{Match: simctl.Match{Path: "/v1/models"}, Status: 502, Body: json.RawMessage(`"plain"`), Header: map[string]string{"Retry-After": "3"}},
	}})
	c := callerOf(t, e)
	for i, want := range []int{200, 500, 500, 200} {
		if status, text := c.do("GET", "/health", ""); status != want {
			t.Errorf("health %d: %d %s, want %d", i, status, text, want)
		}
	}
	if status, text := c.post("/v1/completions", `{"prompt":"boom"}`); status != 418 || text != `{"a":1}` {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := c.post("/v1/completions", `{"prompt":"bang"}`); status != 200 {
		t.Errorf("no match: %d", status)
	}
	resp, err := c.try(ctxFor(t), "GET", "/v1/models", "")
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 502 || string(raw) != "plain" || resp.Header.Get("Retry-After") != "3" {
		t.Errorf("%d %q %v", resp.StatusCode, raw, resp.Header)
	}
	if err := e.Reset(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	if status, _ := c.do("GET", "/v1/models", ""); status != 200 {
		t.Errorf("after reset: %d", status)
	}
}

func TestHoldAndRelease(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	setFaults(t, e, simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: "/generate"}, Hold: true}}})
	c := callerOf(t, e)
	done := make(chan int, 3)
	for range 3 {
		go func() {
			status, _ := c.post("/generate", `{"text":"x"}`)
			done <- status
		}()
	}
	await(t, e, "three are held", func(l simctl.Ledger) bool { return l.Held == 3 })
	if n, err := e.Release(ctxFor(t), 1); n != 1 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
	if status := <-done; status != 200 {
		t.Errorf("released request: %d", status)
	}
	await(t, e, "two are held", func(l simctl.Ledger) bool { return l.Held == 2 && l.InFlight == 2 })
	setFaults(t, e, simctl.Faults{})
	for range 2 {
		if status := <-done; status != 200 {
			t.Errorf("released request: %d", status)
		}
	}
	idle(t, e)
}

// rawStream returns what arrives of a streamed chat, and how it ends.
func rawStream(t *testing.T, e *simtest.Engine) (string, error) {
	t.Helper()
	resp, err := callerOf(t, e).try(ctxFor(t), "POST", "/v1/chat/completions",
		`{"stream":true,"temperature":0,"max_tokens":10,"ignore_eos":true,`+hello+`}`)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return string(raw), err
}

func TestStreamFaults(t *testing.T) {
	e := simtest.Start(t, config(simhttp.VLLM))
	whole, err := rawStream(t, e)
	if err != nil {
		t.Fatal(err)
	}
	events := strings.SplitAfter(whole, "\n\n")
	if len(events) != 13 { // role, ten tokens, [DONE], and the rest: nothing
		t.Fatalf("%d pieces in %q", len(events), whole)
	}
	two, zero, tokens := 2, 0, 25
	sameIDs := func(s string) string { // each answer has its own id, and its second
		if i := strings.Index(s, "chatcmpl-"); i >= 0 {
			s = strings.ReplaceAll(s, s[i:i+41], "ID")
		}
		const created = `"created":`
		if i := strings.Index(s, created); i >= 0 {
			second, _, _ := strings.Cut(s[i:], ",")
			s = strings.ReplaceAll(s, second, created+"0")
		}
		return s
	}
	tests := []struct {
		name  string
		rule  simctl.Rule
		check func(t *testing.T, got string, err error)
	}{
		{
			name: "cut after two events", rule: simctl.Rule{Stream: &simctl.StreamFault{CutAfter: &two}},
			check: func(t *testing.T, got string, err error) {
				if !errors.Is(err, io.ErrUnexpectedEOF) || sameIDs(got) != sameIDs(events[0]+events[1]) {
					t.Errorf("%q, %v", got, err)
				}
			},
		},
		{
			name: "cut after the headers", rule: simctl.Rule{Stream: &simctl.StreamFault{CutAfter: &zero}},
			check: func(t *testing.T, got string, err error) {
				if !errors.Is(err, io.ErrUnexpectedEOF) || got != "" {
					t.Errorf("%q, %v", got, err)
				}
			},
		},
		{
			name: "dropped before the headers", rule: simctl.Rule{Drop: true},
			check: func(t *testing.T, got string, err error) {
				if !errors.Is(err, io.EOF) || got != "" {
					t.Errorf("%q, %v", got, err)
				}
			},
		},
		{
			name: "malformed event", rule: simctl.Rule{Stream: &simctl.StreamFault{MalformedAt: 2}},
			check: func(t *testing.T, got string, err error) {
				parts := strings.SplitAfter(got, "\n\n")
				if err != nil || json.Valid([]byte(strings.TrimPrefix(parts[1], "data: "))) || len(parts) != len(events) {
					t.Errorf("%q, %v", got, err)
				}
			},
		},
		{
			name: "split events", rule: simctl.Rule{Stream: &simctl.StreamFault{SplitAt: 9, SplitPause: simctl.Duration(time.Millisecond)}},
			check: func(t *testing.T, got string, err error) {
				if err != nil || sameIDs(got) != sameIDs(whole) {
					t.Errorf("%q, %v", got, err)
				}
			},
		},
		{
			name: "so many tokens", rule: simctl.Rule{Stream: &simctl.StreamFault{Tokens: &tokens, Gap: simctl.Duration(time.Microsecond)}},
			check: func(t *testing.T, got string, err error) {
				if n := strings.Count(got, `"content":`); err != nil || n != 26 {
					t.Errorf("%d events with content, %v", n, err)
				}
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			setFaults(t, e, simctl.Faults{Rules: []simctl.Rule{tc.rule}})
			got, err := rawStream(t, e)
			tc.check(t, got, err)
			idle(t, e)
		})
	}
}

func TestCutBody(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	n := 10
	setFaults(t, e, simctl.Faults{Rules: []simctl.Rule{{CutBody: &n}}})
	resp, err := callerOf(t, e).try(ctxFor(t), "POST", "/generate", `{"text":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if len(raw) != n || !errors.Is(err, io.ErrUnexpectedEOF) || resp.ContentLength <= int64(n) {
		t.Errorf("%d of %d bytes, %v", len(raw), resp.ContentLength, err)
	}
	idle(t, e)
}

func TestStrict(t *testing.T) {
	e := simtest.Start(t, config(simhttp.VLLM))
	setFaults(t, e, simctl.Faults{Strict: true})
	tests := []struct {
		name, body string
		status     int
	}{
		{"stream_options without stream", `{"stream_options":{"include_usage":true},` + hello + `}`, 400},
		{"stream_options with stream", `{"stream":true,"stream_options":{"include_usage":true},` + hello + `}`, 200},
		{"null for a boolean", `{"stream":null,` + hello + `}`, 400},
		{"null for a number", `{"n":null,` + hello + `}`, 200},
		{"unknown fields", `{"x":12345678901234567890,"y":1e-7,` + hello + `}`, 200},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if status, text := callerOf(t, e).post("/v1/chat/completions", tc.body); status != tc.status {
				t.Errorf("%d %s, want %d", status, text, tc.status)
			}
		})
	}
}

func TestAuthFault(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	setFaults(t, e, simctl.Faults{Auth: "k"})
	c := callerOf(t, e)
	for _, path := range []string{"/health", "/v1/models", "/metrics", "/nowhere"} {
		if status, _ := c.do("GET", path, ""); status != http.StatusUnauthorized {
			t.Errorf("%s without the token: %d", path, status)
		}
	}
	req, _ := http.NewRequestWithContext(ctxFor(t), "GET", e.URL+"/health", nil)
	req.Header.Set("Authorization", "Bearer k")
	resp, err := c.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("with the token: %d", resp.StatusCode)
	}
}

func TestRecord(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	setFaults(t, e, simctl.Faults{Record: true})
	c := callerOf(t, e)
	body := `{"text":"x","big":12345678901234567890}`
	c.post("/generate?q=1", body)
	c.do("GET", "/health", "")
	got := records(t, e, "/generate")
	if len(got) != 1 {
		t.Fatalf("%d records", len(got))
	}
	r := got[0]
	if r.Method != "POST" || r.Path != "/generate?q=1" || string(r.Body) != body || r.Host != e.Addr ||
		r.Header.Get("Content-Type") != "application/json" || r.Status != 200 || r.Conn == 0 || r.Arrived.After(r.Ended) {
		t.Errorf("record %+v", r)
	}
	if !r.CallerClosed.IsZero() {
		t.Errorf("the caller has not gone: %v", r.CallerClosed)
	}
	if all := records(t, e, ""); len(all) != 2 || all[1].Conn != r.Conn {
		t.Errorf("all records: %+v", all)
	}
	c.client.CloseIdleConnections()
	await(t, e, "the connection is closed", func(l simctl.Ledger) bool { return l.Connections == 0 })
	if r := records(t, e, "/generate")[0]; r.ConnClosed.IsZero() {
		t.Error("the end of the connection is not recorded")
	}
}

func TestKeepAlive(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	conn := leaver(t, e, "/generate", `{"text":"x"}`)
	await(t, e, "it is answered", func(l simctl.Ledger) bool { return l.InFlight == 0 && l.Connections == 1 })
	// The limit reaches connections that idle already.
	setFaults(t, e, simctl.Faults{KeepAlive: simctl.Duration(5 * time.Millisecond)})
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the engine did not close an idle connection: %v", err)
	}
	second := leaver(t, e, "/generate", `{"text":"x"}`)
	if err := second.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(second)
	if err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 200") {
		t.Errorf("%q, %v", raw, err)
	}
}

func TestRefuseAndReset(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	get := func() error {
		resp, err := callerOf(t, e).try(ctxFor(t), "GET", "/health", "")
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	setFaults(t, e, simctl.Faults{Refuse: true})
	if err := get(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refusing: %v", err)
	}
	setFaults(t, e, simctl.Faults{})
	if err := get(); err != nil {
		t.Errorf("open again: %v", err)
	}
	setFaults(t, e, simctl.Faults{Reset: 1})
	if err := get(); err == nil {
		t.Error("the connection was not reset")
	}
	if err := get(); err != nil {
		t.Errorf("after one reset: %v", err)
	}
}

func TestFreeze(t *testing.T) {
	e := simtest.Start(t, slow(simhttp.VLLM))
	conn := leaver(t, e, "/v1/completions", `{"stream":true,"prompt":"x","max_tokens":40,"ignore_eos":true}`)
	await(t, e, "it streams", func(l simctl.Ledger) bool { return l.Running == 1 && l.Requests[0].Tokens > 2 })
	setFaults(t, e, simctl.Faults{Freeze: true})
	before, err := e.Ledger(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(conn)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("frozen stream ended: %q, %v", raw, err)
	}
	if after, _ := e.Ledger(ctxFor(t)); after.Requests[0].Tokens != before.Requests[0].Tokens {
		t.Errorf("time goes on: %+v, %+v", before, after)
	}
	setFaults(t, e, simctl.Faults{})
	idle(t, e)
}

func TestLoadsOverride(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	seven, usage := 7, 0.75
	setFaults(t, e, simctl.Faults{Loads: &simctl.LoadsOverride{Waiting: &seven, TokenUsage: &usage}})
	c := callerOf(t, e)
	if _, text := c.do("GET", "/v1/loads", ""); !strings.Contains(text, `"num_waiting_reqs":7`) || !strings.Contains(text, `"token_usage":0.75`) {
		t.Error(text)
	}
	if _, text := c.do("GET", "/metrics", ""); !strings.Contains(text, `pp_rank="0"} 7`) {
		t.Error(text)
	}
	setFaults(t, e, simctl.Faults{Loads: &simctl.LoadsOverride{Absent: true}})
	if status, _ := c.do("GET", "/v1/loads", ""); status != 404 {
		t.Errorf("absent: %d", status)
	}
}

func TestEarlyAnswer(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	setFaults(t, e, simctl.Faults{Rules: []simctl.Rule{{Early: true, Status: 429}}})
	conn, err := net.Dial("tcp", e.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 429" {
		t.Errorf("%q %v", head, err)
	}
}

func TestControlRefusesNonsense(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	tests := []struct{ name, method, path, body, contains string }{
		{"unknown field", "PUT", "/_sim/faults", `{"freze":true}`, "freze"},
		{"two documents", "PUT", "/_sim/faults", `{} {}`, "more than one"},
		{"bad duration", "PUT", "/_sim/faults", `{"keep_alive":"soon"}`, "duration"},
		{"negative window", "PUT", "/_sim/faults", `{"window":-1}`, "window"},
		{"bad status", "PUT", "/_sim/faults", `{"rules":[{"status":99}]}`, "rules[0]"},
		{"body without status", "PUT", "/_sim/faults", `{"rules":[{"body":{}}]}`, "status"},
		{"count", "POST", "/_sim/release?count=x", ``, "count"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			status, text := callerOf(t, e).do(tc.method, tc.path, tc.body)
			if status != http.StatusBadRequest || !strings.Contains(text, tc.contains) {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	if err := e.SetFaults(ctxFor(t), simctl.Faults{Reset: -1}); err == nil {
		t.Error("the client hides the refusal")
	}
	engines, err := simctl.NewClient(e.URL, nil).Engines(ctxFor(t))
	if err == nil {
		t.Errorf("an engine lists engines: %v", engines)
	}
	http.DefaultClient.CloseIdleConnections()
}
