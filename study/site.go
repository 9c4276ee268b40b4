package study

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"smg/policy"
	"smg/sim"
	"smg/worker"
)

// ingress is one end of the lease stream.
type ingress struct {
	plans  *worker.Plans
	writer *worker.LeaseWriter
	heard  []*selector // who hears the stream
}

// selector is one replica of the leg's selector.
type selector struct {
	fold     *worker.Fold
	registry *worker.Registry
	pool     *worker.Pool
	policy   policy.Policy
	undo     func(worker.LeaseID)
	tick     func(time.Time)
	events   []worker.Event // scratch of apply
}

// newSelector is a replica without workers.
func newSelector(p policy.Policy) *selector {
	s := &selector{fold: worker.NewFold(), policy: p, undo: func(worker.LeaseID) {}, tick: func(time.Time) {}}
	s.registry = worker.NewRegistry(s.fold, probes)
	if u, ok := p.(policy.Undoer); ok {
		s.undo = u.Undo
	}
	if t, ok := p.(policy.Ticker); ok {
		s.tick = t.Tick
	}
	return s
}

// apply folds a batch, and takes back what the policy noted of calls that never got
// to their workers.
func (s *selector) apply(b *worker.Batch, now time.Time) {
	s.events = s.fold.Apply(b, now, s.events[:0])
	for _, e := range s.events {
		if e.Unreached {
			s.undo(e.Lease)
		}
	}
}

// tick is how often a replica does what time brings.
const tick = 250 * time.Millisecond

// probes is of no importance: no breaker opens in a run.
const probes = 3

func (r *run) join() error {
	for i := range r.cfg.Selectors {
		rng := rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)))
		p, err := r.contender.New(r.fleet, policy.Deps{IntN: rng.IntN})
		if err != nil {
			return err
		}
		s := newSelector(p)
		s.registry.Put(r.fleet.specs...)
		s.pool = s.registry.Pool(r.contender.Leg, model)
		r.selectors = append(r.selectors, s)
		r.ranking.Apply(worker.ReplicaBeat{Replica: worker.ReplicaID(i), Ready: true}, r.clock())
		r.every(share(tick, i, r.cfg.Selectors), tick, func() {
			s.fold.Tick(r.clock(), false)
			s.tick(r.clock())
		})
	}
	for i := range r.cfg.Ingresses {
		plans := worker.NewPlans(uint64(i + 1))
		in := &ingress{plans, worker.NewLeaseWriter("ingress-"+strconv.Itoa(i), plans.Incarnation(), r.contender.Leg), r.selectors}
		if r.cfg.Private {
			in.heard = r.selectors[i : i+1]
		}
		r.ingresses = append(r.ingresses, in)
		r.every(share(worker.BeatInterval, i, r.cfg.Ingresses), worker.BeatInterval, func() {
			b, more := in.writer.Beat(), true
			for more {
				r.send(in, b)
				b, more = in.writer.More()
			}
		})
	}
	if r.cfg.Private {
		for i, s := range r.selectors {
			s.pool.SetFirst(true)
			r.keep(share(r.cfg.Poll, i, len(r.selectors)), r.selectors[i:i+1])
		}
		return nil
	}
	if first, ok := r.ranking.First(worker.PoolKey(r.contender.Leg, model)); ok {
		r.selectors[first].pool.SetFirst(true)
	}
	r.keep(0, r.selectors)
	return nil
}

// share is the part of a period by which the i-th of n is behind the first.
func share(period time.Duration, i, n int) time.Duration {
	return period * time.Duration(i) / time.Duration(n)
}

// every does something each period, from first on.
func (r *run) every(first, period time.Duration, do func()) {
	r.agenda.add(first, func() {
		do()
		r.every(r.now+period, period, do)
	})
}

// keep starts a keeper for each worker, whom the given replicas hear: all are ready,
// and all are polled at the same instants.
func (r *run) keep(first time.Duration, heard []*selector) {
	cfg := worker.DefaultKeeperConfig()
	cfg.Health.Disabled = true
	keepers := make([]*worker.Keeper, len(r.fleet.specs))
	for i, spec := range r.fleet.specs {
		keeper := worker.NewKeeper(spec.ID, 0, cfg)
		keepers[i] = keeper
		rec, _ := keeper.Tick(true, r.clock())
		for _, s := range heard {
			s.registry.Install(rec)
		}
		r.every(first, r.cfg.Poll, func() {
			report := r.report(r.fleet.engines[i].Loads(r.now))
			r.agenda.add(r.now+r.cfg.Polled, func() {
				if rec, news := keeper.Report(report, false, r.clock()); news {
					r.install(heard, rec)
				}
			})
		})
	}
	r.every(tick, tick, func() {
		for _, keeper := range keepers {
			if rec, repeat := keeper.Tick(true, r.clock()); repeat {
				r.install(heard, rec)
			}
		}
	})
}

// reportLife is how many polls a report holds.
const reportLife = 3

// report is what a keeper makes of an engine's answer to a poll that it sends now.
func (r *run) report(l sim.Loads) *worker.Report {
	return &worker.Report{
		PolledAt: r.clock(), GoodFor: reportLife * r.cfg.Poll,
		Waiting: int64(l.Waiting), Queued: int64(l.WaitingUncachedTokens),
		Running: int64(l.Running), MaxRunning: int64(l.MaxRunning),
		Throughput: l.GenThroughput, KVUsage: l.KVUsage,
	}
}

// install brings a keeper's record to replicas.
func (r *run) install(to []*selector, rec worker.Record) {
	r.publish(to, func(s *selector) { s.registry.Install(rec) })
}

// wake flushes an ingress's stream when a new entry asks for it.
func (r *run) wake(in *ingress, w worker.Wake) {
	flush := func() {
		if b, some := in.writer.Flush(); some {
			r.send(in, b)
		}
	}
	switch w {
	case worker.WakeSoon:
		r.agenda.add(r.now+worker.BatchDelay, flush)
	case worker.WakeNow:
		flush()
	case worker.WakeNone:
	}
}

// send brings an ingress's batch to those who hear it.
func (r *run) send(in *ingress, b worker.Batch) {
	b = copied(b)
	r.publish(in.heard, func(s *selector) { s.apply(&b, r.clock()) })
}

// copied is a batch that outlives the writer's next one.
func copied(b worker.Batch) worker.Batch {
	b.Entries = slices.Clone(b.Entries)
	if b.Beat != nil {
		beat := *b.Beat
		beat.Renewed = slices.Clone(beat.Renewed)
		b.Beat = &beat
	}
	return b
}

// readsKeys are what policies read that go by keys.
const readsKeys = policy.ReadsKey | policy.ReadsPinnedKey | policy.ReadsConversationKey | policy.ReadsImplicitKey

// home is the replica that answers for request i.
func (r *run) home(i int, req *policy.Request) *selector {
	if r.cfg.Private {
		return r.selectors[i%len(r.selectors)]
	}
	key := worker.PoolKey(r.contender.Leg, model)
	if k := req.Keys.Any(); !k.None() && policy.Reads(r.selectors[0].policy)&readsKeys != 0 {
		key = k.Short
	}
	first, _ := r.ranking.First(key)
	return r.selectors[first]
}
