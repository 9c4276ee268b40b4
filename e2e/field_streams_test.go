package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// streaming is a gateway and its engines, whole or in legs, for what others report of
// streams. Each request is tried once, and no breaker opens.
type streaming struct {
	*gateway
	kind      simhttp.Kind
	legs      bool
	all       []*simtest.Engine
	answering []*simtest.Engine // those whose answers clients see
	awaited   []*simtest.Engine // those for whom a client waits first
}

// streamingArgs have connections live longer in the gateway than in the engines.
func streamingArgs() []string {
	return []string{"--disable-retries", "--disable-circuit-breaker", "--upstream-pool-idle-timeout-secs", "60"}
}

// streamCase is a case of this file.
type streamCase struct {
	name string
	run  func(s *streaming, t *testing.T)
}

func streamCases() []streamCase {
	return []streamCase{
		{"ST-01_a_silent_engine_and_a_client_that_leaves", (*streaming).silentEngine},
		{"ST-02_host_and_hop_by_hop_headers", (*streaming).hopByHop},
		{"ST-04_events_are_split_at_every_byte", (*streaming).splitEvents},
		{"ST-05_each_event_as_it_comes", (*streaming).asItComes},
		{"ST-06_what_was_not_said_stays_so", (*streaming).verbatimFields},
		{"ST-08_one_error_body", (*streaming).oneError},
		{"ST-12_engines_that_break_off", (*streaming).breakOff},
		{"ST-13_types_of_streams", (*streaming).streamTypes},
		// The last one: connections of its engines may close at any time later.
		{"ST-03_connections_have_died_of_idleness", (*streaming).diedIdle},
	}
}

// TestFieldStreams has what others report of streams through both legs of an answer.
func TestFieldStreams(t *testing.T) {
	kinds(t, func(t *testing.T, kind simhttp.Kind) {
		var rows []row
		for _, c := range streamCases() {
			rows = append(rows, row{c.name, func(t *testing.T, f *legFleet) {
				s := &streaming{gateway: f.gateway, kind: kind, legs: true, all: f.pd.All(), answering: f.pd.Decode, awaited: f.pd.Decode}
				if kind == simhttp.VLLM {
					s.awaited = f.pd.Prefill // what it has handed over, decode takes before it is left
				}
				c.run(s, t)
			}})
		}
		legs{kind: kind, roles: roles{prefill: 1, decode: 2}, args: streamingArgs()}.rows(t, rows...)
	})
}

// TestFieldStreamsWhole has the same through engines that do all of the work.
func TestFieldStreamsWhole(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"whole": func(t *testing.T, topology ...string) {
			engines := simtest.StartN(t, 2, simtest.Config())
			args := append(append(streamingArgs(), "--policy", "round_robin", "--shutdown-grace-period-secs", "0"), topology...)
			s := &streaming{
				gateway: launched(t, urls(engines), args...), kind: simtest.Config().Kind,
				all: engines, answering: engines, awaited: engines,
			}
			for _, c := range streamCases() {
				t.Run(c.name, func(t *testing.T) {
					s.t = t
					s.faults(t, s.all, simctl.Faults{})
					c.run(s, t)
					s.quiet(t)
				})
			}
			s.t = t
			s.stop(0)
		},
	})
}

// faults has engines behave like this, with no records of before, and record what comes.
func (s *streaming) faults(t *testing.T, engines []*simtest.Engine, faults simctl.Faults) {
	t.Helper()
	faults.Record = true
	for _, e := range engines {
		if err := errors.Join(e.Reset(t.Context()), e.SetFaults(t.Context(), faults)); err != nil {
			t.Fatal(err)
		}
	}
}

// shaped has the streams that clients see come like this.
func (s *streaming) shaped(t *testing.T, f simctl.StreamFault) {
	t.Helper()
	s.faults(t, s.answering, simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Method: http.MethodPost}, Stream: &f}}})
}

// seen are the chats that engines have got.
func (s *streaming) seen(t *testing.T, engines []*simtest.Engine) (all []simctl.Record) {
	t.Helper()
	for _, e := range engines {
		records, err := e.Records(t.Context(), chatPath)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
	}
	return all
}

// quiet waits until nobody has or counts a request.
func (s *streaming) quiet(t *testing.T) {
	t.Helper()
	for _, name := range []string{"smg_worker_requests_active", "smg_selector_requests_active"} {
		await(t, name+" to fall to 0", func() bool { return total(t, s.metrics, name) == 0 })
	}
	for _, e := range s.all {
		if l, err := e.WaitIdle(t.Context()); err != nil {
			t.Errorf("%s still holds %+v: %v", e.URL, l, err)
		}
	}
}

// raw sends a request by hand, with these lines in its head, and leaves the
// connection to the caller.
func (s *streaming) raw(t *testing.T, body, lines string) net.Conn {
	t.Helper()
	nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if _, err := fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: gateway.example\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", chatPath, lines, len(body), body); err != nil {
		t.Fatal(err)
	}
	return nc
}

func (s *streaming) silentEngine(t *testing.T) {
	for _, fields := range []string{"", `,"stream":true`} {
		s.faults(t, s.awaited, held(chatPath))
		nc := s.raw(t, chatWith(fields), "")
		await(t, "the request at an engine", func() bool { return len(s.seen(t, s.awaited)) == 1 })
		if n := total(t, s.metrics, "smg_worker_requests_active"); n == 0 {
			t.Error("a request that waits is not counted")
		}
		gone := time.Now()
		if err := nc.Close(); err != nil {
			t.Fatal(err)
		}
		await(t, "the engine to be left", func() bool { return !s.seen(t, s.awaited)[0].CallerClosed.IsZero() })
		if took := s.seen(t, s.awaited)[0].CallerClosed.Sub(gone); took > time.Second {
			t.Errorf("with %q the engine was left %v after the client", fields, took)
		}
		s.quiet(t)
		s.faults(t, s.awaited, simctl.Faults{})
	}
}

func (s *streaming) hopByHop(t *testing.T) {
	if !s.legs { // the answer of a leg alone would leave the other one behind
		s.faults(t, s.answering, simctl.Faults{Rules: []simctl.Rule{{
			Match: simctl.Match{Path: chatPath}, Status: http.StatusOK, Body: json.RawMessage(`{"choices":[]}`),
			Header: map[string]string{"Content-Type": "application/json", "Connection": "X-Back", "X-Back": "1", "Keep-Alive": "timeout=5", "Proxy-Authenticate": "Basic"},
		}}})
	}
	nc := s.raw(t, chatWith(""), "Connection: close, X-Named\r\nX-Named: 1\r\nKeep-Alive: timeout=9\r\nTE: trailers\r\nProxy-Authorization: Basic YTpi\r\nUpgrade: h2c\r\nAuthorization: Bearer mine\r\nX-Other: 1\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	for _, name := range []string{"X-Back", "Keep-Alive", "Proxy-Authenticate"} {
		if v := resp.Header.Get(name); v != "" {
			t.Errorf("the client got %s: %s", name, v)
		}
	}
	seen := 0
	for _, e := range s.all {
		for _, r := range s.seen(t, []*simtest.Engine{e}) {
			seen++
			own, err := url.Parse(e.URL)
			if err != nil {
				t.Fatal(err)
			}
			if r.Host != own.Host {
				t.Errorf("Host %s, want that of the engine, %s", r.Host, own.Host)
			}
			for _, name := range []string{"X-Named", "Keep-Alive", "Te", "Proxy-Authorization", "Upgrade", "Connection", "X-Other"} {
				if v := r.Header.Get(name); v != "" {
					t.Errorf("an engine got %s: %s", name, v)
				}
			}
			if got := r.Header.Values("Authorization"); !slices.Equal(got, []string{"Bearer mine"}) {
				t.Errorf("Authorization %q", got)
			}
		}
	}
	if seen == 0 {
		t.Error("no engine has seen the request")
	}
}

// numbersOfAnAnswer are what differs between two answers to the same question.
var numbersOfAnAnswer = regexp.MustCompile(`"(id|created|request_id)":("[^"]*"|\d+)`)

func (s *streaming) splitEvents(t *testing.T) {
	body := `{"model":"sim","messages":[{"role":"user","content":"Where is Käse made?"}],"temperature":0,"stream":true,"stream_options":{"include_usage":true},"max_tokens":40,"ignore_eos":true}`
	ask := func() string {
		a := do(t, http.MethodPost, s.url+chatPath, body)
		if a.status != http.StatusOK || !utf8.ValidString(a.body) || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		return numbersOfAnAnswer.ReplaceAllString(a.body, `"$1":0`)
	}
	want := ask()
	if utf8.RuneCountInString(want) == len(want) || !strings.Contains(want, `"usage":{`) {
		t.Fatalf("the answer has no character of several bytes or no usage: %s", want)
	}
	longest := 0
	for event := range strings.SplitAfterSeq(want, "\n\n") {
		longest = max(longest, len(event)+40) // the numbers are longer
	}
	for at := 1; at < longest; at++ {
		s.shaped(t, simctl.StreamFault{SplitAt: at})
		if got := ask(); got != want {
			t.Fatalf("split after %d bytes of each event:\n%s\nwant\n%s", at, got, want)
		}
	}
}

// asItComes has engines fall silent after some events: what has come must be with the
// client while the engine is still at work.
func (s *streaming) asItComes(t *testing.T) {
	s.live(t, "")
	tokens, gap := 10, 100*time.Millisecond
	s.shaped(t, simctl.StreamFault{Tokens: &tokens, Gap: simctl.Duration(gap)})
	stream := openStream(t, s.url, tokens)
	began := time.Now()
	if _, whole := stream.rest(); !whole {
		t.Error("the stream was not whole")
	}
	if took := time.Since(began); took < gap*time.Duration(tokens)*6/10 {
		t.Errorf("all events came within %v of the first one", took)
	}
}

// live wants the events that have come while the engine is silent after them. The
// media type of the stream is what the engine says unless it is empty.
func (s *streaming) live(t *testing.T, contentType string) {
	t.Helper()
	for _, n := range []int{1, 3} {
		s.shaped(t, simctl.StreamFault{StallAfter: &n, Type: contentType})
		resp, err := open(t, http.MethodPost, s.url+chatPath, chatStream(10))
		if err != nil {
			t.Fatal(err)
		}
		stream := eventsOf(t, resp)
		for range n - 1 {
			if data, ok := stream.next(); !ok || !json.Valid([]byte(data)) {
				t.Fatalf("%q %v", data, ok)
			}
		}
		for _, r := range s.seen(t, s.answering) {
			if !r.Ended.IsZero() {
				t.Error("the engine had ended before its events were read")
			}
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		s.quiet(t)
	}
}

func (s *streaming) streamTypes(t *testing.T) {
	for _, name := range []string{"text/event-stream; charset=utf-8", "Text/Event-Stream", `text/event-stream;charset="UTF-8"`} {
		s.live(t, name)
	}
}

func (s *streaming) verbatimFields(t *testing.T) {
	fields := []string{
		`"huge":12345678901234567890`, `"tiny":1e-7`, `"zero":-0.0`, `"frac":1.10`, `"no":null`, `"deep":{"b":[1,{"a":2.50}],"a":"\u00e9\/"}`,
		`"space": [ 1 , 2 ]`, `"empty":{}`, `"text":"数据 <&>"`, `"flag":false`,
	}
	s.faults(t, s.all, simctl.Faults{Strict: true})
	for _, more := range []string{"", `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`} {
		bodies := map[string]string{
			chatPath:          `{"model":"sim","messages":[{"role":"user","content":"Hello"}],"max_tokens":3`,
			"/v1/completions": `{"model":"sim","prompt":"Hello","max_tokens":3`,
		}
		if s.kind == simhttp.SGLang {
			bodies["/generate"] = `{"text":"Hello","sampling_params":{"max_new_tokens":3}`
		}
		for path, body := range bodies {
			body += "," + strings.Join(fields, ",")
			if more != "" {
				body += "," + more
			}
			if a := do(t, http.MethodPost, s.url+path, body+"}"); a.status != http.StatusOK {
				t.Errorf("%s with %q: status %d: %s", path, more, a.status, a.body)
			}
			got := 0
			for _, e := range s.all {
				records, err := e.Records(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range records {
					got++
					for _, f := range fields {
						if !bytes.Contains(r.Body, []byte(f)) {
							t.Errorf("%s: %s has not %s", path, r.Body, f)
						}
					}
					if more == "" && bytes.Contains(r.Body, []byte(`"stream":null`)) {
						t.Errorf("%s: %s", path, r.Body)
					}
				}
			}
			if got == 0 {
				t.Errorf("%s: no engine has seen it", path)
			}
			s.faults(t, s.all, simctl.Faults{Strict: true})
		}
	}
}

func (s *streaming) oneError(t *testing.T) {
	paths := map[string]string{
		chatPath:          `{"model":"sim","messages":[{"role":"user","content":"Hello"}],"max_tokens":5`,
		"/v1/completions": `{"model":"sim","prompt":"Hello","max_tokens":5`,
	}
	if s.kind == simhttp.SGLang {
		paths["/generate"] = `{"text":"Hello","sampling_params":{"max_new_tokens":5}`
	}
	two, nothing := 2, 0
	for name, r := range map[string]simctl.Rule{
		"500":      {Status: http.StatusInternalServerError, Body: no, Delay: simctl.Duration(50 * time.Millisecond)},
		"dropped":  {Drop: true},
		"cut":      {CutBody: &nothing, Stream: &simctl.StreamFault{CutAfter: &nothing}},
		"cut late": {CutBody: &nothing, Stream: &simctl.StreamFault{CutAfter: &two}},
		"fails":    {CutBody: &nothing, Stream: &simctl.StreamFault{FailAfter: &two}},
	} {
		s.faults(t, s.answering, simctl.Faults{Rules: []simctl.Rule{r}})
		for path, body := range paths {
			for _, stream := range []string{"}", `,"stream":true}`} {
				a := do(t, http.MethodPost, s.url+path, body+stream)
				failed := documents(t, a)
				if failed != 1 {
					t.Errorf("%s, %s%s: %d errors, want one: status %d: %s", name, path, stream, failed, a.status, a.body)
				}
			}
		}
	}
	s.gateway.silent(`(?i)superfluous`)
}

// anError is in the events by which the gateway and the engines say that they have failed.
var anError = regexp.MustCompile(`"error":{|"object":"error"|"type":"abort"`)

// documents is how many errors a client finds in an answer. One that is no stream has
// to be one JSON document.
func documents(t *testing.T, a answer) (n int) {
	t.Helper()
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		if !json.Valid([]byte(a.body)) {
			t.Errorf("no document, or several: %s", a.body)
		}
		return strings.Count(a.body, `"error":{`)
	}
	for line := range strings.Lines(a.body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if ok && anError.MatchString(data) {
			n++
		}
	}
	return n
}

func (s *streaming) breakOff(t *testing.T) {
	const calls, clients = 60, 30
	pid := s.cmd.Process.Pid
	nothing, one := 0, 1
	for name, r := range map[string]simctl.Rule{
		"after the head":     {CutBody: &nothing, Stream: &simctl.StreamFault{CutAfter: &nothing}},
		"after no byte":      {Drop: true},
		"after one event":    {CutBody: &one, Stream: &simctl.StreamFault{CutAfter: &one}},
		"in the first event": {CutBody: &one, Stream: &simctl.StreamFault{SplitAt: 30, CutAfter: &one}},
	} {
		r.Match = simctl.Match{Path: chatPath}
		s.faults(t, s.answering, simctl.Faults{Rules: []simctl.Rule{r}})
		var wg sync.WaitGroup
		for client := range clients {
			wg.Go(func() {
				for i := range calls / clients {
					fields := ""
					if (client+i)%2 == 0 {
						fields = `,"stream":true`
					}
					if fault := s.broken(t, chatWith(fields)); fault != "" {
						t.Errorf("%s, with %q: %s", name, fields, fault)
					}
				}
			})
		}
		wg.Wait()
	}
	s.faults(t, s.answering, simctl.Faults{})
	askChat(t, s.url)
	select {
	case <-s.done:
		t.Errorf("process %d has ended", pid)
	default:
	}
}

// broken asks, and says what is wrong with how the answer breaks off.
func (s *streaming) broken(t *testing.T, body string) (fault string) {
	t.Helper()
	resp, err := open(t, http.MethodPost, s.url+chatPath, body)
	if err != nil { // nothing had been sent: the client could have been told
		return fmt.Sprintf("closed before a byte of the answer: %v", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode == http.StatusBadGateway && err == nil:
		return ""
	case !s.legs && slices.Contains([]string{"call_upstream_request_error", "read_response_failed"}, resp.Header.Get("X-Smg-Error-Code")):
		return "" // which are 500 by the table of codes
	case resp.StatusCode != http.StatusOK:
		return fmt.Sprintf("status %d: %s", resp.StatusCode, raw)
	case err != nil: // reset
		return ""
	case len(raw) == 0:
		return "an empty 200"
	case !bytes.Contains(raw, []byte(`"error":{`)) || bytes.Contains(raw, []byte("[DONE]")):
		return fmt.Sprintf("not to be seen as broken: %s", raw)
	}
	return ""
}

func (s *streaming) diedIdle(t *testing.T) {
	const idle = 250 * time.Millisecond
	s.faults(t, s.all, simctl.Faults{KeepAlive: simctl.Duration(idle)})
	for i := range 20 {
		if a := do(t, http.MethodPost, s.url+chatPath, chat); a.status != http.StatusOK {
			t.Errorf("request %d: status %d: %s", i, a.status, a.body)
		}
		time.Sleep(idle + time.Duration(i)*5*time.Millisecond) // the time is what the test is about
	}
	conns := map[int]bool{}
	for _, r := range s.seen(t, s.all) {
		conns[r.Conn] = true
	}
	if len(conns) < 10 {
		t.Errorf("connections %v: they did not die", slices.Collect(maps.Keys(conns)))
	}
}
