package ingress

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// frames takes a stream apart that comes in pieces of these lengths, again and again.
func frames(stream []byte, lengths ...int) (events []string) {
	var f framer
	for i := 0; len(stream) > 0; i++ {
		n := min(lengths[i%len(lengths)], len(stream))
		f.add(stream[:n:n])
		for e, ok := f.next(); ok; e, ok = f.next() {
			events = append(events, string(e))
		}
		stream = stream[n:]
	}
	if left := f.tail(); len(left) > 0 {
		events = append(events, string(left))
	}
	return events
}

func TestFramer(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         []string
	}{
		{"lf", "data: 1\n\ndata: 2\n\n", []string{"data: 1\n\n", "data: 2\n\n"}},
		{"crlf", "data: 1\r\n\r\ndata: 2\r\n\r\n", []string{"data: 1\r\n\r\n", "data: 2\r\n\r\n"}},
		{"cr", "data: 1\r\rdata: 2\r\r", []string{"data: 1\r\r", "data: 2\r\r"}},
		{"mixed", "data: 1\r\n\ndata: 2\n\r\ndata: 3\n\rx", []string{"data: 1\r\n\n", "data: 2\n\r\n", "data: 3\n\r", "x"}},
		{"several lines", "event: a\ndata: 1\ndata: 2\n\n", []string{"event: a\ndata: 1\ndata: 2\n\n"}},
		{"blank ones", "\n\ndata: 1\n\n\n", []string{"\n", "\n", "data: 1\n\n", "\n"}},
		{"no end", "data: 1\n\ndata: 2\n", []string{"data: 1\n\n", "data: 2\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, frames([]byte(tt.stream), len(tt.stream))); diff != "" {
				t.Error(diff)
			}
			want := splitEvents(strings.ReplaceAll(strings.ReplaceAll(tt.stream, "\r\n", "\n"), "\r", "\n"))
			for size := 1; size < len(tt.stream); size++ {
				events := frames([]byte(tt.stream), size)
				if strings.Join(events, "") != tt.stream {
					t.Fatalf("pieces of %d: %q", size, events)
				}
				var said []string
				for _, e := range events {
					if d := eventData([]byte(e)); d != nil {
						said = append(said, string(d))
					}
				}
				if diff := cmp.Diff(want, said); diff != "" {
					t.Errorf("pieces of %d: %s", size, diff)
				}
			}
		})
	}
	t.Run("an event without end is not kept", func(t *testing.T) {
		stream := bytes.Repeat([]byte("x"), maxEvent+100)
		events := frames(stream, 1<<20)
		if len(events) < 1 || strings.Join(events, "") != string(stream) {
			t.Errorf("%d events of %d bytes", len(events), len(strings.Join(events, "")))
		}
		var f framer
		f.add(stream)
		if _, ok := f.next(); !ok || !f.raw {
			t.Error("it is kept")
		}
	})
}

// FuzzFramer: whatever the pieces, nothing is lost, and a client reads the same.
func FuzzFramer(f *testing.F) {
	f.Add([]byte("data: 1\r\n\r\ndata: 2\n\ndata:3\ndata:  4\r\r: c\n\n"), uint64(1))
	f.Add([]byte("\r\n\r\n\n\rdata:"), uint64(2))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		lengths := []int{1 + r.IntN(9), 1 + r.IntN(3), 1 + r.IntN(30)}
		events := frames(stream, lengths...)
		if strings.Join(events, "") != string(stream) {
			t.Fatalf("%q of %q", events, stream)
		}
		for i, e := range events {
			// Nobody can see two events in it.
			inner := strings.TrimLeft(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(e), "\n")
			if strings.Contains(strings.TrimRight(inner, "\n"), "\n\n") {
				t.Errorf("event %d is two: %q", i, e)
			}
		}
		plain := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(stream))
		var said []string
		for _, e := range events {
			if d := eventData([]byte(e)); d != nil {
				said = append(said, string(d))
			}
		}
		if want := splitEvents(plain); !slices.Equal(said, want) {
			t.Errorf("%q says %q, want %q", stream, said, want)
		}
	})
}

func TestStreamFault(t *testing.T) {
	for _, tt := range []struct {
		name, event string
		want        fault // of no status: none
	}{
		{"openai", `data: {"error":{"message":"no","code":503}}` + "\n\n", fault{503, "no"}},
		{"blanks", `data: { "error" : {"message":"no","code":"word"}}` + "\n\n", fault{500, "no"}},
		{"sglang is flat", `data: {"error":{"object":"error","message":"no","type":"x","code":400}}` + "\n\n", fault{400, "no"}},
		{"a text", `data: {"error":"out of memory"}` + "\n\n", fault{500, `{"error":"out of memory"}`}},
		{"abort", `data: {"text":"","meta_info":{"id":"a","finish_reason":{"type":"abort","message":"lost","status_code":503}}}` + "\n\n", fault{503, "lost"}},
		{"abort without a status", `data: {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"Aborted","status_code":null}}}` + "\n\n", fault{500, "Aborted"}},
		{"several lines", "event: error\ndata: {\"error\":\ndata: {\"message\":\"no\"}}\n\n", fault{500, "no"}},
		{"an answer", `data: {"choices":[{"delta":{"content":"\"error\""}}]}` + "\n\n", fault{}},
		{"a null", `data: {"error":null,"id":"a"}` + "\n\n", fault{}},
		{"an abort that is told of", `data: {"text":"abort","meta_info":{"finish_reason":{"type":"length"},"x":"abort"}}` + "\n\n", fault{}},
		{"no JSON", `data: {"error` + "\n\n", fault{}},
		{"nothing", ": ping\n\n", fault{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := streamFault([]byte(tt.event))
			if ok != (tt.want.status != 0) || got != tt.want {
				t.Errorf("%+v %v, want %+v", got, ok, tt.want)
			}
		})
	}
}

func TestHasDone(t *testing.T) {
	for _, tt := range []struct {
		name, piece string
		atLine      bool
		want        bool
	}{
		{"alone", "data: [DONE]\n\n", true, true},
		{"behind an event", "data: 1\n\ndata: [DONE]\n\n", false, true},
		{"crlf", "data: 1\r\n\r\ndata: [DONE]\r\n\r\n", false, true},
		{"cr", "\rdata: [DONE]\r\r", false, true},
		{"mixed ends", "data: [DONE]\n\r\n", true, true},
		{"something behind it", "data: [DONE]\n\n: bye\n\n", true, true},
		{"a line under way", "data: [DONE]\n\n", false, false},
		{"in a line", `data: {"a":"data: [DONE]"}` + "\n\n", true, false},
		{"in a line, and then", `data: {"a":"data: [DONE]"}` + "\n\ndata: [DONE]\n\n", true, true},
		{"one line end", "data: [DONE]\n", true, false},
		{"one crlf", "data: [DONE]\r\n", true, false},
		{"another line of the event", "data: [DONE]\ndata: x\n\n", true, false},
		{"half", "data: [DO", true, false},
		{"no blank", "data:[DONE]\n\n", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := hasDone([]byte(tt.piece), tt.atLine); got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestFaultsInStreams: an engine whose stream has begun tells of its failure in an
// event, which may come in pieces.
func TestFaultsInStreams(t *testing.T) {
	events := func(pieces ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, p := range pieces {
				_, _ = w.Write([]byte(p)) // the client of a test that has failed may be gone
				_ = http.NewResponseController(w).Flush()
			}
		}
	}
	const (
		token   = `data: {"text":"a","meta_info":{"finish_reason":null}}` + "\n\n"
		aborted = `data: {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"lost it","status_code":503}}}` + "\n\n"
		failed  = `data: {"error":{"message":"lost it","code":503}}` + "\n\n"
	)
	for _, tt := range []struct {
		name            string
		prefill, decode func(http.ResponseWriter) // nil: waits for the end of its request
		code            string
	}{
		{"prefill aborts", events(aborted), nil, "prefill_unavailable"},
		{"prefill fails in two pieces", events(failed[:20], failed[20:]), nil, "prefill_unavailable"},
		{"prefill fails behind an event", events(token + failed), nil, "prefill_unavailable"},
		{"decode aborts", nil, events(aborted), "decode_unavailable"},
		{"decode fails in two pieces", nil, events(failed[:20], failed[20:]), "decode_unavailable"},
		{"decode breaks off in its first event", nil, func(w http.ResponseWriter) {
			events(failed[:20])(w)
			panic(http.ErrAbortHandler)
		}, "decode_read_failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serve := func(answer func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request, []byte) {
				return func(w http.ResponseWriter, r *http.Request, _ []byte) {
					if answer == nil {
						<-r.Context().Done()
						return
					}
					answer(w)
				}
			}
			d := inFrontOf(t, scripted(t, serve(tt.prefill)), scripted(t, serve(tt.decode)))
			status, header, answer := d.asks(t, "/generate", `{"text":"hi","stream":true}`)
			want := http.StatusServiceUnavailable
			if tt.code == "decode_read_failed" {
				want = http.StatusBadGateway
			}
			if status != want || header.Get(errorCodeHeader) != tt.code || want == 503 && !strings.Contains(answer, "lost it") {
				t.Errorf("status %d, code %q: %s", status, header.Get(errorCodeHeader), answer)
			}
			d.idle()
		})
	}

	t.Run("prefill fails late", func(t *testing.T) {
		begun := make(chan struct{})
		prefill := scripted(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			<-begun
			events(failed)(w)
		})
		decode := scripted(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
			events(token)(w)
			<-r.Context().Done()
		})
		d := inFrontOf(t, prefill, decode)
		resp, err := http.Post(d.url+"/generate", "application/json", strings.NewReader(`{"text":"hi","stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		close(begun) // the answer's head is out
		answer, err := io.ReadAll(resp.Body)
		status, got := resp.StatusCode, splitEvents(string(answer))
		if err != nil || status != http.StatusOK || len(got) != 2 || errorCode(t, got[1]) != "decode_stream_error" || !strings.Contains(got[1], "lost it") {
			t.Errorf("status %d: %q", status, answer)
		}
		d.idle()
	})
}

// TestDoneEndsTheAnswer: what an engine does behind the end is no matter to the client.
func TestDoneEndsTheAnswer(t *testing.T) {
	const whole = "data: 1\n\ndata: [DONE]\n\n"
	for _, tt := range []struct {
		name string
		then func(w http.ResponseWriter, r *http.Request)
		keep bool // the engine's connection
	}{
		{"it stays open", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		{"it breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
		{"it goes on", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(": bye\n\n")) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			callers := make(chan string, 2)
			decode := scripted(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
				callers <- r.RemoteAddr
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write([]byte(whole))
				_ = http.NewResponseController(w).Flush()
				tt.then(w, r)
			})
			prefill := scripted(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = w.Write([]byte("{}")) })
			d := inFrontOf(t, prefill, decode)
			for range 2 {
				status, _, answer := d.asks(t, chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`)
				// Its end may come together with [DONE].
				if status != http.StatusOK || strings.TrimSuffix(answer, ": bye\n\n") != whole {
					t.Errorf("status %d: %q", status, answer)
				}
			}
			d.idle()
			for id, e := range d.selector.ends {
				if e[0] != (ending{worker.Success, false}) {
					t.Errorf("lease %v ended as %+v", id, e[0])
				}
			}
			if a, b := <-callers, <-callers; a == b != tt.keep {
				t.Errorf("connections from %s and %s", a, b)
			}
		})
	}
}
