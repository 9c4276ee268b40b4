package ingress

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"smg/bootstrap"
	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// fixed is an engine that always gives this answer, whose pieces it sends one by one.
func fixed(t *testing.T, contentType string, pieces ...string) *simtest.Engine {
	t.Helper()
	return scripted(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Engine", "kept")
		for i, p := range pieces {
			if i > 0 {
				_ = http.NewResponseController(w).Flush()
			}
			_, _ = io.WriteString(w, p) // the client of a test that has failed may be gone
		}
	})
}

const jsonType = "application/json"

// TestLogprobsOfThePrompt: prefill knows them, decode does not.
func TestLogprobsOfThePrompt(t *testing.T) {
	meta := func(in string) string {
		return `{"text":"x", "meta_info":{"id":"a","input_token_logprobs":` + in + `,"n":1.50}}`
	}
	const (
		p = `[[null,1,null],[-1.00000000000000000001,2,null]]`
		d = `[[-7,3,null]]`
	)
	joined := `[[null,1,null],[-1.00000000000000000001,2,null],[-7,3,null]]`
	whole := func(s ...string) []string { return s }
	for _, tt := range []struct {
		name            string
		stream          bool
		prefill, decode []string
		want            string
	}{
		{"an object", false, whole(meta(p)), whole(meta("[]")), meta(p)},
		{"both know some", false, whole(meta(p)), whole(meta(d)), meta(joined)},
		{"in pieces", false, whole(meta(p)[:30], meta(p)[30:]), whole(meta(d)[:20], meta(d)[20:]), meta(joined)},
		{"a batch", false, whole("[" + meta(p) + "," + meta("[]") + "]"), whole("[" + meta(d) + "," + meta(d) + "]"), "[" + meta(joined) + "," + meta(d) + "]"},
		{"another batch", false, whole("[" + meta(p) + "]"), whole("[" + meta(d) + ", " + meta(d) + "]"), "[" + meta(d) + ", " + meta(d) + "]"},
		{"decode says nothing", false, whole(meta(p)), whole(`{"meta_info":{}}`), `{"meta_info":{}}`},
		{"prefill says nothing", false, whole(`{"meta_info":{}}`), whole(meta(d)), meta(d)},
		{"no lists", false, whole(meta("1")), whole(meta(d)), meta(d)},
		{"no JSON", false, whole("{"), whole(meta(d)), meta(d)},
		{"nor here", false, whole(meta(p)), whole("{"), "{"},
		{
			"more lists", false,
			whole(`{"meta_info":{"input_token_logprobs":[1],"input_top_logprobs":[2],"input_token_ids_logprobs":[3]}}`),
			whole(`{"meta_info":{"input_token_logprobs":[4],"input_top_logprobs":[]}}`),
			`{"meta_info":{"input_token_logprobs":[1,4],"input_top_logprobs":[2],"input_token_ids_logprobs":[3]}}`,
		},
		{
			"a stream", true,
			whole("data: "+meta("[0]")+"\n\ndata: "+meta(p)[:9], meta(p)[9:]+"\n\ndata: {}\n\ndata: [DONE]\n\n"),
			whole("data: "+meta(d)[:10], meta(d)[10:]+"\r\n\r\n", ": ping\n\ndata: "+meta("[]")+"\n\n", "data: [DONE]\n\n"),
			"data: " + meta(joined) + "\r\n\r\n: ping\n\ndata: " + meta(p) + "\n\ndata: [DONE]\n\n",
		},
		{
			"a stream of several", true,
			whole("data: " + strings.Replace(meta(p), "{", `{"index":1,`, 1) + "\n\ndata: " + strings.Replace(meta("[5]"), "{", `{"index":0,`, 1) + "\n\n"),
			whole("data: " + strings.Replace(meta("[]"), "{", `{"index":1,`, 1) + "\n\ndata: " + strings.Replace(meta("[]"), "{", `{"index":0,`, 1) + "\n\ndata: [DONE]\n\n"),
			"data: " + strings.Replace(meta(p), "{", `{"index":1,`, 1) + "\n\ndata: " + strings.Replace(meta("[5]"), "{", `{"index":0,`, 1) + "\n\ndata: [DONE]\n\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			contentType, stream := jsonType, ""
			if tt.stream {
				contentType, stream = eventStream, `,"stream":true`
			}
			g := inFrontOf(t, fixed(t, contentType, tt.prefill...), fixed(t, contentType, tt.decode...))
			status, header, answer := g.asks(t, "/generate", `{"text":"hi","return_logprob":true`+stream+`}`)
			if status != http.StatusOK || answer != tt.want {
				t.Errorf("status %d:\n%q, want\n%q", status, answer, tt.want)
			}
			if header.Get("X-Engine") != "kept" {
				t.Error("the engine's header is gone")
			}
			status, _, answer = g.asks(t, "/generate", `{"text":"hi","return_logprob":false`+stream+`}`)
			if want := strings.Join(tt.decode, ""); status != http.StatusOK || answer != want {
				t.Errorf("not asked for: status %d:\n%q, want\n%q", status, answer, want)
			}
			g.idle()
		})
	}
	t.Run("prefill fails", func(t *testing.T) {
		prefill := scripted(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusBadRequest) })
		g := inFrontOf(t, prefill, fixed(t, jsonType, meta(d)))
		if status, header, answer := g.asks(t, "/generate", `{"text":"hi","return_logprob":[true]}`); status != http.StatusBadRequest || header.Get(errorCodeHeader) != "prefill_bad_request" {
			t.Errorf("status %d: %s", status, answer)
		}
		g.idle()
	})
	t.Run("no memory for it", func(t *testing.T) {
		g := inFrontOf(t, fixed(t, jsonType, meta(p)), fixed(t, jsonType, meta(d)[:20], meta(d)[20:]))
		g.Server.buffers.left.Add(100 - g.budget) // enough for the request
		defer g.Server.buffers.left.Add(g.budget - 100)
		if status, _, answer := g.asks(t, "/generate", `{"text":"hi","return_logprob":true}`); status != http.StatusOK || answer != meta(d) {
			t.Errorf("status %d: %s", status, answer)
		}
		g.idle()
		within(t, patience, "nothing is kept", func() bool { return g.Server.buffers.left.Load() == 100 })
	})
}

// TestCachedTokens: prefill knows how much was cached; to decode all of it looks so.
func TestCachedTokens(t *testing.T) {
	usage := func(details string) string {
		return `{"choices":[{"text":"\"cached_tokens\":1"}],"usage":{"prompt_tokens":9,"prompt_tokens_details":` + details + `},"kv_transfer_params":{"a":1}}`
	}
	event := func(details string) string { return "data: " + usage(details) + "\n\n" }
	for _, tt := range []struct {
		name, prefill, decode, fields, want string
	}{
		{"prefill tells", usage(`{"cached_tokens":4}`), usage(`{"cached_tokens":9,"b":1}`), "", usage(`{"cached_tokens":4,"b":1}`)},
		{"it does not", usage(`null`), usage(`{"cached_tokens":9,"b":1}`), "", usage(`{"b":1}`)},
		{"nobody does", usage(`null`), usage(`null`), "", usage(`null`)},
		{"nothing was handed over", `{}`, usage(`{"cached_tokens":9}`), "", usage(`{"cached_tokens":9}`)},
		{
			"a stream", usage(`{"cached_tokens":4}`), event(`null`) + event(`{"cached_tokens":9}`) + "data: [DONE]\n\n", `,"stream":true,"stream_options":{"include_usage":true}`,
			event(`null`) + event(`{"cached_tokens":4}`) + "data: [DONE]\n\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			contentType := jsonType
			if tt.fields != "" {
				contentType = eventStream
			}
			pd := &simtest.PD{Prefill: []*simtest.Engine{fixed(t, jsonType, tt.prefill)}, Decode: []*simtest.Engine{fixed(t, contentType, tt.decode)}}
			g := inFront(t, pd, simhttp.VLLM, PD)
			status, _, answer := g.asks(t, chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}]`+tt.fields+`}`)
			if status != http.StatusOK || answer != tt.want {
				t.Errorf("status %d:\n%s, want\n%s", status, answer, tt.want)
			}
			g.idle()
		})
	}
}

// TestRoomsThatAreInFlight draws the same room again while a request has it.
func TestRoomsThatAreInFlight(t *testing.T) {
	t.Run("F26_a_room_is_drawn_twice", func(t *testing.T) {
		d := startPD(t, simhttp.SGLang)
		var mu sync.Mutex
		drawn := int64(0)
		d.Server.rooms = bootstrap.NewRooms(func() int64 { // 7, 7, 8, 8, 9, …
			mu.Lock()
			defer mu.Unlock()
			drawn++
			return 7 + (drawn-1)/2
		})
		for _, e := range d.pd.Prefill {
			if err := e.SetFaults(t.Context(), simctl.Faults{Transfer: &simctl.TransferFault{Hold: true}}); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if status, _, answer := d.asks(t, chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":4}`); status != http.StatusOK {
					t.Errorf("status %d: %s", status, answer)
				}
			})
		}
		within(t, patience, "four rooms", func() bool { return d.Server.rooms.Len() == 4 })
		for _, e := range d.pd.Prefill {
			if err := e.SetFaults(t.Context(), simctl.Faults{}); err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		d.idle()
		within(t, patience, "no room in flight", func() bool { return d.Server.rooms.Len() == 0 })
		mu.Lock()
		defer mu.Unlock()
		if drawn < 5 {
			t.Errorf("%d drawn for four requests: none was drawn twice", drawn)
		}
	})
}
