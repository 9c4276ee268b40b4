package legs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/policy/kvindex"
	"smg/wire"
	"smg/worker"
)

// publishers are the workers of a test as engines that publish events.
type publishers struct {
	mu sync.Mutex
	by map[string]*publisher // by URL
}

// publisher is one of them.
type publisher struct {
	resume kvindex.Resume

	mu    sync.Mutex
	fails []error            // the next openings, in turn
	asked [][]kvindex.Cursor // of all openings
	open  int
	in    chan any // holds what is to be read: batches and errors
}

func (p *publishers) source(s *worker.Spec) EventSource {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.by[s.URL]; e != nil {
		return e
	}
	return nil
}

// of makes a worker one that publishes.
func (p *publishers) of(w *worker.Spec) *publisher {
	e := &publisher{in: make(chan any, 100)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by[w.URL] = e
	return e
}

func (e *publisher) Resume() kvindex.Resume { return e.resume }

func (e *publisher) Open(_ context.Context, from []kvindex.Cursor) (EventStream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, from)
	if len(e.fails) > 0 {
		err := e.fails[0]
		e.fails = e.fails[1:]
		if err != nil {
			return nil, err
		}
	}
	e.open++
	return e, nil
}

func (e *publisher) Next(ctx context.Context) (kvindex.Batch, error) {
	select {
	case x := <-e.in:
		if err, bad := x.(error); bad {
			return kvindex.Batch{}, err
		}
		return x.(kvindex.Batch), nil
	case <-ctx.Done():
		return kvindex.Batch{}, ctx.Err()
	}
}

func (e *publisher) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open--
}

// state is from where streams were asked for since the last time, and how many are open.
func (e *publisher) state() (asked string, open int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, from := range e.asked {
		all = append(all, fmt.Sprint(from))
	}
	e.asked = nil
	return strings.Join(all, " "), e.open
}

// prompt is the tokens of one block.
func prompt(n uint64) []uint32 { return []uint32{uint32(n), 0, 0, 1} }

// stores is a batch of a rank that stores the block of its number.
func stores(rank int, seq uint64) kvindex.Batch {
	return kvindex.Batch{Seq: seq, Rank: rank, Events: []kvindex.Event{{
		Kind: kvindex.Stored, BlockSize: 4, Blocks: []kvindex.Block{{Hash: seq, Tokens: prompt(seq)}},
	}}}
}

func byEvents(c *Config) { c.Policy.Policy = policy.CacheAware }

// known are the blocks of a model, of those with these numbers, that somebody holds.
func (s *site) known(model string, numbers ...uint64) (held []uint64) {
	ix := s.book.Events(model)
	for _, n := range numbers {
		if len(ix.Match(prompt(n), time.Now(), nil)) > 0 {
			held = append(held, n)
		}
	}
	return held
}

// wants compares what a publisher was asked since the last time, and what is known.
func (s *site) wants(t *testing.T, e *publisher, asked string, open int, held ...uint64) {
	t.Helper()
	synced, n := e.state()
	if synced != asked || n != open {
		t.Errorf("asked %s, %d streams open; want %s and %d", synced, n, asked, open)
	}
	if diff := cmp.Diff(held, s.known("m", 1, 2, 3, 4, 5, 6, 7, 8, 9)); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}

func eventsFollowed(t *testing.T) {
	const soon = 2 * followEvery
	t.Run("duplicates are ignored, and a gap is asked for", func(t *testing.T) {
		inTime(t, byEvents, func(t *testing.T, s *site) {
			a := spec(1, "m")
			e := s.events.of(a)
			s.come(a)
			s.pass(soon)
			s.wants(t, e, "[]", 1)
			e.in <- stores(0, 5)
			e.in <- kvindex.Batch{Seq: 5, Events: []kvindex.Event{{Kind: kvindex.Cleared}}}
			e.in <- stores(0, 6)
			e.in <- stores(0, 8)
			s.pass(0)
			s.wants(t, e, "[{0 6}]", 1, 5, 6)
			e.in <- stores(0, 7)
			e.in <- stores(0, 8)
			s.pass(0)
			s.wants(t, e, "", 1, 5, 6, 7, 8)
			s.shows(t, `kv_event_subscription_failures_total gap `+a.URL+` = 1
				kv_events_connected `+a.URL+` = 1`, "smg_kv_event")
		})
	})
	t.Run("out of range and data loss begin anew", func(t *testing.T) {
		inTime(t, byEvents, func(t *testing.T, s *site) {
			a := spec(1, "m")
			e := s.events.of(a)
			s.come(a)
			s.pass(soon)
			e.in <- stores(0, 5)
			e.in <- fmt.Errorf("too slow: %w", ErrEventsLost)
			s.pass(0)
			s.wants(t, e, "[] []", 1)
			e.in <- stores(0, 6)
			e.in <- stores(0, 7)
			e.fails = []error{fmt.Errorf("out of range: %w", ErrEventsLost)}
			e.in <- errors.New("reset")
			s.pass(time.Second)
			s.wants(t, e, "[{0 7}] []", 1)
		})
	})
	t.Run("other ends back off and keep the blocks", func(t *testing.T) {
		inTime(t, byEvents, func(t *testing.T, s *site) {
			a := spec(1, "m")
			e := s.events.of(a)
			s.come(a)
			s.pass(soon)
			e.in <- stores(0, 5)
			s.pass(0)
			e.state()
			for range 5 {
				e.fails = append(e.fails, errors.New("connection refused"))
			}
			e.in <- errors.New("reset")
			for _, ms := range []time.Duration{100, 200, 400, 800, 1600, 3200} { // the last one opens
				s.pass(ms*time.Millisecond - time.Millisecond)
				s.wants(t, e, "", 0, 5)
				s.pass(time.Millisecond)
				if asked, _ := e.state(); asked != "[{0 5}]" {
					t.Fatalf("asked %q after %d ms", asked, ms)
				}
			}
			e.in <- errors.New("reset") // a connection has reset the waiting
			s.pass(100 * time.Millisecond)
			s.wants(t, e, "[{0 5}]", 1, 5)
			if n := len(s.log.lines("are not followed")); n != 2 {
				t.Errorf("%d warnings, want one for each time that it broke", n)
			}
			s.shows(t, `kv_event_subscription_failures_total broken `+a.URL+` = 7
				kv_events_connected `+a.URL+` = 1`, "smg_kv_event")
		})
	})
	t.Run("unimplemented is the end", func(t *testing.T) {
		inTime(t, byEvents, func(t *testing.T, s *site) {
			a, b := spec(1, "m"), spec(2, "m")
			e := s.events.of(a)
			e.fails = []error{fmt.Errorf("code 12: %w", ErrNoEvents)}
			s.come(a, b) // b has no source at all
			s.pass(time.Hour)
			s.wants(t, e, "[]", 0)
			s.shows(t, `kv_event_subscription_failures_total unimplemented `+a.URL+` = 1`, "smg_kv_event_")
		})
	})
	t.Run("only under cache_aware", func(t *testing.T) {
		for _, change := range []func(*Config){
			nil,
			func(c *Config) {
				byEvents(c)
				c.Policy.CacheAware.Index = policy.HashIndex
				c.Policy.Boundaries = []int{2048}
			},
		} {
			inTime(t, change, func(t *testing.T, s *site) {
				a := spec(1, "m")
				e := s.events.of(a)
				s.come(a)
				s.pass(time.Minute)
				if asked, open := e.state(); asked != "" || open != 0 {
					t.Errorf("asked %s, %d open", asked, open)
				}
			})
		}
		inTime(t, func(c *Config) { c.Leg = worker.Regular }, func(t *testing.T, s *site) {
			a, b := spec(1, "m"), spec(2, "n")
			a.Labels = map[string]string{"policy": "cache_aware"}
			e, f := s.events.of(a), s.events.of(b)
			s.come(a, b)
			s.pass(soon)
			s.wants(t, e, "[]", 1)
			if asked, _ := f.state(); asked != "" {
				t.Errorf("a worker of another model is asked %s", asked)
			}
		})
	})
	t.Run("a message that cannot be read is passed over", func(t *testing.T) {
		inTime(t, byEvents, func(t *testing.T, s *site) {
			a := spec(1, "m")
			e := s.events.of(a)
			e.resume = kvindex.Never
			s.come(a)
			s.pass(soon)
			e.in <- stores(0, 5)
			e.in <- fmt.Errorf("frame 2: %w", ErrEventData)
			e.in <- fmt.Errorf("frame 2: %w", ErrEventData)
			e.in <- stores(0, 8) // nothing can be had of what was missed
			s.pass(0)
			s.wants(t, e, "[]", 1, 8)
			if n := len(s.log.lines("no KV-cache events")); n != 1 {
				t.Errorf("%d warnings", n)
			}
			s.shows(t, `kv_event_subscription_failures_total decode `+a.URL+` = 2`, "smg_kv_event_")
		})
	})
}

// A stream begins with a ready worker and ends with it or its process, not with a probe
// that fails.
func TestEventsFollowTheProcess(t *testing.T) {
	const soon = 2 * followEvery
	inTime(t, byEvents, func(t *testing.T, s *site) {
		a, b := spec(1, "m"), spec(2, "m")
		e, f := s.events.of(a), s.events.of(b)
		s.prober.set(a.URL, errors.New("loading"))
		s.come(a, b)
		s.pass(soon)
		s.wants(t, e, "", 0)
		s.well(a)
		s.pass(soon)
		s.wants(t, e, "[]", 1)
		e.in <- stores(0, 1)
		f.in <- stores(0, 2)
		s.pass(0)
		s.ill(a)
		s.wants(t, e, "", 1, 1, 2)
		s.well(a)
		s.wants(t, e, "", 1, 1, 2)

		// Another process: another epoch, whose numbers begin anew.
		s.mu.Lock()
		rec := s.keepers[a.ID].Record()
		s.mu.Unlock()
		rec.Epoch, rec.Term = rec.Epoch+1000, rec.Term+1
		s.onState(new(wire.RecordsOf([]worker.Record{rec}, time.Now())[0]), true)
		s.pass(soon)
		s.wants(t, e, "[]", 1, 2)
		e.in <- stores(0, 0)
		e.in <- stores(0, 1)
		s.pass(0)
		s.wants(t, e, "", 1, 1, 2)

		// Another word on where it publishes.
		c := a.Clone()
		c.Priority++
		s.add(c)
		s.pass(soon)
		s.wants(t, e, "", 1, 1, 2)
		c = c.Clone()
		c.Labels = map[string]string{"kv_events_endpoint": "tcp://127.0.0.1:1"}
		s.add(c)
		s.pass(soon)
		s.wants(t, e, "[]", 1, 2)

		s.remove(a.ID)
		s.pass(soon)
		s.wants(t, e, "", 0, 2)
		s.shows(t, `kv_events_connected `+b.URL+` = 1`, "smg_kv_event")
		f.in <- stores(0, 3)
		s.pass(0)
		s.wants(t, f, "[]", 1, 2, 3)
	})
}

// What cache_aware has forgotten of a worker is followed anew, and a model that nobody
// asks for keeps its index as long as it has workers.
func TestEventsOutliveTheModelsTrees(t *testing.T) {
	inTime(t, byEvents, func(t *testing.T, s *site) {
		a := spec(1, "m")
		e := s.events.of(a)
		s.come(a)
		s.pass(time.Hour) // the policy drops the memory of models that are not used
		e.in <- stores(0, 1)
		s.pass(0)
		s.wants(t, e, "[]", 1, 1)
		s.book.Replaced(a.ID)
		e.in <- stores(0, 2)
		s.pass(2 * followEvery)
		s.wants(t, e, "[]", 1)
		e.in <- stores(0, 3)
		s.pass(0)
		s.wants(t, e, "", 1, 3)
	})
}

// What engines say decides where prompts go.
func TestEventsDecide(t *testing.T) {
	inTime(t, byEvents, func(t *testing.T, s *site) {
		a, b := spec(1, "m"), spec(2, "m")
		e, f := s.events.of(a), s.events.of(b)
		s.come(a, b)
		s.pass(2 * followEvery)
		plan := uint64(0)
		pick := func(ids []uint32) wire.Pick {
			t.Helper()
			plan++
			p, err := s.Select(&wire.Select{Lease: worker.LeaseID{Incarnation: 1, Plan: plan}, Model: "m", TokenIDs: ids, Tokens: int64(len(ids))})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		e.in <- stores(0, 1)
		f.in <- stores(0, 2)
		s.pass(0)
		var got []string
		for _, n := range []uint64{1, 2, 1, 2} {
			p := pick(prompt(n))
			got = append(got, p.Worker.URL+" "+p.Branch)
		}
		want := []string{a.URL + " event_hit", b.URL + " event_hit"}
		if diff := cmp.Diff(slices.Concat(want, want), got); diff != "" {
			t.Errorf("picks (-want +got):\n%s", diff)
		}
		e.in <- kvindex.Batch{Seq: 2, Events: []kvindex.Event{{Kind: kvindex.Removed, Hashes: []uint64{1}}}}
		s.pass(0)
		if p := pick(prompt(1)); p.Branch != "expected_wait_fallback" {
			t.Errorf("an evicted prompt is chosen by %s", p.Branch)
		}
	})
}
