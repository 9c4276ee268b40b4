package worker

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	propertySeeds = flag.Uint64("fold.seeds", 0, "run the property test with this many seeds instead of the usual number")
	propertyFrom  = flag.Uint64("fold.from", 1, "first seed of the property test")
)

// fault is something that happens to a node, or to the link from it to another.
type fault struct {
	kind string
	at   time.Duration
	last time.Duration
	node int
	peer int
	p    float64
	lag  time.Duration
}

func (f fault) String() string {
	name := func(i int) string {
		if i < 2 {
			return fmt.Sprintf("I%d", i)
		}
		return fmt.Sprintf("R%d", i-2)
	}
	where := name(f.node)
	switch f.kind {
	case "link":
		where += "->" + name(f.peer)
	case "bus":
		where = "all"
	}
	return fmt.Sprintf("%s %s at %.2f s for %.2f s", f.kind, where, f.at.Seconds(), f.last.Seconds())
}

const (
	forEver   = 1000 * time.Second
	trafficTo = 30 * time.Second
)

func faultsOf(seed uint64) []fault {
	r := rand.New(rand.NewPCG(seed, 4))
	kinds := []string{"crash", "crash", "pause", "pause", "loss", "slow", "double", "cut", "disconnect", "link", "bus"}
	var fs []fault
	for range 1 + r.IntN(6) {
		longest := 9 * time.Second
		if r.IntN(2) == 0 {
			longest = 2 * time.Second
		}
		f := fault{
			kind: kinds[r.IntN(len(kinds))],
			at:   6*time.Second + time.Duration(r.Int64N(int64(10*time.Second))),
			last: 50*ms + time.Duration(r.Int64N(int64(longest))),
			node: r.IntN(5), peer: r.IntN(5),
			p:   0.05 + r.Float64()*0.5,
			lag: 10*ms + time.Duration(r.Int64N(int64(1500*ms))),
		}
		if f.kind == "crash" && r.IntN(5) == 0 {
			f.last = forEver
		}
		fs = append(fs, f)
	}
	slices.SortFunc(fs, func(a, b fault) int { return int(a.at - b.at) })
	return fs
}

// inject lets a fault happen.
func (h *harness) inject(f fault) {
	n, peer := h.nodes[f.node], h.nodes[f.peer]
	until := func(undo func()) {
		h.note("fault: %v", f)
		h.faulty++
		h.after(f.last, func() {
			h.faulty--
			h.heal(h.now)
			undo()
			h.heal(h.now)
			h.note("over: %v", f)
		})
	}
	switch f.kind {
	case "crash":
		h.crash(f, until)
	case "pause":
		if n.alive() {
			n.pause()
			g := n.generation
			until(func() {
				if n.generation == g {
					n.resume()
					h.heal(h.now + 450*ms)
				}
			})
		}
	case "loss":
		n.loss += (1 - n.loss) * f.p
		until(func() { n.loss = 0 })
	case "slow":
		n.delay += f.lag
		n.mix += 0.1
		until(func() { n.delay, n.mix = 0, 0 })
	case "double":
		n.dup += 0.3
		until(func() { n.dup = 0 })
	case "cut":
		n.cut = true
		until(func() { n.cut = false })
	case "disconnect":
		if n.up && n.conn {
			n.disconnect()
			g := n.generation
			until(func() { n.reconnect(g) })
		}
	case "link":
		if n != peer {
			h.cuts[[2]*node{n, peer}] = true
			until(func() { delete(h.cuts, [2]*node{n, peer}) })
		}
	case "bus":
		h.bus(until)
	}
}

func (h *harness) crash(f fault, until func(func())) {
	n := h.nodes[f.node]
	if !n.up {
		return
	}
	h.heal(h.now + time.Second)
	boot := func() { h.reps[f.node-2].boot() }
	if f.node < 2 {
		g := h.ings[f.node]
		g.crash()
		boot = g.boot
	} else {
		n.die()
	}
	if f.last == forEver {
		h.note("fault: %v", f)
		return
	}
	until(boot)
}

func (h *harness) bus(until func(func())) {
	if h.busDown {
		return
	}
	h.busDown = true
	for _, n := range h.nodes {
		if n.up && n.conn {
			n.disconnect()
		}
	}
	until(func() {
		h.busDown = false
		h.heal(h.now + 500*ms)
		for _, n := range h.nodes {
			g := n.generation
			h.after(h.uniform(h.pr, 500*ms), func() { n.reconnect(g) })
		}
	})
}

// run plays the whole story: traffic with faults, calm, then the end of all calls.
func (h *harness) run() {
	for _, r := range h.reps {
		r.boot()
		var stall func() // garbage collection, a busy core: no fault
		stall = func() {
			if r.alive() && h.now < trafficTo {
				r.pause()
				g := r.generation
				h.after(20*ms+h.uniform(h.pr, 60*ms), func() {
					if r.generation == g {
						r.stalled = h.now
						r.resume()
					}
				})
			}
			h.after(time.Duration(h.pr.ExpFloat64()*float64(2*time.Second)), stall)
		}
		h.after(h.uniform(h.pr, 2*time.Second), stall)
	}
	for _, g := range h.ings {
		g.boot()
	}
	for _, f := range h.faults {
		h.after(f.at, func() { h.inject(f) })
	}
	for t := 7 * time.Second; t < trafficTo-8*time.Second; t += 3 * time.Second {
		if h.pr.IntN(2) == 0 {
			w, d := h.pr.IntN(len(h.specs)), 2*time.Second+h.uniform(h.pr, 6*time.Second)
			h.after(t, func() {
				if h.badUntil[w] < h.now {
					h.fails[w] = 0
					h.badUntil[w] = h.now + d
					h.note("worker %d is bad for %.1f s", w, d.Seconds())
				}
			})
		}
	}
	var check func()
	check = func() { h.check(); h.after(200*ms, check) }
	check()
	h.after(trafficTo, func() { h.traffic = false })
	done := false
	var end func()
	end = func() {
		if h.now < h.healBy+20*ms {
			h.after(h.healBy+20*ms-h.now, end)
			return
		}
		h.checkCounts("long-open")
		for _, g := range h.ings {
			if g.alive() {
				for _, t := range sortedTruths(g.open) {
					g.end(t, false)
				}
			}
		}
		h.after(5*time.Second, func() {
			h.checkRest()
			done = true
		})
	}
	h.after(trafficTo+5*time.Second+20*ms, end)
	for !done && len(h.violations) == 0 {
		e := h.queue.pop()
		h.now = e.at
		e.do()
	}
}

func play(o options) *harness {
	h := newHarness(o)
	h.run()
	return h
}

// shrink drops faults as long as the same kind of violation is left.
func shrink(o options) *harness {
	kind := func(h *harness) string {
		if len(h.violations) == 0 {
			return ""
		}
		k, _, _ := strings.Cut(h.violations[0], ":")
		return k
	}
	want := kind(play(o))
	for i := 0; i < len(o.faults); {
		less := o
		less.faults = slices.Delete(slices.Clone(o.faults), i, i+1)
		if kind(play(less)) == want {
			o = less
		} else {
			i++
		}
	}
	o.trace = true
	return play(o)
}

// playAll plays seeds until the first violation and returns its seed, or 0.
func playAll(from, n uint64, m mutation) (uint64, map[string]int) {
	total := map[string]int{}
	var mu sync.Mutex
	next, failed := from, uint64(0)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				stop := failed != 0 || seed >= from+n
				mu.Unlock()
				if stop {
					return
				}
				h := play(options{seed: seed, faults: faultsOf(seed), mutation: m})
				mu.Lock()
				for what, n := range h.count {
					total[what] += n
				}
				if len(h.violations) > 0 && (failed == 0 || seed < failed) {
					failed = seed
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed, total
}

// TestFoldProperty runs 3 replicas and 2 ingresses over a faulty bus against the
// truth: within 5 s of the last fault counts are exact; they are never negative and
// count nobody and no unit twice; at rest no grant and no credit is left; half-open workers do
// not get stuck; each worker has one keeper. -fold.seeds runs more of them.
func TestFoldProperty(t *testing.T) {
	n := uint64(200)
	switch {
	case testing.Short():
		n = 20
	case raceEnabled:
		n = 50
	}
	if *propertySeeds > 0 {
		n = *propertySeeds
	}
	seed, total := playAll(*propertyFrom, n, mutation{})
	t.Logf("over %d seeds: %v", n, total)
	if seed == 0 {
		for _, what := range []string{"requests", "hedges", "late replies", "degraded", "probes", "takeovers", "breaker changes", "late loops", "credit checks", "batches"} {
			if total[what] == 0 {
				t.Errorf("no %s in any run", what)
			}
		}
		return
	}
	h := shrink(options{seed: seed, faults: faultsOf(seed)})
	tail := h.log[max(0, len(h.log)-60):]
	t.Fatalf("seed %d, faults %v:\n%s\n\ntrace:\n%s", seed, h.faults, h.report(), strings.Join(tail, "\n"))
}

// TestFoldPropertyNotices breaks one rule at a time: the property test must see it.
func TestFoldPropertyNotices(t *testing.T) {
	cases := []struct {
		name string
		mutation
	}{
		{"grants_live_for_ever", mutation{grantsLive: true}},
		{"eighths_instead_of_quarters", mutation{eighths: true}},
		{"half_open_capped_by_plain_count", mutation{countProbes: true}},
		{"silent_ingresses_keep_their_leases", mutation{deafSilence: true}},
		{"short_calls_only_end", mutation{splitWhole: true}},
		{"lower_records_are_not_answered", mutation{plainTerm: true}},
		{"reports_have_no_age", mutation{ageless: true}},
		{"unreached_calls_keep_their_credit", mutation{keepBack: true}},
		{"beats_say_nothing_of_units", mutation{unitless: true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			seed, _ := playAll(1, 200, c.mutation)
			if seed == 0 {
				t.Fatal("no violation found")
			}
			if !testing.Verbose() {
				return
			}
			h := shrink(options{seed: seed, faults: faultsOf(seed), mutation: c.mutation})
			t.Logf("seed %d, faults %v: %s", seed, h.faults, h.violations[0])
		})
	}
}
