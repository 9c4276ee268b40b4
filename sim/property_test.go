package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func contains(s, sub string) bool { return strings.Contains(s, sub) }

// checkAccounts recounts every block and compares with the pool's own books.
func checkAccounts(t interface{ Errorf(string, ...any) }, e *Engine) {
	p := e.pool
	if p.free < 0 || p.private < 0 || p.held < 0 || p.idle < 0 {
		t.Errorf("negative account: %+v", p)
	}
	if sum := p.free + p.private + p.held + p.idle; sum != p.total {
		t.Errorf("%d blocks accounted for, %d exist", sum, p.total)
	}
	idle := 0
	for b := p.lru.next; b != &p.lru; b = b.next {
		if b.refs != 0 || p.cached[b.hash] != b {
			t.Errorf("idle block %+v is in use or unknown", b)
		}
		idle++
	}
	held := 0
	for _, b := range p.cached {
		if b.refs > 0 {
			held++
		}
	}
	private, refs := 0, map[*block]int{}
	for _, s := range e.sequences {
		private += s.private
		for _, b := range s.shared {
			refs[b]++
		}
	}
	for b, n := range refs {
		if b.refs != n {
			t.Errorf("block %d has %d holders and counts %d", b.hash, n, b.refs)
		}
	}
	if idle != p.idle || held != p.held || private != p.private || len(refs) != held {
		t.Errorf("counted idle %d, held %d (%d), private %d; books %+v", idle, held, len(refs), private, p)
	}
	backlog := 0
	for _, s := range e.waiting {
		backlog += s.estimate
		if s.blocks() != 0 {
			t.Errorf("waiting sequence %d holds %d blocks", s.id, s.blocks())
		}
	}
	if backlog != e.backlog {
		t.Errorf("backlog %d, books say %d", backlog, e.backlog)
	}
	if n := len(e.waiting) + len(e.running) + len(e.receiving) + len(e.sending); n != len(e.sequences) {
		t.Errorf("%d waiting + %d running + %d receiving + %d sending, %d known",
			len(e.waiting), len(e.running), len(e.receiving), len(e.sending), len(e.sequences))
	}
	for i, s := range e.line {
		if !slices.Contains(e.sending, s) || i > 0 && s.sentAt < e.line[i-1].sentAt {
			t.Errorf("sequence %d is on the line out of order or without being sent", s.id)
		}
	}
}

func atRest(t *testing.T, e *Engine) {
	t.Helper()
	checkAccounts(t, e)
	l := e.Ledger(e.Now())
	if l.Held != 0 || len(l.Holdings) != 0 || l.Cached+l.Free != l.Total {
		t.Errorf("not at rest: %+v", l)
	}
}

// call is one input to an engine.
type call struct {
	At       time.Duration
	Submit   *Request
	Abort    ID
	Transfer ID
	Deliver  ID
	Delivery Delivery
	Window   int // valid if none of the above
}

func calls(t *rapid.T) []call {
	at := time.Duration(0)
	var ids ID
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) call {
		at += time.Duration(rapid.IntRange(0, 30_000).Draw(t, "gap_us")) * time.Microsecond
		c := call{At: at}
		someone := func() ID { return ID(rapid.Uint64Range(1, uint64(ids)+1).Draw(t, "whom")) }
		switch rapid.IntRange(0, 14).Draw(t, "what") {
		default:
			prompt := rapid.IntRange(1, 60).Draw(t, "prompt")
			output := rapid.IntRange(0, 30).Draw(t, "output")
			hashed := rapid.IntRange(0, (prompt+output)/4).Draw(t, "hashed")
			c.Submit = &Request{
				PromptTokens: prompt, OutputTokens: output,
				Blocks:   chain(rapid.IntRange(1, 3).Draw(t, "family"), hashed),
				Handover: Handover(rapid.IntRange(int(Keep), int(Receive)).Draw(t, "handover")),
			}
			ids++
		case 0, 1, 2:
			c.Abort = someone()
		case 4, 5:
			c.Transfer = someone()
		case 6, 7:
			c.Deliver = someone()
			c.Delivery = Delivery{
				Tokens: rapid.IntRange(0, 80).Draw(t, "tokens"),
				Cached: rapid.IntRange(0, 80).Draw(t, "cached"),
				First:  rapid.Bool().Draw(t, "first"),
			}
		case 3:
			c.Window = rapid.IntRange(-1, 3).Draw(t, "window")
		}
		return c
	}), 1, 60).Draw(t, "calls")
}

func (c call) apply(e *Engine) {
	switch {
	case c.Submit != nil:
		// A refusal is part of the behaviour under test.
		_, _ = e.Submit(c.At, *c.Submit)
	case c.Abort != 0:
		e.Abort(c.At, c.Abort)
	case c.Transfer != 0:
		e.Transfer(c.At, c.Transfer)
	case c.Deliver != 0:
		e.Deliver(c.At, c.Deliver, c.Delivery)
	default:
		e.SetWindow(c.At, c.Window)
	}
}

func smallEngine(t *rapid.T) Config {
	cfg := testConfig()
	cfg.KVBlocks = rapid.IntRange(12, 40).Draw(t, "blocks")
	cfg.MaxRunning = rapid.IntRange(1, 6).Draw(t, "running")
	cfg.MaxQueue = rapid.IntRange(0, 6).Draw(t, "queue")
	cfg.ChunkTokens = rapid.IntRange(3, 64).Draw(t, "chunk")
	return cfg
}

// settleAll runs e until everything is done, with all that it waits for given.
func settleAll(e *Engine, check func()) (events []Event) {
	e.SetWindow(e.Now(), -1)
	for {
		for at, ok := e.Next(); ok; at, ok = e.Next() {
			events = append(events, e.Step(at)...)
			check()
		}
		switch {
		case len(e.sending) > 0:
			e.Transfer(e.Now(), e.sending[0].id)
		case len(e.receiving) > 0:
			e.Deliver(e.Now(), e.receiving[0].id, Delivery{Tokens: 1 << 20, First: true})
		default:
			return events
		}
		check()
	}
}

func TestBlocksAreConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, err := New(smallEngine(t))
		if err != nil {
			t.Fatal(err)
		}
		var events []Event
		for _, c := range calls(t) {
			c.apply(e)
			checkAccounts(t, e)
			events = append(events, e.Step(c.At)...)
			checkAccounts(t, e)
		}
		events = append(events, settleAll(e, func() { checkAccounts(t, e) })...)
		if l := e.Ledger(e.Now()); l.Held != 0 || len(l.Holdings) != 0 {
			t.Fatalf("ledger at rest: %+v", l)
		}
		checkLives(t, events, e.totals)
	})
}

// checkLives demands that every sequence has a well-formed life with one end.
func checkLives(t *rapid.T, events []Event, totals Totals) {
	type life struct {
		tokens  int
		running bool
		ready   bool
		done    bool
	}
	lives := map[ID]*life{}
	last := time.Duration(0)
	for _, ev := range events {
		if ev.At < last {
			t.Fatalf("event %+v lies before %v", ev, last)
		}
		last = ev.At
		l := lives[ev.ID]
		if l == nil {
			l = &life{}
			lives[ev.ID] = l
		}
		if l.done {
			t.Fatalf("event after the end: %+v", ev)
		}
		switch ev.Kind {
		case Admitted:
			if l.running {
				t.Fatalf("admitted twice: %+v", ev)
			}
			l.running = true
		case Preempted:
			l.running = false
		case Token:
			l.tokens++
			if !l.running || l.ready || ev.Tokens != l.tokens {
				t.Fatalf("token out of turn: %+v after %+v", ev, l)
			}
		case Ready:
			if l.ready || !l.running {
				t.Fatalf("ready out of turn: %+v after %+v", ev, l)
			}
			l.ready = true
		case Done:
			l.done = true
		}
	}
	done := 0
	for id, l := range lives {
		if !l.done {
			t.Fatalf("sequence %d never ended", id)
		}
		done++
	}
	if uint64(done) != totals.Requests || totals.Finished+totals.Aborted != totals.Requests {
		t.Fatalf("%d ended; totals %+v", done, totals)
	}
}

// TestStepsDoNotMatter runs the same calls twice, once with extra steps at
// other instants, and wants the same events.
func TestStepsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := smallEngine(t)
		script := calls(t)
		run := func(extra bool) []Event {
			e, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			var events []Event
			for i, c := range script {
				c.apply(e)
				if extra && i+1 < len(script) {
					if gap := script[i+1].At - c.At; gap > 1 {
						at := c.At + time.Duration(rapid.Int64Range(1, int64(gap)-1).Draw(t, "step"))
						events = append(events, e.Step(at)...)
					}
				}
			}
			return append(events, settleAll(e, func() {})...)
		}
		if diff := cmp.Diff(run(false), run(true)); diff != "" {
			t.Fatal(diff)
		}
	})
}
