package policy

import (
	"errors"
	"log/slog"

	"smg/worker"
)

// stickyCap is how many calls of one key a worker has at a time before the next goes
// elsewhere.
const stickyCap = 2

// sticky keeps conversations where they began, on top of another policy. Requests
// without a key are the other policy's alone.
type sticky struct {
	inner Policy
	name  string // of inner
	pins  *pins
	// place chooses the worker of a key that has none, unless delegate: then inner
	// does.
	place    placer
	delegate bool
	mean     int64 // tokens of a request whose tokens are not known, as inner counts them
	counted  pinCounters
	logger   *slog.Logger
}

var (
	_ Policy     = (*sticky)(nil)
	_ Reader     = (*sticky)(nil)
	_ LoadReader = (*sticky)(nil)
)

// sticks says whether sticky sessions are something added to a policy. Two of them
// follow the key by themselves.
func sticks(name string) bool { return name != Manual && name != ConsistentHashing }

// newSticky is sticky sessions on top of the policy called name. What inner keeps of
// workers, leases and time is its own affair, and deps.pins that of their owner.
func newSticky(inner Policy, name string, cfg Config, deps Deps) (*sticky, error) {
	counted, err := newPinCounters(deps.Registerer)
	if err != nil {
		return nil, err
	}
	p := &sticky{
		inner: inner, name: name, pins: deps.pins, mean: meanTokens,
		place: placer{cfg.Sticky.Assignment, deps.IntN}, delegate: cfg.Sticky.Assignment == AssignDelegate,
		counted: counted, logger: deps.Logger,
	}
	if name == LeastLoad {
		p.mean = cfg.LeastLoad.MeanTokens
	}
	return p, nil
}

// Reads implements [Reader].
func (p *sticky) Reads() Inputs { return Reads(p.inner) | ReadsConversationKey }

// ReadsLoads implements [LoadReader].
func (p *sticky) ReadsLoads() bool { return ReadsLoads(p.inner) }

// Pick implements [Policy].
func (p *sticky) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	key := keyOf(pool, req.Keys.Sticky())
	if key.None() {
		return p.inner.Pick(req, pool)
	}
	d, err := p.pick(req, pool, key)
	if err != nil && !errors.Is(err, worker.ErrDeclined) {
		d.Branch = noHealthyWorkers
	}
	p.counted.add(&req.Keys, key, d.Branch)
	logPin(p.logger, p.name, pool.Model(), &req.Keys, key, &d)
	return d, err
}

// pick takes the key's worker, if it has one that can be chosen and is not at the
// cap, and finds it one otherwise.
func (p *sticky) pick(req *Request, pool *worker.Pool, key worker.PinKey) (d Decision, err error) {
	var f found
	asks := false // inner is to be asked
	ask := req.ask(p.mean)
	d.Taken, err = pool.Take(&ask, func(v *worker.View) int {
		f = p.pins.find(key, &ask, v)
		switch {
		case f.index < 0:
			d.Branch = f.branch()
		case v.Sharing(f.index, ask.Key) < stickyCap:
			d.Branch = occupiedHit
			return f.index
		default:
			d.Branch = capRespill
		}
		if asks = p.delegate; asks {
			return -1
		}
		i := p.place.in(v)
		p.pin(v, key, &f, i, v.Sharing(i, ask.Key), few.behind, &ask)
		return i
	})
	if !asks {
		return d, err
	}
	branch := d.Branch
	if d, err = p.inner.Pick(req, pool); err == nil {
		p.record(pool, key, &f, d.Worker.Spec.ID, &ask)
	}
	d.Branch = branch
	return d, err
}

// record pins the worker that inner chose and counted, unless the key's pin is no
// longer as it was found before: inner chooses under the pool's lock by itself, and
// of two first calls of a key that come at the same time the pin of the one who
// records first holds. The other call stays where it is counted.
func (p *sticky) record(pool *worker.Pool, key worker.PinKey, before *found, id worker.ID, ask *worker.Ask) {
	// Nobody is chosen, so what Peek returns says nothing.
	_, _ = pool.Peek(ask, func(v *worker.View) int {
		i := slot(v, id)
		if i < 0 {
			return -1 // gone this instant
		}
		f := p.pins.find(key, ask, v)
		if f.workers == before.workers && (f.index < 0) == (before.index < 0) {
			// This call is among those that are counted there.
			p.pin(v, key, &f, i, v.Sharing(i, ask.Key)-1, few.front, ask)
		}
		return -1
	})
}

// pin gives a key a worker that was chosen for it and has held others of its calls.
// One that stands in because the pin is at the cap takes the pin over only if it has
// room itself. Of a key without a pin add says where the worker goes.
func (p *sticky) pin(v *worker.View, key worker.PinKey, f *found, index, others int, add func(few, worker.ID) few, ask *worker.Ask) {
	id := v.Worker(index).Spec.ID
	switch {
	case f.index < 0:
		p.pins.put(key, f.placed(id, add), id, ask)
	case index != f.index && others < stickyCap:
		p.pins.put(key, f.workers.front(id), id, ask)
	}
}
