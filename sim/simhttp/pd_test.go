package simhttp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// with adds members to a JSON object.
func with(t *testing.T, body string, members map[string]any) string {
	t.Helper()
	object := decode[map[string]any](t, body)
	maps.Copy(object, members)
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// answered is what one leg said.
type answered struct {
	status int
	body   string
}

// both asks a prefill and a decode engine at the same time.
func both(t *testing.T, p, d *simtest.Engine, path, body string) (prefill, dec answered) {
	t.Helper()
	return each(t, p, d, path, body, body)
}

func each(t *testing.T, p, d *simtest.Engine, path, prefillBody, decodeBody string) (prefill, dec answered) {
	t.Helper()
	cp, cd := callerOf(t, p), callerOf(t, d)
	var wg sync.WaitGroup
	wg.Go(func() { prefill.status, prefill.body = cp.post(path, prefillBody) })
	wg.Go(func() { dec.status, dec.body = cd.post(path, decodeBody) })
	wg.Wait()
	return prefill, dec
}

// bootstrap is where p hands over, with a room.
func bootstrap(p *simtest.Engine, room any) map[string]any {
	return map[string]any{"bootstrap_host": p.PeerHost, "bootstrap_port": p.PeerPort, "bootstrap_room": room}
}

// textOf joins everything that an answer says, streamed or not.
func textOf(t *testing.T, body string) string {
	t.Helper()
	var b strings.Builder
	add := func(raw string) {
		switch {
		case strings.HasPrefix(raw, "["):
			for _, item := range decode[[]spoken](t, raw) {
				b.WriteString(item.Text + "\x00")
			}
			return
		case strings.Contains(raw, `"meta_info"`):
			// Events repeat the text so far.
			b.Reset()
			b.WriteString(decode[spoken](t, raw).Text)
			return
		}
		for _, c := range decode[reply](t, raw).Choices {
			b.WriteString(c.Text + c.Message.Content + c.Delta.Content)
		}
	}
	if !strings.HasPrefix(body, "data: ") {
		add(body)
		return b.String()
	}
	all := frames(t, strings.NewReader(body))
	if len(all) == 0 || all[len(all)-1] != "[DONE]" {
		t.Fatalf("the stream does not end with [DONE]: %q", body)
	}
	for _, f := range all[:len(all)-1] {
		add(f)
	}
	return b.String()
}

// spoken is one answer of /generate.
type spoken struct {
	Text string `json:"text"`
	Meta struct {
		Completion int `json:"completion_tokens"`
		Finish     struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Status  int    `json:"status_code"`
		} `json:"finish_reason"`
	} `json:"meta_info"`
}

func atRest(t *testing.T, engines ...*simtest.Engine) {
	t.Helper()
	for _, e := range engines {
		idle(t, e)
	}
}

func TestSGLangPDSaysTheSame(t *testing.T) {
	regular := callerOf(t, simtest.Start(t, config(simhttp.SGLang)))
	pd := simtest.StartPD(t, 1, 1, config(simhttp.SGLang))
	p, d := pd.Prefill[0], pd.Decode[0]
	at := func(room any) map[string]any { return bootstrap(p, room) }
	triple := func(n int) map[string]any {
		hosts, ports, rooms := make([]any, n), make([]any, n), make([]any, n)
		for i := range n {
			// A port that is null is the decode engine's own.
			hosts[i], ports[i], rooms[i] = p.PeerHost, nil, 1<<62+int64(n*100+i)
		}
		return map[string]any{"bootstrap_host": hosts, "bootstrap_port": ports, "bootstrap_room": rooms}
	}
	const chat = `{"temperature":0,"messages":[{"role":"user","content":"Tell me about the sea, its tides, its storms, its ships, its fishes and whoever is out there now"}]}`
	tests := []struct {
		name, path, body string
		where            map[string]any
		sequences        int
	}{
		{"chat", "/v1/chat/completions", chat, at(int64(1<<63 - 1)), 1},
		{"chat streamed", "/v1/chat/completions", with(t, chat, map[string]any{"stream": true}), at(0), 1},
		{"without a port", "/v1/chat/completions", chat, map[string]any{"bootstrap_host": p.PeerHost, "bootstrap_port": nil, "bootstrap_room": 3}, 1},
		{"n with a list", "/v1/chat/completions", with(t, chat, map[string]any{"n": 3}), triple(3), 3},
		{"n with a scalar", "/v1/chat/completions", with(t, chat, map[string]any{"n": 3}), at(4), 3},
		{"completion", "/v1/completions", `{"prompt":"Once upon","max_tokens":30}`, at(5), 1},
		{"one token", "/v1/completions", `{"prompt":"Once upon","max_tokens":1}`, at(6), 1},
		{"a list of one", "/v1/completions", `{"prompt":["Once upon"],"max_tokens":30}`, triple(1), 1},
		{"a batch with n", "/v1/completions", `{"prompt":["a b","c d e"],"n":2,"max_tokens":9}`, triple(2), 4},
		{"generate", "/generate", `{"text":"Hello there","sampling_params":{"temperature":0}}`, at(7), 1},
		{"generate streamed", "/generate", `{"text":"Hello there","stream":true}`, at(8), 1},
		{"generate nothing", "/generate", `{"text":"Hello there","sampling_params":{"max_new_tokens":0}}`, at(9), 1},
		{"generate a batch of 33", "/generate", `{"input_ids":[` + strings.Repeat("[5,6,7],", 32) + `[8]]}`, triple(33), 33},
		{"a flat list of ids", "/generate", `{"input_ids":[5,6,7]}`, at(10), 1},
	}
	sent := uint64(0)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, want := regular.post(tc.path, tc.body)
			prefill, dec := both(t, p, d, tc.path, with(t, tc.body, tc.where))
			if prefill.status != 200 || dec.status != 200 {
				t.Fatalf("prefill %+v, decode %+v", prefill, dec)
			}
			if got, want := textOf(t, dec.body), textOf(t, want); got != want {
				t.Errorf("decode says %q, want %q", got, want)
			}
			if got := textOf(t, prefill.body); !strings.Contains(tc.body, "input_ids") && tc.sequences == 1 && !strings.HasPrefix(textOf(t, want), got) {
				t.Errorf("prefill says %q, which is no beginning of %q", got, want)
			}
			sent += uint64(tc.sequences)
		})
	}
	t.Run("usage", func(t *testing.T) {
		prefill, dec := both(t, p, d, "/v1/chat/completions", with(t, chat, at(11)))
		up, ud := decode[reply](t, prefill.body).Usage, decode[reply](t, dec.body).Usage
		if up.Completion != 1 || ud.Completion < 2 || up.Prompt != ud.Prompt || up.Details.Cached == 0 || ud.Details.Cached != up.Details.Cached {
			t.Errorf("prefill %+v, decode %+v", up, ud)
		}
		sent++
	})
	atRest(t, p, d)
	if tr, err := p.Transfers(ctxFor(t)); err != nil || tr.Sent != sent || tr.SentBytes == 0 || tr.Failed+tr.BootstrapFailed != 0 {
		t.Errorf("prefill counts %+v, want %d sent (%v)", tr, sent, err)
	}
	if tr, err := d.Transfers(ctxFor(t)); err != nil || tr.Received != sent || tr.Sent != 0 {
		t.Errorf("decode counts %+v, want %d received (%v)", tr, sent, err)
	}
}

func TestBootstrapFieldsRefused(t *testing.T) {
	pd := simtest.StartPD(t, 1, 1, config(simhttp.SGLang))
	const chat = `{"messages":[{"role":"user","content":"Hi"}]%s}`
	const batch = `{"text":["a","b"]%s}`
	tests := []struct {
		name, path, body string
		prefill, decode  int // 0: not asked
		want             string
	}{
		{"no fields", "/v1/chat/completions", fmt.Sprintf(chat, ""), 400, 400, "without bootstrap room id"},
		{"no fields, streamed", "/v1/chat/completions", fmt.Sprintf(chat, `,"stream":true`), 400, 400, "without bootstrap room id"},
		{"no fields, generate", "/generate", `{"text":"a"}`, 400, 400, "without bootstrap room id"},
		{"room null", "/generate", `{"text":"a","bootstrap_host":"h","bootstrap_room":null}`, 400, 400, "without bootstrap room id"},
		{"no host", "/generate", `{"text":"a","bootstrap_room":1}`, 0, 400, "bootstrap host"},
		{"room a string", "/generate", `{"text":"a","bootstrap_host":"h","bootstrap_room":"7"}`, 400, 400, "valid integer"},
		{"room a float", "/generate", `{"text":"a","bootstrap_host":"h","bootstrap_room":7.0}`, 400, 400, "valid integer"},
		{"PD-03 room beyond int64", "/generate", `{"text":"a","bootstrap_host":"h","bootstrap_room":9223372036854775808}`, 500, 500, "too large"},
		{"port a string", "/generate", `{"text":"a","bootstrap_host":"h","bootstrap_port":"1","bootstrap_room":1}`, 400, 400, "bootstrap_port"},
		{"host a number", "/generate", `{"text":"a","bootstrap_host":7,"bootstrap_room":1}`, 400, 400, "bootstrap_host"},
		{"rooms too few", "/generate", fmt.Sprintf(batch, `,"bootstrap_host":["h","h"],"bootstrap_port":[1,1],"bootstrap_room":[1]`), 400, 400, "list of 1 for a batch of 2"},
		{"hosts too many", "/generate", fmt.Sprintf(batch, `,"bootstrap_host":["h","h","h"],"bootstrap_room":[1,2]`), 400, 400, "list of 3"},
		{"ports too few", "/generate", fmt.Sprintf(batch, `,"bootstrap_host":"h","bootstrap_port":[1],"bootstrap_room":[1,2]`), 400, 400, "list of 1"},
		{"a list for a scalar", "/v1/chat/completions", fmt.Sprintf(chat, `,"bootstrap_host":"h","bootstrap_room":[1,2]`), 400, 400, "batch of 1"},
		{"a room of null in a list", "/generate", fmt.Sprintf(batch, `,"bootstrap_host":"h","bootstrap_room":[1,null]`), 400, 400, "without bootstrap room id"},
		{"the same room twice", "/generate", fmt.Sprintf(batch, `,"bootstrap_host":"h","bootstrap_room":[1,1]`), 500, 0, "Duplicate"},
	}
	for _, tc := range tests {
		for _, leg := range []struct {
			engine *simtest.Engine
			want   int
		}{{pd.Prefill[0], tc.prefill}, {pd.Decode[0], tc.decode}} {
			if leg.want == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", tc.name, leg.engine.Server.Config().Disagg.Mode), func(t *testing.T) {
				if status, body := callerOf(t, leg.engine).post(tc.path, tc.body); status != leg.want || !strings.Contains(body, tc.want) {
					t.Errorf("%d %s, want %d with %q", status, body, leg.want, tc.want)
				}
				idle(t, leg.engine)
			})
		}
	}
	t.Run("an engine without a part ignores them", func(t *testing.T) {
		c := callerOf(t, simtest.Start(t, config(simhttp.SGLang)))
		c.ask("/v1/chat/completions", fmt.Sprintf(chat, `,"bootstrap_room":"seven"`))
	})
}

// impatient has short time-outs.
func impatient(kind simhttp.Kind) simhttp.Config {
	cfg := config(kind)
	cfg.Disagg.BootstrapTimeout = 150 * time.Millisecond
	cfg.Disagg.WaitingTimeout = 150 * time.Millisecond
	cfg.Disagg.Lease = 150 * time.Millisecond
	return cfg
}

func TestRendezvousFails(t *testing.T) {
	pd := simtest.StartPD(t, 2, 1, impatient(simhttp.SGLang))
	p, other, d := pd.Prefill[0], pd.Prefill[1], pd.Decode[0]
	closed := freePort(t)
	const chat = `{"messages":[{"role":"user","content":"Hi"}]}`
	tests := []struct {
		name            string
		prefill, decode map[string]any
		wantPrefill     string // part of the error, "" if it is not asked
		wantDecode      string
	}{
		{
			"nobody listens", bootstrap(p, 1), with2(bootstrap(p, 1), "bootstrap_port", closed),
			"timed out after 0.1s in KVPoll.Bootstrapping", fmt.Sprintf("Could not fetch prefill parallel info from bootstrap_addr: 127.0.0.1:%d", closed),
		},
		{
			"a port that is none", nil, with2(bootstrap(p, 1), "bootstrap_port", 70000),
			"", "bootstrap_addr: 127.0.0.1:70000",
		},
		{
			"a host that is none", nil, with2(bootstrap(p, 1), "bootstrap_host", "nobody.invalid"),
			"", fmt.Sprintf("bootstrap_addr: nobody.invalid:%d", p.PeerPort),
		},
		{
			"an HTTP server of another kind", nil, with2(bootstrap(p, 1), "bootstrap_port", portOf(t, p)),
			"", "Could not fetch prefill parallel info",
		},
		{
			"another room", bootstrap(p, 1), bootstrap(p, 2),
			"Request 1 timed out after 0.1s in KVPoll.Bootstrapping", "timed out after 0.1s in KVPoll.WaitingForInput, bootstrap_addr: " + p.Server.PeerAddr(),
		},
		{
			"another prefill engine", bootstrap(p, 1), bootstrap(other, 1),
			"KVPoll.Bootstrapping", "bootstrap_addr: " + other.Server.PeerAddr(),
		},
		{"no prefill request", nil, bootstrap(p, 3), "", "KVPoll.WaitingForInput"},
		{"no decode request", bootstrap(p, 3), nil, "Prefill bootstrap failed", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var wg sync.WaitGroup
			defer wg.Wait()
			for _, leg := range []struct {
				engine *simtest.Engine
				where  map[string]any
				want   string
			}{{p, tc.prefill, tc.wantPrefill}, {d, tc.decode, tc.wantDecode}} {
				if leg.where == nil {
					continue
				}
				c, body := callerOf(t, leg.engine), with(t, chat, leg.where)
				wg.Go(func() {
					status, text := c.post("/v1/chat/completions", body)
					if status != 500 || !strings.Contains(text, leg.want) {
						t.Errorf("%d %s, want 500 with %q", status, text, leg.want)
					}
				})
			}
		})
	}
	atRest(t, pd.All()...)
	if tr, _ := d.Transfers(ctxFor(t)); tr.BootstrapFailed != 4 || tr.Failed != 3 {
		t.Errorf("decode counts %+v", tr)
	}

	t.Run("streamed", func(t *testing.T) {
		body := with(t, with(t, chat, bootstrap(p, 9)), map[string]any{"stream": true})
		prefill, dec := each(t, p, d, "/v1/chat/completions", strings.Replace(body, `"bootstrap_room":9`, `"bootstrap_room":8`, 1), body)
		for _, got := range []answered{prefill, dec} {
			if got.status != 200 || !strings.HasPrefix(got.body, `data: {"error":{`) || !strings.Contains(got.body, `"code":500`) ||
				!strings.Contains(got.body, "KVTransferError") || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
				t.Errorf("%+v", got)
			}
		}
	})
	t.Run("generate streamed", func(t *testing.T) {
		_, body := callerOf(t, d).post("/generate", with(t, `{"text":"a","stream":true}`, bootstrap(p, 10)))
		all := frames(t, strings.NewReader(body))
		if len(all) != 2 || all[1] != "[DONE]" {
			t.Fatalf("%q", body)
		}
		if g := decode[spoken](t, all[0]); g.Meta.Finish.Type != "abort" || g.Meta.Finish.Status != 500 {
			t.Errorf("%q", body)
		}
	})
	t.Run("a proxy changes the room", func(t *testing.T) {
		url := simtest.Proxy(t, d.URL, simtest.Members(map[string]any{"bootstrap_room": 12}))
		through := &caller{t: t, url: url, client: callerOf(t, d).client}
		body := with(t, chat, bootstrap(p, int64(1<<62+1)))
		cp := callerOf(t, p)
		var wg sync.WaitGroup
		wg.Go(func() {
			if status, text := cp.post("/v1/chat/completions", body); status != 500 {
				t.Errorf("prefill: %d %s", status, text)
			}
		})
		if status, text := through.post("/v1/chat/completions", body); status != 500 || !strings.Contains(text, "Request 12 timed out") {
			t.Errorf("decode: %d %s", status, text)
		}
		wg.Wait()
	})
	atRest(t, pd.All()...)
}

func with2(m map[string]any, k string, v any) map[string]any {
	m = maps.Clone(m)
	m[k] = v
	return m
}

// freePort is a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func portOf(t *testing.T, e *simtest.Engine) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", e.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}

func hold(t *testing.T, e *simtest.Engine, f simctl.TransferFault) {
	t.Helper()
	setFaults(t, e, simctl.Faults{Transfer: &f})
}

// TestDifferentPrompts sends each leg another prompt: the KV that comes is of
// no use.
func TestDifferentPrompts(t *testing.T) {
	pd := simtest.StartPD(t, 1, 1, config(simhttp.SGLang))
	p, d := pd.Prefill[0], pd.Decode[0]
	_, dec := each(t, p, d, "/generate", with(t, `{"text":"one"}`, bootstrap(p, 1)), with(t, `{"text":"two"}`, bootstrap(p, 1)))
	if dec.status != http.StatusInternalServerError || !strings.Contains(dec.body, "not that of this prompt") {
		t.Errorf("%+v", dec)
	}
	atRest(t, p, d)
}

// TestLogprobs: each number tells whose it is and where it stands.
func TestLogprobs(t *testing.T) {
	type meta struct {
		Meta struct {
			In  []json.RawMessage `json:"input_token_logprobs"`
			Out []json.RawMessage `json:"output_token_logprobs"`
			Top []json.RawMessage `json:"input_top_logprobs"`
			IDs []json.RawMessage `json:"input_token_ids_logprobs"`
		} `json:"meta_info"`
	}
	cfg := simtest.Config()
	pd := simtest.StartPD(t, 1, 1, cfg)
	one := simtest.Start(t, cfg)
	body := `{"input_ids":[11,12,13],"return_logprob":true,"logprob_start_len":0,"top_logprobs_num":2,"token_ids_logprob":[5],"sampling_params":{"max_new_tokens":2,"temperature":0,"ignore_eos":true}}`
	_, whole := callerOf(t, one).post("/generate", body)
	p, d := both(t, pd.Prefill[0], pd.Decode[0], "/generate", with(t, body, bootstrap(pd.Prefill[0], 1)))
	text := func(list []json.RawMessage) string {
		var b strings.Builder
		for _, m := range list {
			b.Write(m)
		}
		return b.String()
	}
	const in = `[null,11,null][-1.00000100000000000000001,12,null][-1.00000200000000000000001,13,null]`
	a, pa, da := decode[meta](t, whole).Meta, decode[meta](t, p.body).Meta, decode[meta](t, d.body).Meta
	if text(a.In) != in || text(pa.In) != in || len(da.In)+len(da.Top)+len(da.IDs) != 0 {
		t.Errorf("of the prompt: %s, prefill %s, decode %s", text(a.In), text(pa.In), text(da.In))
	}
	if len(a.Out) != 2 || text(a.Out) != text(da.Out) || len(pa.Out) != 1 || !strings.HasPrefix(text(pa.Out), "[-9.000000") {
		t.Errorf("of the answer: %s, prefill %s, decode %s", text(a.Out), text(pa.Out), text(da.Out))
	}
	if text(pa.Top) != `null[[-3.00000100000000000000001,0,null],[-3.00000100000000000000001,1,null]][[-3.00000200000000000000001,0,null],[-3.00000200000000000000001,1,null]]` ||
		text(pa.IDs) != `null[[-5.00000100000000000000001,5,null]][[-5.00000200000000000000001,5,null]]` {
		t.Errorf("best %s, chosen %s", text(pa.Top), text(pa.IDs))
	}
	if _, some := callerOf(t, one).post("/generate", `{"text":["a","b"],"return_logprob":[false,true]}`); strings.Count(some, "input_token_logprobs") != 1 {
		t.Errorf("one of two: %s", some)
	}
}
