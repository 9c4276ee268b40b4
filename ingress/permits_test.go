package ingress

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// limited is a gateway in front of an engine that hangs after its first event.
func limited(t *testing.T, p PermitsConfig) (*gateway, *script) {
	t.Helper()
	e, url := hangs(t, sseHead+chunk(event))
	return start(t, []string{url}, withConfig(func(c *Config) { c.Permits = p })), e
}

// queues is how many requests run and wait.
func (g *gateway) queues() [2]float64 {
	m := g.Server.metrics.http
	return [2]float64{testutil.ToFloat64(m.inflight), testutil.ToFloat64(m.queued)}
}

func (g *gateway) queued(running, waiting float64) {
	g.tb.Helper()
	within(g.tb, patience, "the queue", func() bool { return g.queues() == [2]float64{running, waiting} })
}

func TestGatewayPermits(t *testing.T) {
	refusal := func(t *testing.T, r reply, status int, code string) {
		t.Helper()
		r.fails(t, status, code)
		if got := r.header.Get("Retry-After"); got != "2" {
			t.Errorf("Retry-After %q", got)
		}
	}

	t.Run("41_full_and_held_to_the_end", func(t *testing.T) {
		t.Parallel()
		g, e := limited(t, PermitsConfig{Max: 1, Queue: 1, Wait: time.Minute})
		first := g.dial()
		first.send(chat(streamBody))
		if resp := first.head(); resp.StatusCode != 200 {
			t.Fatalf("%d", resp.StatusCode)
		}
		g.queued(1, 0) // the stream has begun and not ended
		second := g.dial()
		second.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 71\r\nExpect: 100-continue\r\n\r\n")
		g.queued(1, 1)
		third := g.dial()
		third.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 71\r\nExpect: 100-continue\r\n\r\n")
		refusal(t, third.answer(), 429, "admission_queue_full") // and no 100 before it
		if !third.closed() {
			t.Error("a body that was not sent may be taken for a request")
		}
		if r := g.do("GET /v1/models HTTP/1.1\r\nHost: g\r\n\r\n"); r.status != 200 {
			t.Errorf("a public route: %d", r.status)
		}
		if n := e.requests(); n != 1 {
			t.Errorf("the engine has %d requests", n)
		}
		first.Close()
		if resp := second.head(); resp.StatusCode != 100 { // its body is asked for once it is its turn
			t.Errorf("%d", resp.StatusCode)
		}
		g.queued(1, 0)
		m := g.Server.metrics.http
		if full, rejected := testutil.ToFloat64(m.refused.WithLabelValues(queueFull)), testutil.ToFloat64(m.limited.WithLabelValues(limitRejected)); full != 1 || rejected != 1 {
			t.Errorf("%v full, %v rejected", full, rejected)
		}
		if allowed := testutil.ToFloat64(m.limited.WithLabelValues(limitAllowed)); allowed != 2 {
			t.Errorf("%v allowed", allowed)
		}
	})

	t.Run("41_timeout", func(t *testing.T) {
		t.Parallel()
		g, _ := limited(t, PermitsConfig{Max: 1, Queue: 1, Wait: 20 * time.Millisecond})
		first := g.dial()
		first.send(chat(streamBody))
		first.head()
		refusal(t, g.do(chat(chatBody)), 503, "admission_queue_timeout")
		if n := testutil.ToFloat64(g.Server.metrics.http.refused.WithLabelValues(queueTimeout)); n != 1 {
			t.Errorf("%v time-outs", n)
		}
		g.queued(1, 0)
	})

	t.Run("41_no_queue", func(t *testing.T) {
		t.Parallel()
		g, _ := limited(t, PermitsConfig{Max: 1})
		first := g.dial()
		first.send(chat(streamBody))
		first.head()
		refusal(t, g.do(chat(chatBody)), 429, "admission_queue_full")
	})

	t.Run("41_who_leaves_frees_his_place", func(t *testing.T) {
		t.Parallel()
		g, _ := limited(t, PermitsConfig{Max: 1, Queue: 1, Wait: time.Minute})
		first := g.dial()
		first.send(chat(streamBody))
		first.head()
		second := g.dial()
		second.send(chat(streamBody)) // with its body unread
		g.queued(1, 1)
		second.Close()
		g.queued(1, 0)
		third := g.dial()
		third.send(chat(streamBody))
		g.queued(1, 1)
		first.Close()
		if resp := third.head(); resp.StatusCode != 200 {
			t.Errorf("%d", resp.StatusCode)
		}
	})

	t.Run("41_first_in_first_out", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPermits(PermitsConfig{Max: 1, Queue: 20, Wait: time.Hour}, newHTTPMetrics(nil, nil), time.Now)
			if err := p.take(t.Context()); err != nil {
				t.Fatal(err)
			}
			var order []int
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					if err := p.take(t.Context()); err != nil {
						t.Error(err)
					}
					order = append(order, i) // one at a time: the permit orders it
					p.give()
				})
				synctest.Wait() // it is in the queue
			}
			if err := p.take(t.Context()); !errors.Is(err, errQueueFull) {
				t.Errorf("the 21st: %v", err)
			}
			p.give()
			wg.Wait()
			if !slices.IsSorted(order) || len(order) != 20 {
				t.Errorf("served in the order %v", order)
			}
		})
	})

	t.Run("41_nobody_overtakes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPermits(PermitsConfig{Max: 1, Queue: 2, Wait: time.Hour}, newHTTPMetrics(nil, nil), time.Now)
			if err := p.take(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan error)
			go func() { gone <- p.take(ctx) }()
			synctest.Wait()
			served := make(chan error, 1)
			go func() { served <- p.take(t.Context()) }()
			synctest.Wait()
			leave()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("who has left: %v", err)
			}
			p.give() // to the second, before anybody asks
			late := make(chan error, 1)
			go func() { late <- p.take(t.Context()) }()
			synctest.Wait()
			select {
			case err := <-served:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Error("the one who waited has nothing")
			}
			if len(late) != 0 {
				t.Error("a newcomer has overtaken")
			}
			p.give()
			if err := <-late; err != nil {
				t.Error(err)
			}
			p.give()
		})
	})

	t.Run("41_a_rate", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPermits(PermitsConfig{Max: 2, Queue: 3, Wait: 250 * time.Millisecond, Rate: 10}, newHTTPMetrics(nil, nil), time.Now)
			begin := time.Now()
			took := make([]time.Duration, 5)
			errs := make([]error, 5)
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					errs[i] = p.take(t.Context())
					took[i] = time.Since(begin)
					if errs[i] == nil {
						p.give() // which brings nothing back
					}
				})
				synctest.Wait()
			}
			wg.Wait()
			want := []time.Duration{0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 250 * time.Millisecond}
			if !slices.Equal(took, want) {
				t.Errorf("answered after %v, want %v", took, want)
			}
			if errors.Join(errs[:4]...) != nil || !errors.Is(errs[4], errQueueTimeout) {
				t.Errorf("%v", errs)
			}
			time.Sleep(time.Minute) // the bucket is full, and no fuller
			for range 2 {
				if err := p.take(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if w, err := p.enter(); w == nil || err != nil {
				t.Errorf("a third: %v %v", w, err)
			} else if err := p.leave(w, context.Canceled); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	})
}

func TestPermitsConfig(t *testing.T) {
	for _, c := range []PermitsConfig{{Max: 0}, {Max: -2}, {Max: 1, Queue: -1}, {Max: 1, Queue: 1}, {Max: 1, Rate: -1}} {
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	for _, c := range []PermitsConfig{DefaultPermits(), {Max: 1}, {Max: 3, Queue: 2, Wait: time.Second, Rate: 5}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
