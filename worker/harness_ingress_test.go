package worker

import (
	"slices"
	"time"
)

// ingressNode is an ingress: it asks, hedges, falls back on its copy of the
// records, and writes its lease stream.
type ingressNode struct {
	*node
	incarnation uint64
	plans       *Plans
	writer      *LeaseWriter
	ranking     *Ranking
	shunned     *Exclusion
	loop        Loop
	records     []Record
	waiting     map[LeaseID]*plan
	open        map[LeaseID]*truth
}

type plan struct {
	id     LeaseID
	model  int
	key    uint64
	tokens int64
	units  int
	asked  []ReplicaID
}

// query is a select on the bus.
type query struct {
	from       *ingressNode
	generation int
	lease      LeaseID
	model      int
	tokens     int64
	key        uint64
	units      int
}

type answer struct {
	lease    LeaseID
	replica  ReplicaID
	worker   int // -1: refused
	probe    bool
	notReady bool
}

func (g *ingressNode) boot() {
	h := g.h
	g.node.boot()
	h.names++
	g.incarnation = uint64(h.now) + h.names
	g.plans = NewPlans(g.incarnation)
	g.writer = NewLeaseWriter(g.name, g.incarnation, Regular)
	g.ranking, g.shunned, g.loop = NewRanking(), NewExclusion(), Loop{}
	g.records = make([]Record, len(h.specs))
	g.waiting, g.open = map[LeaseID]*plan{}, map[LeaseID]*truth{}
	g.connected = func() {
		g.ranking.Reconnected(h.clock())
		g.beat()
	}
	g.disconnected = func() {}
	g.every(250*ms, 250*ms, func() {
		g.ranking.Tick(h.clock(), g.loop.Late(h.clock(), 250*ms))
	})
	g.every(h.uniform(h.pr, 250*ms), BeatInterval, g.beat)
	var next func()
	next = func() {
		if h.traffic {
			h.count["requests"]++
			g.request()
		}
		g.later(time.Duration(h.tr.ExpFloat64()*float64(80*ms)), next)
	}
	g.later(h.uniform(h.tr, 100*ms), next)
}

func (g *ingressNode) crash() {
	for _, t := range sortedTruths(g.open) {
		g.h.close(t)
	}
	g.die()
}

func sortedTruths(m map[LeaseID]*truth) []*truth {
	ts := make([]*truth, 0, len(m))
	for _, t := range m {
		ts = append(ts, t)
	}
	slices.SortFunc(ts, func(a, b *truth) int { return int(a.lease.ID.Plan) - int(b.lease.ID.Plan) })
	return ts
}

func (h *harness) close(t *truth) {
	t.ended = h.now
	h.open[t.worker] = slices.DeleteFunc(h.open[t.worker], func(o *truth) bool { return o == t })
	h.ended[t.worker] = append(h.ended[t.worker], t)
}

func (g *ingressNode) request() {
	h := g.h
	p := &plan{
		id:     g.plans.Lease(g.plans.Next(), Regular, 0),
		model:  h.tr.IntN(models),
		tokens: 1 + h.tr.Int64N(4000),
	}
	if h.tr.IntN(4) == 0 {
		p.units = 1 + h.tr.IntN(8)
	}
	p.key = PoolKey(Regular, modelName(p.model))
	if h.tr.IntN(100) < 40 {
		p.key = HashKey(string(rune('a' + h.tr.IntN(12)))).Short
	}
	g.waiting[p.id] = p
	if !g.askNext(p) {
		g.degraded(p)
		return
	}
	g.later(25*ms, func() {
		if g.waiting[p.id] == p && len(p.asked) == 1 {
			h.count["hedges"]++
			g.askNext(p)
		}
	})
	g.later(200*ms, func() {
		if g.waiting[p.id] == p {
			g.degraded(p)
		}
	})
	if h.tr.IntN(100) < 3 { // the client leaves
		g.later(h.uniform(h.tr, 30*ms), func() { delete(g.waiting, p.id) })
	}
}

// askNext asks the best replica that was not asked yet.
func (g *ingressNode) askNext(p *plan) bool {
	h := g.h
	for _, id := range g.ranking.Rank(p.key, nil) {
		if g.shunned.Excluded(id, h.clock()) || slices.Contains(p.asked, id) || !g.conn {
			continue
		}
		p.asked = append(p.asked, id)
		sent, answered := h.clock(), false
		q := query{from: g, generation: g.generation, lease: p.id, model: p.model, tokens: p.tokens, key: p.counted(), units: p.units}
		for _, r := range h.reps {
			if r.self == id {
				h.send(g.node, r.node, selects, func() {
					r.answer(q, func(a answer) {
						answered = true
						g.reply(p, a)
					})
				})
			}
		}
		g.later(200*ms, func() {
			if answered {
				g.shunned.Answered(id)
			} else if g.shunned.TimedOut(id, sent, h.clock()) {
				h.note("%s leaves %x alone", g.name, id)
			}
		})
		return true
	}
	return false
}

func (g *ingressNode) reply(p *plan, a answer) {
	h := g.h
	if g.waiting[p.id] != p {
		if a.worker >= 0 {
			h.count["late replies"]++
			g.wake(g.writer.LateReply(a.lease))
		}
		return
	}
	switch {
	case a.notReady:
		g.askNext(p) // else degraded at 200 ms
		return
	case a.worker < 0:
		delete(g.waiting, p.id)
		return
	}
	delete(g.waiting, p.id)
	if h.tr.IntN(100) < 3 { // another leg refused
		g.wake(g.writer.LateReply(a.lease))
		return
	}
	g.begin(p, a.worker, a.probe)
}

func (g *ingressNode) degraded(p *plan) {
	delete(g.waiting, p.id)
	best := -1
	for range 2 {
		w := g.h.tr.IntN(len(g.h.specs))
		if (poolKey{Regular, modelName(p.model)}).has(g.h.specs[w]) && g.records[w].Available() && g.records[w].Breaker == Closed &&
			(best < 0 || g.writer.Active(g.h.specs[w].ID) < g.writer.Active(g.h.specs[best].ID)) {
			best = w
		}
	}
	if best >= 0 {
		g.h.count["degraded"]++
		g.begin(p, best, false)
	}
}

// counted is what some of the plans' calls are told apart by.
func (p *plan) counted() uint64 { return p.key % 16 }

// has says whether a worker belongs to a pool.
func (k poolKey) has(s *Spec) bool { return slices.Contains(keysOf(s), k) }

func (g *ingressNode) begin(p *plan, w int, probe bool) {
	h := g.h
	life, bad := g.life(w)
	t := &truth{lease: Lease{ID: p.id, Worker: h.specs[w].ID, Tokens: p.tokens, Key: p.counted(), Probe: probe, Units: p.units}, worker: w, begun: h.now, probing: probe}
	if p.units > 1 {
		h.count["batches"]++
	}
	g.open[p.id] = t
	h.open[w] = append(h.open[w], t)
	h.history[w] = append(h.history[w], t)
	if probe {
		h.count["probes"]++
		h.probed[w] = h.now
	}
	g.wake(g.writer.Begin(t.lease))
	if !bad && life > 40*ms {
		g.later(40*ms, func() {
			if g.open[p.id] == t {
				t.probing = false
				g.wake(g.writer.Head(p.id))
			}
		})
	}
	g.later(life, func() { g.end(t, bad) })
}

// life is how long a call takes and whether it fails.
func (g *ingressNode) life(w int) (time.Duration, bool) {
	h := g.h
	if h.badUntil[w] > h.now {
		return 100*time.Microsecond + h.uniform(h.tr, 600*time.Microsecond), true
	}
	switch x := h.tr.IntN(100); {
	case x < 30:
		return 50*time.Microsecond + h.uniform(h.tr, 900*time.Microsecond), false
	case x < 60:
		return 5*ms + h.uniform(h.tr, 100*ms), false
	case x < 85:
		return 100*ms + h.uniform(h.tr, 3*time.Second), false
	}
	return 10*time.Second + h.uniform(h.tr, 290*time.Second), false
}

func (g *ingressNode) end(t *truth, bad bool) {
	if g.open[t.lease.ID] != t {
		return
	}
	delete(g.open, t.lease.ID)
	outcome := Success
	switch {
	case bad:
		outcome = Failure
		g.h.fails[t.worker]++
		t.unreached = g.h.tr.IntN(2) == 0
	case g.h.tr.IntN(20) == 0:
		outcome = Neutral
	}
	g.h.close(t)
	g.wake(g.writer.End(t.lease.ID, outcome, t.unreached))
}

func (g *ingressNode) wake(w Wake) {
	switch w {
	case WakeSoon:
		g.later(BatchDelay, g.flush)
	case WakeNow:
		g.flush()
	}
}

func (g *ingressNode) flush() {
	if b, ok := g.writer.Flush(); ok {
		g.publish(b)
	}
}

func (g *ingressNode) beat() {
	b := g.writer.Beat()
	if g.h.eighths && b.Beat.Quarter%2 == uint8(g.writer.beats/Quarters)%2 {
		b.Beat = nil // every other time round
	}
	g.publish(b)
}

func (g *ingressNode) publish(b Batch) {
	b.Entries = slices.Clone(b.Entries)
	if b.Beat != nil {
		beat := *b.Beat
		beat.Renewed = slices.Clone(beat.Renewed)
		for i := range beat.Renewed {
			if g.h.unitless {
				beat.Renewed[i].Units = 0
			}
		}
		b.Beat = &beat
	}
	if g.h.splitWhole {
		for i, e := range b.Entries {
			if e.Kind == EntryWhole {
				b.Entries[i].Kind = EntryEnd
			}
		}
	}
	for _, r := range g.h.reps {
		g.h.send(g.node, r.node, streams, func() { r.fold1(b) })
	}
}

func (g *ingressNode) hear(rec Record) {
	w := g.h.index(rec.Worker)
	if held := g.records[w]; rec.Compare(held) > 0 {
		g.records[w] = rec
	} else if held.Corrects(rec) && !g.h.plainTerm {
		g.h.broadcast(g.node, held)
	}
}
