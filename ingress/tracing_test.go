package ingress

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/sim/simctl"
	"smg/sim/simhttp"
)

// fakeTracer keeps book of spans, which have numbers.
type fakeTracer struct {
	mu    sync.Mutex
	spans []*fakeSpan
}

type fakeSpan struct {
	t      *fakeTracer
	number int
	what   string
	ends   int
}

func (f *fakeTracer) add(what string) *fakeSpan {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &fakeSpan{t: f, number: len(f.spans), what: what}
	f.spans = append(f.spans, s)
	return s
}

func (f *fakeTracer) Request(r *http.Request, route, id string) Span {
	return f.add(fmt.Sprintf("%s %s %s %s", r.Method, route, id, r.Header.Get("Traceparent")))
}

func (s *fakeSpan) Call(c TracedCall) Span {
	return s.t.add(fmt.Sprintf("%d: %s %s %d", s.number, c.Leg, c.Policy, c.Attempt))
}

func (s *fakeSpan) Context() (parent, state string) { return fmt.Sprint("own-", s.number), "" }

func (s *fakeSpan) End(status int, failed bool) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.what += fmt.Sprintf(" = %d %v", status, failed)
	s.ends++
}

// ended are all spans, each of which must have ended once.
func (f *fakeTracer) ended(t *testing.T, n int) (all []string) {
	t.Helper()
	within(t, patience, "spans end", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.spans) == n && !slices.ContainsFunc(f.spans, func(s *fakeSpan) bool { return s.ends == 0 })
	})
	for _, s := range f.spans {
		if all = append(all, s.what); s.ends != 1 {
			t.Errorf("%s ended %d times", s.what, s.ends)
		}
	}
	slices.Sort(all)
	return all
}

func TestGatewayTraces(t *testing.T) {
	const theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	t.Run("29_unchanged_without_traces", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url})
		g.do(chat(chatBody, "traceparent: "+theirs, "tracestate: a=b"))
		got := e.last(t).head
		if got.Get("Traceparent") != theirs || got.Get("Tracestate") != "a=b" {
			t.Errorf("the worker got %v", got)
		}
	})

	t.Run("own_with_traces", func(t *testing.T) {
		e, url := answers(t, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
		tracer := &fakeTracer{}
		g := start(t, []string{url}, withDeps(func(d *Deps) { d.Tracer = tracer }), withConfig(func(c *Config) {
			c.Retry = DefaultRetry()
			c.Retry.Attempts = 2
		}))
		g.do("GET /health HTTP/1.1\r\nHost: g\r\n\r\n") // is no news
		g.do(chat(chatBody, "x-request-id: i", "traceparent: "+theirs, "tracestate: a=b"))
		want := []string{
			"0: regular round_robin 1 = 500 true", "0: regular round_robin 2 = 500 true", "POST /v1/chat/completions i " + theirs + " = 500 true",
		}
		if diff := cmp.Diff(want, tracer.ended(t, 3)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		got := e.last(t).head
		if diff := cmp.Diff([]string{"own-2"}, got["Traceparent"]); diff != "" || got.Get("Tracestate") != "" {
			t.Errorf("the worker got %v", got)
		}
	})

	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run("legs_of_"+string(kind), func(t *testing.T) {
			tracer := &fakeTracer{}
			d := startPD(t, kind, withDeps(func(d *Deps) { d.Tracer = tracer }))
			for _, e := range slices.Concat(d.pd.Prefill, d.pd.Decode) {
				if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
					t.Fatal(err)
				}
			}
			if r := d.do(chat(chatBody, "x-request-id: i", "traceparent: "+theirs)); r.status != 200 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			want := []string{"0: decode round_robin 1 = 200 false", "0: prefill round_robin 1 = 200 false", "POST /v1/chat/completions i " + theirs + " = 200 false"}
			if diff := cmp.Diff(want, tracer.ended(t, 3)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var told []string
			for _, e := range slices.Concat(d.pd.Prefill, d.pd.Decode) {
				records, err := e.Records(t.Context(), chatPath)
				if err != nil {
					t.Fatal(err)
				}
				for _, rec := range records {
					told = append(told, strings.Join(rec.Header["Traceparent"], " "))
				}
			}
			slices.Sort(told)
			if diff := cmp.Diff([]string{"own-1", "own-2"}, told); diff != "" {
				t.Errorf("workers were told (-want +got):\n%s", diff)
			}
			d.quiet(t)
		})
	}
}
