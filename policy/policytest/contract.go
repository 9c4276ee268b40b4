package policytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"smg/policy"
	"smg/worker"
)

// Options is how a policy differs from the others under the contract.
type Options struct {
	// Allocates exempts a policy whose selection may allocate.
	Allocates bool
	// Leg is that of the workers.
	Leg worker.Leg
}

// Run holds a policy to what all of them promise: only candidates are chosen, a
// choice is counted once and a failure never, the reasons for choosing nobody are
// told apart, all of it from many goroutines while the fleet changes. newPolicy
// makes a fresh one for each subtest.
func Run(t *testing.T, newPolicy func(t *testing.T) policy.Policy, options Options) {
	t.Helper()
	c := &contract{newPolicy: newPolicy, leg: options.Leg}
	t.Run("no worker", c.noWorker)
	t.Run("none available", c.noneAvailable)
	t.Run("one worker", c.oneWorker)
	t.Run("only candidates", c.onlyCandidates)
	t.Run("tried workers are avoided softly", c.tried)
	t.Run("half-open slots", c.halfOpen)
	t.Run("overloaded workers lose their requests", c.overloaded)
	t.Run("counted once", c.countedOnce)
	t.Run("request is left alone", c.requestLeftAlone)
	t.Run("many goroutines", c.manyGoroutines)
	t.Run("fleet changes meanwhile", c.fleetChanges)
	if !options.Allocates {
		t.Run("allocates nothing", c.allocatesNothing)
	}
}

type contract struct {
	leg       worker.Leg
	newPolicy func(t *testing.T) policy.Policy
}

// request is the i-th of a mix: some have a key, a text or tokens, of which a few
// share one.
func request(f *Fleet, i int, tried ...int) *policy.Request {
	req := &policy.Request{Ask: f.Ask(tried...)}
	switch what := i % 64; i % 4 {
	case 1:
		key := worker.HashKey(fmt.Sprintf("key-%d", what))
		req.Keys = worker.Keys{Header: key, Pinned: key, Conversation: key}
		req.Ask.Key = worker.Scoped(Model, req.Keys.Counted())
	case 2:
		req.Text = strings.Repeat(fmt.Sprintf("what is %d? ", what), 10)
		req.Chars = int64(len(req.Text))
	case 3:
		for t := range uint32(40) {
			req.TokenIDs = append(req.TokenIDs, uint32(what)+t/16)
		}
		req.Tokens = 40
	}
	return req
}

func (c *contract) noWorker(t *testing.T) {
	f := NewLegFleet(t, c.leg, 1)
	pool := f.Pool()
	f.Remove(0)
	wantError(t, c.newPolicy(t), f, pool, worker.ErrNoWorkers)
}

func (c *contract) noneAvailable(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*Fleet)
		want    error
	}{
		{"all down", func(f *Fleet) { f.Down(0, 1, 2) }, worker.ErrUnavailable},
		{"pending, failed and draining", func(f *Fleet) {
			f.Record(0, func(r *worker.Record) { r.Status = worker.Pending })
			f.Record(1, func(r *worker.Record) { r.Status = worker.Draining })
			f.Record(2, func(r *worker.Record) { r.Status = worker.Failed })
		}, worker.ErrUnavailable},
		{"breakers open", func(f *Fleet) {
			for i := range 3 {
				f.Record(i, func(r *worker.Record) { r.Breaker = worker.Open })
			}
		}, worker.ErrUnavailable},
		{"all overloaded", func(f *Fleet) {
			for i := range 3 {
				f.Overload(i, true)
			}
		}, worker.ErrOverloaded},
		{"mixed reasons", func(f *Fleet) { f.Overload(0, true); f.Down(1, 2) }, worker.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewLegFleet(t, c.leg, 3)
			tt.prepare(f)
			p := c.newPolicy(t)
			wantError(t, p, f, f.Pool(), tt.want)
			for i := range 3 {
				f.Record(i, func(r *worker.Record) {
					*r = worker.Record{Worker: r.Worker, Status: worker.Ready, Term: 1, Seq: r.Seq}
				})
			}
			if _, err := p.Pick(request(f, 0), f.Pool()); err != nil {
				t.Errorf("after everybody came back: %v", err)
			}
		})
	}
}

func wantError(t *testing.T, p policy.Policy, f *Fleet, pool *worker.Pool, want error) {
	t.Helper()
	for i := range 4 {
		d, err := p.Pick(request(f, i), pool)
		if !errors.Is(err, want) {
			t.Errorf("pick %d: error %v, want %v", i, err, want)
		}
		if d.Worker != nil {
			t.Errorf("pick %d: got %s along with an error", i, d.Worker.Spec.URL)
		}
	}
	if n := sum(f.Active()); n != 0 {
		t.Errorf("%d calls are counted although nobody was chosen", n)
	}
}

func (c *contract) oneWorker(t *testing.T) {
	f, p := NewLegFleet(t, c.leg, 1), c.newPolicy(t)
	for i := range 10 {
		if got := c.pick(t, p, f, request(f, i)); got != 0 {
			t.Fatalf("pick %d: worker %d, want 0", i, got)
		}
	}
}

// onlyCandidates compares choices over random fleets with who may be chosen by the
// words of the specification.
func (c *contract) onlyCandidates(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const n = 7
	f, p := NewLegFleet(t, c.leg, n), c.newPolicy(t)
	for round := range 400 {
		var available []int
		for i := range n {
			f.Record(i, func(r *worker.Record) {
				r.Status = []worker.Status{worker.Ready, worker.Ready, worker.NotReady, worker.Draining}[rnd.IntN(4)]
				r.Breaker = []worker.Breaker{worker.Closed, worker.Closed, worker.Open}[rnd.IntN(3)]
				r.Overloaded = rnd.IntN(6) == 0
				if r.Status == worker.Ready && r.Breaker == worker.Closed && !r.Overloaded {
					available = append(available, i)
				}
			})
		}
		tried := rnd.Perm(n)[:rnd.IntN(4)]
		want := slices.DeleteFunc(slices.Clone(available), func(i int) bool { return slices.Contains(tried, i) })
		if len(want) == 0 {
			want = available
		}
		d, err := p.Pick(request(f, round, tried...), f.Pool())
		if len(want) == 0 {
			if err == nil {
				t.Fatalf("round %d: got worker %d, nobody is available", round, f.Index(d.Worker))
			}
			continue
		}
		if err != nil {
			t.Fatalf("round %d: %v, although %v can be chosen", round, err, want)
		}
		if got := f.Index(d.Worker); !slices.Contains(want, got) {
			t.Fatalf("round %d: got worker %d, want one of %v", round, got, want)
		}
	}
}

func (c *contract) tried(t *testing.T) {
	f, p := NewLegFleet(t, c.leg, 3), c.newPolicy(t)
	for i := range 20 {
		if got := c.pick(t, p, f, request(f, i, 0, 2)); got != 1 {
			t.Fatalf("workers 0 and 2 tried: got %d, want 1", got)
		}
		// Everybody tried is as good as nobody.
		c.pick(t, p, f, request(f, i, 0, 1, 2))
	}
	f.Down(1)
	if got := c.pick(t, p, f, request(f, 0, 0)); got != 2 {
		t.Fatalf("worker 0 tried, 1 down: got %d, want 2", got)
	}
	f.Down(2)
	if got := c.pick(t, p, f, request(f, 0, 0)); got != 0 {
		t.Fatalf("worker 0 tried and alone: got %d, want 0", got)
	}
}

func (c *contract) halfOpen(t *testing.T) {
	f, p := NewLegFleet(t, c.leg, 2), c.newPolicy(t)
	f.Down(1)
	f.Record(0, func(r *worker.Record) { r.Breaker = worker.HalfOpen })
	pool := f.Pool()
	if _, err := p.Pick(request(f, 0), pool); !errors.Is(err, worker.ErrUnavailable) {
		t.Fatalf("half open, at a replica that does not rank first: error %v, want %v", err, worker.ErrUnavailable)
	}
	pool.SetFirst(true)
	for i := range Probes {
		d, err := p.Pick(request(f, i), pool)
		if err != nil || !d.Probe {
			t.Fatalf("probe %d: probe %v, error %v", i, d.Probe, err)
		}
	}
	if _, err := p.Pick(request(f, 0), pool); !errors.Is(err, worker.ErrUnavailable) {
		t.Fatalf("all slots taken: error %v, want %v", err, worker.ErrUnavailable)
	}
	f.Up(1)
	for i := range 10 {
		if got := c.pick(t, p, f, request(f, i)); got != 1 {
			t.Fatalf("all slots of 0 taken: got %d, want 1", got)
		}
	}
}

func (c *contract) overloaded(t *testing.T) {
	const n = 4
	f, p := NewLegFleet(t, c.leg, n), c.newPolicy(t)
	key := worker.HashKey("user-123")
	req := policy.Request{Keys: worker.Keys{Header: key, Conversation: key, Pinned: key}}
	next := func() *policy.Request { r := req; r.Ask = f.Ask(); return &r }
	vetoed := map[int]bool{}
	for range n {
		got := c.pick(t, p, f, next())
		if vetoed[got] {
			t.Fatalf("got worker %d, which is overloaded", got)
		}
		vetoed[got] = true
		f.Overload(got, true)
	}
	if _, err := p.Pick(next(), f.Pool()); !errors.Is(err, worker.ErrOverloaded) {
		t.Fatalf("everybody overloaded: error %v, want %v", err, worker.ErrOverloaded)
	}
	for i := range n {
		f.Overload(i, false)
	}
	c.pick(t, p, f, next())
}

func (c *contract) countedOnce(t *testing.T) {
	f, p := NewLegFleet(t, c.leg, 3), c.newPolicy(t)
	want := make([]int, 3)
	for i := range 30 {
		want[c.pick(t, p, f, request(f, i))]++
		if got := f.Active(); !slices.Equal(got, want) {
			t.Fatalf("after pick %d: in flight %v, want %v", i, got, want)
		}
	}
}

func (c *contract) requestLeftAlone(t *testing.T) {
	f, p := NewLegFleet(t, c.leg, 3), c.newPolicy(t)
	req := request(f, 1, 0)
	before, skip := *req, slices.Clone(req.Ask.Skip)
	c.pick(t, p, f, req)
	if req.Keys != before.Keys || req.Target != before.Target || req.Ask.Lease != before.Ask.Lease || !slices.Equal(req.Ask.Skip, skip) {
		t.Errorf("the request was changed: %+v, was %+v", *req, before)
	}
}

func (c *contract) manyGoroutines(t *testing.T) {
	const goroutines, picks, n = 16, 200, 5
	f, p := NewLegFleet(t, c.leg, n), c.newPolicy(t)
	pool := f.Pool()
	var mu sync.Mutex
	want := make([]int, n)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range picks {
				d, err := p.Pick(request(f, g+i), pool)
				if err != nil {
					t.Errorf("pick: %v", err)
					return
				}
				mu.Lock()
				want[f.Index(d.Worker)]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got := f.Active(); !slices.Equal(got, want) {
		t.Errorf("in flight %v, chosen %v", got, want)
	}
	if got := sum(f.Active()); got != goroutines*picks {
		t.Errorf("%d calls in flight, want %d", got, goroutines*picks)
	}
}

// fleetChanges lets workers 1 to 4 come, go, fall ill and recover during choices.
// Worker 0 stays, so that there is always a candidate.
func (c *contract) fleetChanges(t *testing.T) {
	const goroutines, picks, n = 8, 200, 5
	f, p := NewLegFleet(t, c.leg, n), c.newPolicy(t)
	pool := f.Pool() // the same as long as worker 0 is there
	forgetter, _ := p.(policy.Forgetter)
	var choosing, changing sync.WaitGroup
	stop := make(chan struct{})
	changing.Go(func() {
		rnd := rand.New(rand.NewPCG(3, 4))
		for {
			select {
			case <-stop:
				return
			default:
			}
			switch i := 1 + rnd.IntN(n-1); rnd.IntN(5) {
			case 0:
				f.Remove(i)
				if forgetter != nil {
					forgetter.Forget(f.ID(i))
				}
			case 1:
				f.Add(i)
			case 2:
				f.Down(i)
			case 3:
				f.Up(i)
			case 4:
				f.Overload(i, rnd.IntN(2) == 0)
			}
		}
	})
	for g := range goroutines {
		choosing.Go(func() {
			for i := range picks {
				d, err := p.Pick(request(f, g+i), pool)
				switch {
				case err != nil:
					t.Errorf("pick: %v, although worker 0 is always there", err)
					return
				case f.Index(d.Worker) < 0 || !d.Worker.Record.Available():
					t.Errorf("pick: got %s, which is not available", d.Worker.Spec.URL)
					return
				}
			}
		})
	}
	choosing.Wait()
	close(stop)
	changing.Wait()
	if got := sum(f.Active()); got != goroutines*picks {
		t.Errorf("%d calls in flight, want %d", got, goroutines*picks)
	}
	for i := 1; i < n; i++ {
		f.Add(i)
		f.Overload(i, false)
		f.Down(i)
	}
	for i := range 10 {
		if got := c.pick(t, p, f, request(f, i)); got != 0 {
			t.Fatalf("after the changes: got worker %d, only 0 is available", got)
		}
	}
}

func (c *contract) allocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, n := range []int{1, 4, 256} {
		f, p := NewLegFleet(t, c.leg, n), c.newPolicy(t)
		pool := f.Pool()
		for _, req := range []*policy.Request{request(f, 0), request(f, 1), request(f, 2), request(f, 3), request(f, 0, 0), request(f, 1, 0)} {
			// The lease stays the same: a second grant replaces the first, so
			// that what is counted is the choice and not growing bookkeeping. Nor is
			// a worker's first counted key.
			req.Ask.Key, req.Seen = 0, new(policy.Shortlist)
			if got := testing.AllocsPerRun(200, func() {
				if _, err := p.Pick(req, pool); err != nil {
					t.Fatal(err)
				}
			}); got != 0 {
				t.Errorf("n=%d, key %v, size %d, %d tried: %v allocations per pick", n, !req.Keys.Header.None(), req.Size(), len(req.Ask.Skip), got)
			}
		}
	}
}

// pick is the index of the worker that p chooses for req.
func (c *contract) pick(t *testing.T, p policy.Policy, f *Fleet, req *policy.Request) int {
	t.Helper()
	d, err := p.Pick(req, f.Pool())
	if err != nil {
		t.Fatalf("pick: %v", err)
	}
	return f.Index(d.Worker)
}

func sum(counts []int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}
