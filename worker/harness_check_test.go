package worker

import (
	"fmt"
	"slices"
	"time"
)

// live says whether a replica can be expected to know the truth.
func (h *harness) live(r *replicaNode) bool {
	return r.alive() && r.conn && !r.cut && h.now-r.stalled > lag
}

// checkSigns holds at any time.
func (h *harness) checkSigns(r *replicaNode) {
	for w, l := range r.loads {
		if l.Active() < 0 || l.Probes() < 0 || l.Credit() < 0 || l.Sent() < 0 || l.Keys() < 0 || l.Rooms() < l.Active() {
			h.violate("negative", "%s worker %d: active %d, rooms %d, probes %d, credit %d, sent %d, keys %d", r.name, w, l.Active(), l.Rooms(), l.Probes(), l.Credit(), l.Sent(), l.Keys())
		}
	}
}

// checkSums recounts a fold from its calls.
func (h *harness) checkSums(r *replicaNode) {
	type sums struct {
		active, rooms, probes, keyed, keys int
		granted, credit                    sum
	}
	got, want := map[ID]sums{}, map[ID]sums{}
	keys := map[ID]map[uint64]bool{}
	grants := 0
	for _, c := range r.fold.calls {
		s := want[c.load.id]
		s.active++
		s.rooms += 1 + int(c.extra)
		if c.key != 0 {
			s.keyed++
			if keys[c.load.id] == nil {
				keys[c.load.id] = map[uint64]bool{}
			}
			keys[c.load.id][c.key] = true
			s.keys = len(keys[c.load.id])
		}
		if c.probe {
			s.probes++
		}
		if c.stream == nil {
			s.granted = s.granted.plus(sum{1, c.tokens})
			grants++
		} else if c.stream.open[c.id.Quarter()][c.pos] != c {
			h.violate("lists", "%s: lease %v is not where it says", r.name, c.id)
		}
		want[c.load.id] = s
	}
	for id, l := range r.fold.loads {
		s := want[id]
		s.credit = s.granted
		for _, x := range l.ledger.slots {
			s.credit = s.credit.plus(x.sum)
		}
		want[id] = s
		keyed := 0
		for _, n := range l.sharing {
			keyed += n
		}
		got[id] = sums{l.Active(), l.Rooms(), l.Probes(), keyed, l.Keys(), l.granted, sum{l.Sent(), l.Credit()}}
	}
	for id := range want {
		if got[id] != want[id] {
			h.violate("sums", "%s worker %d: counters %+v, calls %+v", r.name, h.index(id), got[id], want[id])
		}
	}
	for c := r.fold.grants.next; c != &r.fold.grants; c = c.next {
		grants--
	}
	if grants != 0 {
		h.violate("lists", "%s: %d grants more than listed", r.name, grants)
	}
}

// check runs every 200 ms.
func (h *harness) check() {
	for w := range h.specs {
		h.ended[w] = slices.DeleteFunc(h.ended[w], func(t *truth) bool { return h.now-t.ended > lag })
	}
	for _, r := range h.reps {
		if r.up {
			h.checkSums(r)
		}
	}
	if !h.calm() {
		return
	}
	h.checkCounts("count")
	h.checkKeepers()
	h.checkHalfOpen()
	live, ready := 0, 0
	for _, r := range h.reps {
		if h.live(r) {
			live++
			if r.readiness.Ready() {
				ready++
			}
		}
	}
	if live > 0 && ready == 0 {
		h.violate("not-ready", "%d live replicas, none ready", live)
	}
}

// checkCounts compares every live replica's counts with the truth.
func (h *harness) checkCounts(kind string) {
	for _, r := range h.reps {
		if !h.live(r) {
			continue
		}
		grants, granted := make([]int, len(h.specs)), make([]int, len(h.specs)) // calls and rooms
		for c := r.fold.grants.next; c != &r.fold.grants; c = c.next {
			w := h.index(c.load.id)
			grants[w]++
			granted[w] += 1 + int(c.extra)
			if age := r.fold.clock - c.at; age > int64(60*ms) || age < 0 {
				h.violate("old-grant", "%s worker %d: grant %v is %.3f s old", r.name, w, c.id, time.Duration(age).Seconds())
			}
		}
		for w := range h.specs {
			young, rooms, youngRooms, endedRooms := 0, 0, 0, 0
			for _, t := range h.open[w] {
				rooms += t.rooms()
				if h.now-t.begun < lag {
					young++
					youngRooms += t.rooms()
				}
			}
			for _, t := range h.ended[w] {
				endedRooms += t.rooms()
			}
			if n := r.loads[w].Rooms(); n < rooms-youngRooms || n-granted[w] > rooms+endedRooms {
				h.violate(kind+"-rooms", "%s worker %d counts %d rooms (%d granted), truth %d", r.name, w, n, granted[w], rooms)
			}
			n, open := r.loads[w].Active(), len(h.open[w])
			if n < open-young || n-grants[w] > open+len(h.ended[w]) {
				h.violate(kind, "%s worker %d counts %d (%d grants), truth %d", r.name, w, n, grants[w], open)
			}
		}
	}
}

// checkCredit runs when a replica has installed a report polled at cut.
func (h *harness) checkCredit(r *replicaNode, w int, cut time.Duration) {
	if !h.calm() || cut < h.healBy || !r.readiness.Ready() || !h.live(r) {
		return
	}
	h.count["credit checks"]++
	const slack = lag + 90*ms // of the poll's answer and the record's way
	var lo, hi int64
	for _, t := range slices.Backward(h.history[w]) {
		if t.begun < cut-slack {
			break
		}
		hi += t.lease.Tokens
		if t.begun > cut+slack && t.begun < h.now-lag && !t.unreached {
			lo += t.lease.Tokens
		}
	}
	l := r.loads[w]
	hi += l.granted.tokens
	if c := l.Credit(); c < lo || c > hi {
		h.violate("credit", "%s worker %d: credit %d after a report polled %.3f s ago, truth is in [%d, %d]", r.name, w, c, (h.now - cut).Seconds(), lo, hi)
	}
}

// lasting says whether something odd has lasted longer than a handover may take:
// the old keeper stops and the new one starts at the tick after a beat.
func (h *harness) lasting(what string, odd bool) bool {
	if !odd {
		delete(h.odd, what)
		return false
	}
	if _, known := h.odd[what]; !known {
		h.odd[what] = h.now
	}
	return h.now-h.odd[what] > 500*ms
}

// checkKeepers wants one keeper for each worker, and everybody to know its record.
func (h *harness) checkKeepers() {
	for w, s := range h.specs {
		var keepers []*replicaNode
		ready := false
		for _, r := range h.reps {
			if r.up {
				ready = ready || r.readiness.Ready()
				if r.keepers[w].Active() {
					keepers = append(keepers, r)
				}
			}
		}
		if h.lasting(fmt.Sprint("keepers", w), ready && len(keepers) != 1) {
			h.violate("keepers", "worker %d has %d", w, len(keepers))
		}
		if len(keepers) != 1 {
			continue
		}
		rec := keepers[0].keepers[w].Record()
		same := func(n *node, got Record) {
			odd := n.alive() && (got.Term != rec.Term || got.Keeper != rec.Keeper || got.Status != Ready)
			if h.lasting(fmt.Sprint("record", w, n.name), odd) {
				h.violate("record", "%s holds term %d of worker %d as %v, its keeper %s is in term %d", n.name, got.Term, w, got.Status, keepers[0].name, rec.Term)
			}
		}
		for _, r := range h.reps {
			if r.up {
				got, _ := r.registry.Record(s.ID)
				same(r.node, got)
			}
		}
		for _, g := range h.ings {
			same(g.node, g.records[w])
		}
	}
}

// checkHalfOpen wants half-open workers to be probed, by a few calls at a time.
func (h *harness) checkHalfOpen() {
	admit := harnessKeeperConfig().Breaker.SuccessThreshold
	for w, s := range h.specs {
		n := 0
		for _, t := range h.open[w] {
			if t.probing && t.begun > h.healBy {
				n++
			}
		}
		if n > admit*len(s.Models) {
			h.violate("probes", "worker %d has %d probes, %d allowed", w, n, admit)
		}
		from := max(h.halfBy[w], h.healBy, h.probed[w])
		if h.traffic && h.halfBy[w] > 0 && h.probed[w] < h.halfBy[w] && h.now-from > 4*time.Second && (h.ings[0].alive() || h.ings[1].alive()) {
			h.violate("half-open", "worker %d is half open for %.1f s without a probe", w, (h.now - h.halfBy[w]).Seconds())
		}
		if h.badUntil[w] > h.now && h.fails[w] > 25 && h.traffic {
			for _, r := range h.reps {
				if k := r.keepers[w]; h.live(r) && k.Active() && k.Record().Breaker == Closed {
					h.violate("breaker", "worker %d failed %d calls in a row, its keeper %s says closed", w, h.fails[w], r.name)
				}
			}
		}
	}
}

// checkRest runs when every call has ended and a report has come since.
func (h *harness) checkRest() {
	h.checkCounts("rest-count")
	for _, r := range h.reps {
		if !h.live(r) {
			continue
		}
		if n := len(r.fold.calls); n != 0 {
			h.violate("rest-calls", "%s holds %d calls at rest", r.name, n)
		}
		for w, l := range r.loads {
			if l.Active() != 0 || l.Rooms() != 0 || l.Probes() != 0 || r.readiness.Ready() && l.Credit() != 0 {
				h.violate("rest", "%s worker %d at rest: active %d, probes %d, credit %d", r.name, w, l.Active(), l.Probes(), l.Credit())
			}
		}
	}
}
