package worker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// The harness runs the whole protocol of leases, ranking and keepers in virtual
// time: real folds, writers, pools and keepers on nodes that crash and pause, over
// a bus that loses, doubles, reorders and delays. It is one goroutine and a pure
// function of its options.

var harnessStart = time.Unix(1_800_000_000, 0)

const (
	ms = time.Millisecond
	// lag is how far a replica may be behind an ingress in the calm: a batch waits
	// BatchDelay, and a message takes less than a millisecond.
	lag = 25 * ms
)

type happening struct {
	at time.Duration
	n  uint64
	do func()
}

// happenings is a heap. It is not container/heap, which would cost an allocation
// for each of the millions.
type happenings []happening

func (h happenings) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}

func (h *happenings) push(x happening) {
	*h = append(*h, x)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			return
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *happenings) pop() happening {
	q := *h
	x, last := q[0], len(q)-1
	q[0], q[last] = q[last], happening{}
	q = q[:last]
	*h = q
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < last && q.less(down+1, down) {
			down++
		}
		if down >= last || !q.less(down, i) {
			return x
		}
		q[i], q[down] = q[down], q[i]
		i = down
	}
}

// mutation breaks one rule, to show that the invariants notice.
type mutation struct {
	grantsLive  bool // grants do not expire
	eighths     bool // a lease is renewed by every eighth beat
	countProbes bool // half-open admission counts all calls, not only probes
	deafSilence bool // silent ingresses keep their leases
	splitWhole  bool // a call within a batch says only that it ended
	plainTerm   bool // a lower record is not answered
	ageless     bool // a report clears all credit
	keepBack    bool // unreached calls keep their credit
	unitless    bool // beats say nothing of units
}

type options struct {
	seed   uint64
	faults []fault
	mutation
	trace bool
}

// truth is one lease as it really is.
type truth struct {
	lease     Lease
	worker    int
	begun     time.Duration
	ended     time.Duration // 0: open
	unreached bool
	probing   bool // its head has not come
}

// rooms is how many the lease counts.
func (t *truth) rooms() int { return max(1, t.lease.Units) }

type harness struct {
	options
	now        time.Duration
	queue      happenings
	n          uint64
	tr, nr, pr *rand.Rand // traffic, network, processes

	ings    []*ingressNode
	reps    []*replicaNode
	nodes   []*node
	arrival map[[2]*node]time.Duration
	cuts    map[[2]*node]bool
	busDown bool
	names   uint64 // of incarnations and replicas

	specs    []*Spec
	badUntil []time.Duration
	fails    []int // in a row since the worker turned bad

	traffic bool
	faulty  int           // faults going on
	healBy  time.Duration // from here on the state must be right
	open    [][]*truth    // by worker
	ended   [][]*truth    // by worker, of the last lag
	history [][]*truth    // by worker, all
	halfBy  []time.Duration
	probed  []time.Duration
	odd     map[string]time.Duration

	count      map[string]int // what happened, so that a run proves something
	violations []string
	log        []string
}

const models = 2

func newHarness(o options) *harness {
	h := &harness{
		options: o, traffic: true, healBy: 6 * time.Second,
		tr:      rand.New(rand.NewPCG(o.seed, 1)),
		nr:      rand.New(rand.NewPCG(o.seed, 2)),
		pr:      rand.New(rand.NewPCG(o.seed, 3)),
		arrival: map[[2]*node]time.Duration{},
		count:   map[string]int{},
		odd:     map[string]time.Duration{},
		cuts:    map[[2]*node]bool{},
	}
	workers := 4 + h.pr.IntN(3)
	for i := range workers {
		url := fmt.Sprintf("http://w%d", i)
		s := &Spec{ID: IDOf(url), URL: url, RegisteredAt: harnessStart.Add(time.Duration(i) * time.Second)}
		s.Models = []Model{{ID: modelName(i % models)}}
		if i == workers-1 { // the last one serves both
			s.Models = []Model{{ID: modelName(0)}, {ID: modelName(1)}}
		}
		h.specs = append(h.specs, s)
	}
	h.badUntil = make([]time.Duration, workers)
	h.fails = make([]int, workers)
	h.open = make([][]*truth, workers)
	h.ended = make([][]*truth, workers)
	h.history = make([][]*truth, workers)
	h.halfBy = make([]time.Duration, workers)
	h.probed = make([]time.Duration, workers)
	for i := range 2 {
		g := &ingressNode{node: &node{h: h, name: fmt.Sprintf("I%d", i)}}
		h.nodes, h.ings = append(h.nodes, g.node), append(h.ings, g)
	}
	for i := range 3 {
		r := &replicaNode{node: &node{h: h, name: fmt.Sprintf("R%d", i)}}
		h.nodes, h.reps = append(h.nodes, r.node), append(h.reps, r)
	}
	return h
}

func modelName(i int) string { return fmt.Sprintf("m%d", i) }

func (h *harness) clock() time.Time { return harnessStart.Add(h.now) }

func (h *harness) after(d time.Duration, do func()) {
	h.n++
	h.queue.push(happening{h.now + d, h.n, do})
}

func (h *harness) note(format string, args ...any) {
	if h.trace {
		h.log = append(h.log, fmt.Sprintf("%9.4f  ", h.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// violate records a broken invariant. kind is stable over runs.
func (h *harness) violate(kind, format string, args ...any) {
	h.note("VIOLATION %s: "+format, append([]any{kind}, args...)...)
	if len(h.violations) < 20 {
		h.violations = append(h.violations, fmt.Sprintf("%s: t=%.3f ", kind, h.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// heal says that the state may be wrong until 5 s after t.
func (h *harness) heal(t time.Duration) { h.healBy = max(h.healBy, t+5*time.Second) }

func (h *harness) calm() bool { return h.faulty == 0 && h.now >= h.healBy }

// index is the worker with an id.
func (h *harness) index(id ID) int {
	for i, s := range h.specs {
		if s.ID == id {
			return i
		}
	}
	panic("unknown worker " + id.String())
}

func (h *harness) uniform(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(d)))
}

// Message classes: while a node is paused each is a queue of its own, as the
// subscriptions of a client are.
const (
	selects = iota
	streams
	states
	replies
	timers
	classes
)

// node is a process on the bus.
type node struct {
	h    *harness
	name string

	up, paused, conn bool
	generation       int
	cut              bool // messages vanish and nobody knows
	lost             bool // dropped by the server while it was paused
	loss, dup, mix   float64
	delay            time.Duration
	stopped          time.Duration // paused since
	patience         time.Duration // of the server with a paused client
	backlog          [classes][]func()

	connected, disconnected func()
}

func (n *node) alive() bool { return n.up && !n.paused }

// boot makes the node a new process.
func (n *node) boot() {
	n.generation++
	n.up, n.paused, n.lost, n.conn = true, false, false, !n.h.busDown
	n.backlog = [classes][]func(){}
}

func (n *node) die() {
	n.generation++
	n.up, n.paused, n.lost = false, false, false
	n.backlog = [classes][]func(){}
}

// run runs something in the process, if it is still the same one, once it runs.
func (n *node) run(class, generation int, do func()) {
	switch {
	case n.generation != generation || !n.up:
	case n.paused:
		n.backlog[class] = append(n.backlog[class], func() { n.run(class, generation, do) })
	default:
		do()
	}
}

// later is a timer of the process.
func (n *node) later(d time.Duration, do func()) {
	g := n.generation
	n.h.after(d, func() { n.run(timers, g, do) })
}

// every is a periodic loop of the process, first after phase.
func (n *node) every(phase, period time.Duration, do func()) {
	n.later(phase, func() {
		do()
		n.every(period, period, do)
	})
}

// deliver hands a message over, if the connection is there.
func (n *node) deliver(class int, do func()) {
	switch {
	case !n.up || !n.conn || n.cut:
	case n.paused && n.h.now-n.stopped > n.patience:
		n.lost = true
	default:
		n.run(class, n.generation, do)
	}
}

func (n *node) pause() {
	n.paused, n.stopped = true, n.h.now
	n.patience = 2*time.Second + n.h.uniform(n.h.pr, 4*time.Second)
}

func (n *node) resume() {
	if !n.paused {
		return
	}
	n.paused = false
	if n.lost {
		n.conn = false
		n.disconnected()
	}
	backlog := n.backlog
	n.backlog = [classes][]func(){}
	for {
		var full []int
		for c := range backlog {
			if len(backlog[c]) > 0 {
				full = append(full, c)
			}
		}
		if len(full) == 0 {
			break
		}
		c := full[n.h.pr.IntN(len(full))]
		do := backlog[c][0]
		backlog[c] = backlog[c][1:]
		do()
	}
	if n.lost {
		n.lost = false
		g := n.generation
		n.h.after(20*ms+n.h.uniform(n.h.pr, 400*ms), func() { n.reconnect(g) })
	}
}

func (n *node) disconnect() {
	n.conn = false
	n.run(timers, n.generation, n.disconnected)
}

func (n *node) reconnect(generation int) {
	switch {
	case n.generation != generation || !n.up || n.conn || n.h.busDown:
	case n.paused:
		n.lost = true
	default:
		n.conn = true
		n.later(0, n.connected)
	}
}

// send puts a message on the bus.
func (h *harness) send(from, to *node, class int, do func()) {
	if !from.conn || from.cut || h.cuts[[2]*node{from, to}] {
		return
	}
	if p := 1 - (1-from.loss)*(1-to.loss); p > 0 && h.nr.Float64() < p {
		h.heal(h.now)
		return
	}
	copies := 1
	if p := from.dup + to.dup; p > 0 && h.nr.Float64() < p {
		copies = 2 + h.nr.IntN(2)
	}
	for i := range copies {
		at := h.now + 50*time.Microsecond + h.uniform(h.nr, 750*time.Microsecond)
		odd, free := i > 0, i > 0
		if d := from.delay + to.delay; d > 0 {
			at += h.uniform(h.nr, d)
			odd = true
		}
		if p := from.mix + to.mix; p > 0 && h.nr.Float64() < p {
			at += h.uniform(h.nr, 300*ms)
			odd, free = true, true
		}
		if i > 0 {
			at += h.uniform(h.nr, 800*ms)
		}
		link := [2]*node{from, to}
		if !free { // a link keeps the order
			at = max(at, h.arrival[link]+1)
			h.arrival[link] = at
		}
		if odd {
			h.heal(at)
		}
		h.after(at-h.now, func() { to.deliver(class, do) })
	}
}

func (h *harness) report() string { return strings.Join(h.violations, "\n") }
