package worker

import (
	"slices"
	"time"
)

// replicaNode is a selector replica: it folds, picks, and keeps.
type replicaNode struct {
	*node
	self      ReplicaID
	fold      *Fold
	registry  *Registry
	ranking   *Ranking
	readiness *Readiness
	loop      Loop
	keepers   []*Keeper
	loads     []*Load
	events    []Event
	booted    time.Duration
	stalled   time.Duration // when the last ordinary stall ended
	snapshot  int           // number of the last one asked for
	primed    bool          // a snapshot came, or nobody answered
}

const pollInterval = 2 * time.Second

func harnessKeeperConfig() KeeperConfig {
	c := DefaultKeeperConfig()
	c.Health.Interval = pollInterval
	c.Breaker = BreakerConfig{FailureThreshold: 4, SuccessThreshold: 2, Timeout: 3 * time.Second, Window: time.Minute}
	return c
}

func (r *replicaNode) boot() {
	h := r.h
	r.node.boot()
	h.names++
	r.self = ReplicaID(h.pr.Uint64())
	r.fold, r.ranking, r.readiness, r.loop = NewFold(), NewRanking(), NewReadiness(Settle), Loop{}
	r.registry = NewRegistry(r.fold, harnessKeeperConfig().Breaker.SuccessThreshold)
	r.registry.Put(h.specs...)
	r.keepers, r.loads = nil, nil
	for _, s := range h.specs {
		r.keepers = append(r.keepers, NewKeeper(s.ID, r.self, harnessKeeperConfig()))
		r.loads = append(r.loads, r.registry.Lookup(s.ID).Load)
	}
	r.booted, r.primed = h.now, false
	r.connected = func() {
		r.fold.Reconnected(h.clock())
		r.ranking.Reconnected(h.clock())
		r.readiness.Connected(h.clock())
		r.askSnapshot()
	}
	r.disconnected = func() {
		r.fold.Disconnected()
		r.readiness.Disconnected()
	}
	if r.conn {
		r.readiness.Connected(h.clock())
		r.askSnapshot()
	} else {
		r.fold.Disconnected()
	}
	r.every(250*ms, 250*ms, r.tick)
	r.every(h.uniform(h.pr, BeatInterval), BeatInterval, r.beat)
	r.every(h.uniform(h.pr, pollInterval), pollInterval, r.poll)
}

func (r *replicaNode) tick() {
	h, now := r.h, r.h.clock()
	late := r.loop.Late(now, 250*ms)
	if late {
		h.count["late loops"]++
	}
	was := r.readiness.Ready()
	if r.readiness.Tick(now, r.primed && r.fold.Complete()) && !was {
		h.note("%s is ready after %.2f s", r.name, (h.now - r.booted).Seconds())
	}
	r.ranking.Tick(now, late)
	r.tickFold(now, late)
	for p := range r.registry.Pools {
		first, ok := r.ranking.First(PoolKey(p.Leg(), p.Model()))
		p.SetFirst(ok && first == r.self)
	}
	for i, k := range r.keepers {
		first, ok := r.ranking.First(WorkerKey(h.specs[i].ID))
		was := k.Active()
		r.publish(k.Tick(ok && first == r.self && r.readiness.Ready(), now))
		if k.Active() && !was {
			h.count["takeovers"]++
			h.note("%s keeps worker %d in term %d", r.name, i, k.Record().Term)
			r.pollOne(k)
		}
		if epoch, due := k.ProbeDue(now); due {
			r.later(ms+h.uniform(h.nr, 20*ms), func() { r.publish(k.Probe(epoch, true, h.clock())) })
		}
	}
}

func (r *replicaNode) tickFold(now time.Time, late bool) {
	at := map[*call]int64{}
	if r.h.grantsLive {
		for c := r.fold.grants.next; c != &r.fold.grants; c = c.next {
			at[c] = c.at
			c.at = r.fold.clock
		}
	}
	r.fold.Tick(now, late || r.h.deafSilence)
	for c, t := range at {
		c.at = t
	}
}

func (r *replicaNode) beat() {
	b := ReplicaBeat{Replica: r.self, Ready: r.readiness.Ready()}
	for _, o := range r.h.reps {
		r.h.send(r.node, o.node, states, func() { o.ranking.Apply(b, o.h.clock()) })
	}
	for _, g := range r.h.ings {
		r.h.send(r.node, g.node, states, func() { g.ranking.Apply(b, g.h.clock()) })
	}
}

func (r *replicaNode) poll() {
	for _, k := range r.keepers {
		if k.Active() {
			r.pollOne(k)
		}
	}
}

func (r *replicaNode) pollOne(k *Keeper) {
	sent := r.h.clock()
	answer := ms + r.h.uniform(r.h.nr, 40*ms)
	if r.h.nr.IntN(8) == 0 {
		answer += r.h.uniform(r.h.nr, 800*ms)
	}
	r.later(answer, func() {
		r.publish(k.Report(&Report{PolledAt: sent}, false, r.h.clock()))
	})
}

// publish puts a record on the bus and installs it here.
func (r *replicaNode) publish(rec Record, due bool) {
	if !due {
		return
	}
	r.install(rec)
	r.h.broadcast(r.node, rec)
}

// broadcast is what a process does with a record that it writes or answers with.
func (h *harness) broadcast(from *node, rec Record) {
	sent := h.clock()
	for _, o := range h.reps {
		h.send(from, o.node, states, func() { o.hear(aged(rec, h.clock().Sub(sent))) })
	}
	for _, g := range h.ings {
		h.send(from, g.node, states, func() { g.hear(aged(rec, h.clock().Sub(sent))) })
	}
}

// aged is a record as the other side sees it: ages travel, so the time on the way
// is lost.
func aged(rec Record, travel time.Duration) Record {
	rec.BreakerSince = rec.BreakerSince.Add(travel)
	if rec.Report != nil {
		rec.Report = &Report{PolledAt: rec.Report.PolledAt.Add(travel)}
	}
	return rec
}

func (r *replicaNode) hear(rec Record) {
	r.install(rec)
	held, answer := r.keepers[r.h.index(rec.Worker)].Hear(rec)
	if answer && !r.h.plainTerm {
		r.h.broadcast(r.node, held)
	}
}

func (r *replicaNode) install(rec Record) {
	h := r.h
	w := h.index(rec.Worker)
	old, _ := r.registry.Record(rec.Worker)
	cut := h.now
	if rec.Report != nil {
		cut = rec.Report.PolledAt.Sub(harnessStart)
	}
	if h.ageless && rec.Report != nil {
		rec.Report = &Report{PolledAt: h.clock()}
	}
	held, changed := r.registry.Install(rec)
	if !changed {
		return
	}
	if held.Breaker != old.Breaker {
		h.count["breaker changes"]++
		h.note("%s: worker %d is %v (term %d seq %d)", r.name, w, held.Breaker, held.Term, held.Seq)
	}
	switch {
	case held.Breaker != HalfOpen:
		h.halfBy[w] = 0
	case h.halfBy[w] == 0:
		h.halfBy[w] = h.now
	}
	if held.Report != nil && (old.Report == nil || old.Report.PolledAt.Before(held.Report.PolledAt)) {
		h.checkCredit(r, w, cut)
	}
}

// askSnapshot asks everybody for their records; after 300 ms its own copy serves.
func (r *replicaNode) askSnapshot() {
	r.snapshot++
	n, g := r.snapshot, r.generation
	ask := func(o *node, records func() []Record) {
		r.h.send(r.node, o, states, func() {
			sent := r.h.clock()
			recs := slices.DeleteFunc(records(), func(rec Record) bool { return rec.Term == 0 })
			if len(recs) == 0 {
				return
			}
			r.h.send(o, r.node, states, func() {
				if r.generation != g {
					return
				}
				for _, rec := range recs {
					r.hear(aged(rec, r.h.clock().Sub(sent)))
				}
				r.primed = true
			})
		})
	}
	for _, o := range r.h.reps {
		if o != r {
			ask(o.node, func() (recs []Record) {
				for _, k := range o.keepers {
					recs = append(recs, k.Record())
				}
				return recs
			})
		}
	}
	for _, o := range r.h.ings {
		ask(o.node, func() []Record { return slices.Clone(o.records) })
	}
	r.later(300*ms, func() {
		if n == r.snapshot {
			r.primed = true
		}
	})
}

func (r *replicaNode) fold1(b Batch) {
	h := r.h
	if h.keepBack {
		for i := range b.Entries {
			if b.Entries[i].Kind == EntryEnd {
				b.Entries[i].Unreached = false
			}
		}
	}
	r.events = r.fold.Apply(&b, h.clock(), r.events[:0])
	for _, e := range r.events {
		if e.Worker != (ID{}) {
			r.publish(r.keepers[h.index(e.Worker)].Outcome(e, h.clock()))
		}
	}
	h.checkSigns(r)
}

func (r *replicaNode) answer(q query, give func(answer)) {
	h := r.h
	a := answer{lease: q.lease, replica: r.self, worker: -1, notReady: !r.readiness.Ready()}
	if p := r.registry.Pool(Regular, modelName(q.model)); !a.notReady && p != nil {
		t, err := p.Take(&Ask{Lease: q.lease, Tokens: q.tokens, Key: q.key, Units: q.units, Now: h.clock()}, func(v *View) int {
			best := -1
			for k := range v.Candidates() {
				i := v.Candidate(k)
				w := v.Worker(i)
				if w.Record.Breaker == HalfOpen {
					if !h.countProbes {
						return i
					}
					if w.Load.Active() < p.registry.admit {
						return i
					}
					continue
				}
				if best < 0 || w.Load.Active() < v.Worker(best).Load.Active() {
					best = i
				}
			}
			return best
		})
		if err == nil {
			a.worker, a.probe = h.index(t.Worker.Spec.ID), t.Probe
		}
		h.checkSigns(r)
	}
	h.send(r.node, q.from.node, replies, func() {
		if q.from.generation == q.generation {
			give(a)
		}
	})
}
