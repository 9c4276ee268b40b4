package ingress

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/sim/simhttp"
	"smg/wire"
	"smg/worker"
)

// crowdedSelector has no decode worker with room until it is told so. It notes what it
// was asked and what has ended, in order.
type crowdedSelector struct {
	Selector
	room    chan struct{}
	waiting chan struct{} // gets one for each select that waits

	mu    sync.Mutex
	notes []string
	units []int
}

func (s *crowdedSelector) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, what)
}

func (s *crowdedSelector) noted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.notes, ", ")
}

func (s *crowdedSelector) Select(ctx context.Context, ask *wire.Select) (wire.Pick, error) {
	if ask.Lease.Leg != worker.Decode {
		s.note(ask.Lease.Leg.String())
		return s.Selector.Select(ctx, ask)
	}
	s.mu.Lock()
	s.units = append(s.units, ask.Units)
	s.mu.Unlock()
	select {
	case <-s.room:
		s.note("decode")
		return s.Selector.Select(ctx, ask)
	default:
	}
	if ask.Wait == 0 {
		return wire.Pick{}, worker.ErrFull
	}
	s.note("decode waits")
	t := time.NewTimer(ask.Wait)
	defer t.Stop()
	s.waiting <- struct{}{}
	select {
	case <-s.room:
		s.note("decode")
		return s.Selector.Select(ctx, ask)
	case <-ctx.Done():
		return wire.Pick{}, ctx.Err()
	case <-t.C:
		return wire.Pick{}, worker.ErrFull
	}
}

func (s *crowdedSelector) End(id worker.LeaseID, o worker.Outcome, unreached bool) {
	if unreached {
		s.note(id.Leg.String() + " is let go")
	}
	s.Selector.End(id, o, unreached)
}

// crowded is a gateway in front of decode workers without room.
func crowded(t *testing.T, kind simhttp.Kind, wait time.Duration, opts ...option) (*disaggregated, *crowdedSelector) {
	t.Helper()
	s := &crowdedSelector{room: make(chan struct{}), waiting: make(chan struct{}, 8)}
	d := startPD(t, kind, append([]option{
		withRetries, withConfig(func(c *Config) { c.PD.AdmissionWait = wait }),
		withDeps(func(d *Deps) { s.Selector, d.Selector = d.Selector, s }),
	}, opts...)...)
	return d, s
}

func (d *disaggregated) counted() (waits, sheds float64) {
	return testutil.ToFloat64(d.metrics.pd.admissionWaits), testutil.ToFloat64(d.metrics.pd.admissionSheds)
}

func TestAdmission(t *testing.T) {
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			t.Run("prefill is chosen once decode has room", func(t *testing.T) {
				d, s := crowded(t, kind, time.Minute)
				got := make(chan reply, 1)
				go func() { got <- d.do(chat(chatBody)) }()
				<-s.waiting
				if want := "prefill, prefill is let go, decode waits"; s.noted() != want {
					t.Errorf("%q, want %q", s.noted(), want)
				}
				close(s.room)
				if r := <-got; r.status != http.StatusOK {
					t.Errorf("status %d: %s", r.status, r.body)
				}
				if want := "prefill, prefill is let go, decode waits, decode, prefill"; s.noted() != want {
					t.Errorf("%q, want %q", s.noted(), want)
				}
				if w, n := d.counted(); w != 1 || n != 0 {
					t.Errorf("%v waits and %v sheds, want a wait", w, n)
				}
				d.quiet(t)
			})
			t.Run("the time is up, once", func(t *testing.T) {
				d, s := crowded(t, kind, 20*time.Millisecond)
				r := d.do(chat(chatBody))
				r.fails(t, http.StatusServiceUnavailable, "pd_admission_timeout")
				if r.header.Get("Retry-After") != "10" || !strings.Contains(r.body, "no decode worker for m had room") || !strings.Contains(r.body, "for 20ms") {
					t.Errorf("Retry-After %q: %s", r.header.Get("Retry-After"), r.body)
				}
				if want := "prefill, prefill is let go, decode waits"; s.noted() != want {
					t.Errorf("%q, want %q", s.noted(), want)
				}
				if w, n := d.counted(); w != 1 || n != 1 || d.sheds()[stageAdmission] != 1 {
					t.Errorf("%v waits and %v sheds, by stage %v, want one each", w, n, d.sheds())
				}
			})
			t.Run("nobody is to wait", func(t *testing.T) {
				d, s := crowded(t, kind, 0)
				d.do(chat(chatBody)).fails(t, http.StatusServiceUnavailable, "pd_admission_timeout")
				if w, n := d.counted(); w != 0 || n != 1 || len(s.waiting) != 0 {
					t.Errorf("%v waits and %v sheds, want a shed", w, n)
				}
			})
			t.Run("there is no prefill worker", func(t *testing.T) {
				d, s := crowded(t, kind, time.Minute)
				d.selector.workers = slices.DeleteFunc(d.selector.workers, func(w *worker.Spec) bool { return w.Leg == worker.Prefill })
				r := d.do(chat(chatBody))
				r.fails(t, http.StatusServiceUnavailable, "no_available_workers")
				if !strings.Contains(r.body, "prefill") || len(s.waiting) != 0 {
					t.Errorf("%d waits: %s", len(s.waiting), r.body)
				}
			})
			t.Run("the request's time is up", func(t *testing.T) {
				d, _ := crowded(t, kind, time.Minute, withConfig(func(c *Config) { c.RequestTimeout = 50 * time.Millisecond }))
				d.do(chat(chatBody)).fails(t, http.StatusGatewayTimeout, "request_timeout")
				if _, n := d.counted(); n != 0 {
					t.Errorf("%v sheds, want none", n)
				}
			})
		})
	}
}

// TestAdmissionInGroups: one who waits takes any group that has both legs, and prefill is
// of the group whose decode worker has room.
func TestAdmissionInGroups(t *testing.T) {
	d, s := crowded(t, simhttp.SGLang, time.Minute)
	in := &worker.Pairing{Grouped: true}
	for i, w := range d.selector.workers {
		w.Labels = map[string]string{worker.GroupLabel: []string{"red", "blue"}[i%2]}
		if w.Leg == worker.Prefill {
			in.Classes = append(in.Classes, w.Class())
		}
	}
	d.fleet.pairing = in
	got := make(chan reply, 1)
	go func() { got <- d.do(chat(chatBody)) }()
	<-s.waiting
	if want := "prefill, prefill is let go, decode waits"; s.noted() != want {
		t.Errorf("%q, want %q", s.noted(), want)
	}
	close(s.room)
	if r := <-got; r.status != http.StatusOK {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	d.idle()
	asks := d.selector.asks // those of decode without room do not get there
	if len(asks) != 3 {
		t.Fatalf("%d selects", len(asks))
	}
	decode, prefill := asks[1], asks[2]
	if decode.Lease.Leg != worker.Decode || !slices.Equal(decode.Fit.Groups, []string{"red", "blue"}) {
		t.Errorf("decode may be %+v", decode.Fit)
	}
	if len(prefill.Fit.Groups) != 1 || prefill.Fit.Class.Runtime != worker.SGLang {
		t.Errorf("prefill may be %+v", prefill.Fit)
	}
}

func TestSequences(t *testing.T) {
	for _, tt := range []struct {
		path, body string
		want       int
	}{
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 0},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"x"}],"n":3}`, 3},
		{"/v1/completions", `{"model":"m","prompt":"x"}`, 0},
		{"/v1/completions", `{"model":"m","prompt":["x"]}`, 0},
		{"/v1/completions", `{"model":"m","prompt":["x","y"]}`, 2},
		{"/v1/completions", `{"model":"m","prompt":["x","y"],"n":3}`, 6},
		{"/v1/completions", `{"model":"m","prompt":"x","n":3}`, 3},
		{"/generate", `{"text":["x","y","z"]}`, 3},
	} {
		t.Run(tt.path+tt.body, func(t *testing.T) {
			d, s := crowded(t, simhttp.SGLang, 0)
			d.do(post(tt.path, tt.body)).fails(t, http.StatusServiceUnavailable, "pd_admission_timeout")
			if !slices.Equal(s.units, []int{tt.want}) {
				t.Errorf("asked for %v sequences, want %d", s.units, tt.want)
			}
		})
	}
}
