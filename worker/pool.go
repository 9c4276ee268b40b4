package worker

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Reasons why a pool yields no worker. Callers branch on them; the HTTP answers
// are decided by the ingress.
var (
	// ErrNoWorkers: no worker is registered for the leg and model.
	ErrNoWorkers = errors.New("no worker is registered")
	// ErrOverloaded: every registered worker is vetoed by overload protection.
	ErrOverloaded = errors.New("every worker is overloaded")
	// ErrUnavailable: workers are registered, but none can be chosen.
	ErrUnavailable = errors.New("no worker is available")
	// ErrDeclined: workers are available, but the policy chose none of them.
	ErrDeclined = errors.New("the policy chose no worker")
	// ErrFull: everybody who could be chosen has as many sequences as it may have, see
	// [Registry.Bound].
	ErrFull = errors.New("every worker has as many requests as it takes")
)

// Ask is what a pool needs to know to count a choice.
type Ask struct {
	Lease  LeaseID
	Tokens int64     // estimated prompt tokens, credited to the worker
	Key    uint64    // what the calls in flight are told apart by ([Scoped]), 0 for none
	Units  int       // sequences of the call, 0 for one
	Skip   []ID      // tried before; avoided while another candidate exists
	Fit    *Fit      // nobody else is chosen
	Now    time.Time // of the selection
}

// Taken is a counted choice, and what was known when it was made.
type Taken struct {
	Worker *Worker // as [View.Worker] tells it
	Tokens int64   // credited
	Probe  bool    // the worker's breaker is half open, the call probes it

	Candidates int     // that could be chosen, set along with ErrDeclined too
	Active     int     // calls in flight at the worker before this one
	Credit     int64   // tokens sent to the worker since its last report, before this call
	Report     *Report // of the worker, nil if it has said nothing that still holds
}

// Pool is what one policy chooses over: the workers of one (leg, model), or of a
// leg as a whole for requests that name no model. It is safe for concurrent use.
type Pool struct {
	leg      Leg
	model    string
	registry *Registry

	members int     // how many there are
	pending pending // what the set lacks; with members guarded by Registry.mu

	stale atomic.Bool // something is pending
	set   atomic.Pointer[Set]
	fresh atomic.Pointer[time.Time] // until then no report is stale, nil for ever
	first atomic.Bool

	mu     sync.Mutex // makes choosing, counting and crediting one step; before Registry.mu
	view   View       // scratch of Take
	looked time.Time  // when fresh was last taken from all reports
}

func newPool(leg Leg, model string, r *Registry) *Pool {
	p := &Pool{leg: leg, model: model, registry: r}
	p.set.Store(newSet(nil))
	return p
}

// Leg is the leg that the pool serves.
func (p *Pool) Leg() Leg { return p.leg }

// Model is the pool's model, "" for the pool of all workers of the leg.
func (p *Pool) Model() string { return p.model }

// Members is the pool's registered workers now.
func (p *Pool) Members() *Members { return p.current().members }

// Available is the number of workers that can be chosen now, half-open ones
// included.
func (p *Pool) Available() int { return len(p.current().available) }

// SetFirst says whether this replica ranks first for the pool ([PoolKey]). Only
// the first-ranked replica picks half-open workers; a new pool picks none.
func (p *Pool) SetFirst(first bool) { p.first.Store(first) }

// Take lets choose pick one of the pool's available workers and counts and
// credits the pick, all in one step. choose returns an index that the view
// admits, or a negative number to pick nobody; it must not keep the view. It is called
// again if whom it picked is full. The
// error is one of the Err values of this package.
func (p *Pool) Take(ask *Ask, choose func(*View) int) (Taken, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range mostTaken {
		i, err := p.choose(ask, choose)
		switch {
		case errors.Is(err, ErrDeclined):
			return Taken{Candidates: p.view.Candidates()}, err
		case err != nil:
			return Taken{}, err
		}
		w := p.view.Worker(i)
		t := Taken{
			Worker: w, Tokens: ask.Tokens, Probe: w.Record.Breaker == HalfOpen,
			Candidates: p.view.Candidates(), Active: w.Load.Active(), Credit: w.Load.Credit(), Report: p.view.Report(i),
		}
		l := Lease{ID: ask.Lease, Worker: w.Spec.ID, Tokens: ask.Tokens, Key: ask.Key, Probe: t.Probe, Units: ask.Units}
		if p.registry.fold.grant(l, w.Load, p.registry.bound(w.Load), ask.Now) {
			return t, nil
		}
	}
	return Taken{}, ErrFull
}

// mostTaken is how often the last room may be taken by another pool of the worker's
// between the choice and the count.
const mostTaken = 3

// Peek is Take without counting: for whoever counts elsewhere.
func (p *Pool) Peek(ask *Ask, choose func(*View) int) (*Worker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, err := p.choose(ask, choose)
	if err != nil {
		return nil, err
	}
	return p.view.Worker(i), nil
}

// choose runs a choice over the set of now and returns the index that came of it.
// p.mu is held.
func (p *Pool) choose(ask *Ask, choose func(*View) int) (int, error) {
	s := p.current()
	p.view.fold, p.view.now, p.view.checks = p.registry.fold, ask.Now, p.doubts(s, ask.Now)
	if !p.view.prepare(s, ask, p.first.Load(), p.registry.admit) {
		return -1, p.view.reason(ask.Fit)
	}
	i := choose(&p.view)
	switch {
	case i < 0:
		return -1, ErrDeclined
	case p.registry.bounded && !s.loads[i].fits(ask.rooms(), p.registry.bound(s.loads[i])):
		return p.chooseFree(ask, choose)
	}
	return i, nil
}

// lookEvery is how often at most the oldest of a pool's reports is looked for.
const lookEvery = time.Second

// doubts says whether a report of s may be stale at now. p.mu is held.
func (p *Pool) doubts(s *Set, now time.Time) bool {
	if p.isFresh(now) {
		return false
	}
	if !p.looked.IsZero() && now.Sub(p.looked) < lookEvery {
		return true
	}
	p.looked = now
	p.fresh.Store(nil) // before looking: a report that comes meanwhile is not lost
	var first *Report
	for _, l := range s.loads {
		if r := l.report.Load(); r != nil && (first == nil || r.until().Before(first.until())) {
			first = r
		}
	}
	p.expect(first)
	return !p.isFresh(now)
}

func (p *Pool) isFresh(now time.Time) bool {
	t := p.fresh.Load()
	return t == nil || !now.After(*t)
}

// expect notes when a report, if there is one, becomes stale.
func (p *Pool) expect(r *Report) {
	if r == nil {
		return
	}
	until := r.until()
	for {
		t := p.fresh.Load()
		if t != nil && !until.Before(*t) {
			return
		}
		if first := until; p.fresh.CompareAndSwap(t, &first) {
			return
		}
	}
}
