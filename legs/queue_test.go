package legs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"smg/wire"
	"smg/worker"
)

// hall is a queue in front of one worker with so much room, and what was answered.
type hall struct {
	*queue
	room  int
	fails error // of every try
	got   []string
}

var noon = time.Unix(1_800_000_000, 0)

func (h *hall) leaseOf(plan uint64) worker.LeaseID { return worker.LeaseID{Incarnation: 1, Plan: plan} }

func (h *hall) reply(r *wire.Reply) {
	what := fmt.Sprint(r.Lease.Plan)
	if r.Err != nil {
		what += " " + r.Err.Code.String()
	}
	h.got = append(h.got, what)
}

// enters has an ask wait for a second.
func (h *hall) enters(plan uint64, change func(*wire.Select)) (answer *wire.Reply, full bool) {
	ask := &wire.Select{Lease: h.leaseOf(plan), Model: "m", Wait: time.Second}
	if change != nil {
		change(ask)
	}
	return h.enter(ask, ask.Model, h.reply, noon)
}

// serves tells what is answered once the worker has so much room.
func (h *hall) serves(room int, at time.Duration) string {
	h.got, h.room = nil, room
	h.send(h.serve(noon.Add(at), func(string, int) bool { return h.room > 0 }, func(w *waiter) (wire.Pick, error) {
		n := max(1, w.ask.Units)
		switch {
		case h.fails != nil:
			return wire.Pick{}, h.fails
		case n > h.room, w.ask.Target == "elsewhere":
			return wire.Pick{}, worker.ErrFull
		}
		h.room -= n
		return wire.Pick{Worker: &worker.Spec{}}, nil
	}))
	return strings.Join(h.got, ", ")
}

func (h *hall) send(all []answered) {
	for _, a := range all {
		a.send(a.reply)
	}
}

// ticks tells what is answered as time goes on.
func (h *hall) ticks(at time.Duration, heard, open bool) string {
	h.got = nil
	h.send(h.tick(noon.Add(at), func(uint64) bool { return heard }, func(worker.LeaseID) bool { return open }))
	slices.Sort(h.got)
	return strings.Join(h.got, ", ")
}

func TestQueue(t *testing.T) {
	units := func(n int) func(*wire.Select) { return func(a *wire.Select) { a.Units = n } }
	for _, tt := range []struct {
		name string
		do   func(h *hall) []string
		want []string
	}{
		{"first come, first served", func(h *hall) []string {
			for plan := range uint64(4) {
				h.enters(plan+1, nil)
			}
			return []string{h.serves(1, 0), h.serves(0, 0), h.serves(2, 0), h.serves(9, 0), h.serves(9, 0)}
		}, []string{"1", "", "2, 3", "4", ""}},
		{"the urgent before others", func(h *hall) []string {
			h.enters(1, nil)
			h.enters(2, func(a *wire.Select) { a.Priority = 1 })
			h.enters(3, func(a *wire.Select) { a.Priority = 1 })
			h.enters(4, func(a *wire.Select) { a.Priority = -1 })
			return []string{h.serves(1, 0), h.serves(1, 0), h.serves(9, 0)}
		}, []string{"2", "3", "1, 4"}},
		{"a large one is not passed by small ones for ever", func(h *hall) []string {
			h.enters(1, units(3))
			h.enters(2, nil)
			return []string{h.serves(1, 0), h.serves(2, 0), h.serves(4, 0)}
		}, []string{"", "", "1, 2"}},
		{"one who waits for certain workers stops nobody", func(h *hall) []string {
			h.enters(1, func(a *wire.Select) { a.Target = "elsewhere" })
			h.enters(2, nil)
			return []string{h.serves(1, 0)}
		}, []string{"2"}},
		{"nor do many of them", func(h *hall) []string {
			for plan := range uint64(mostTries + 6) {
				h.enters(plan+1, func(a *wire.Select) { a.Target = "elsewhere" })
			}
			h.enters(100, nil)
			return []string{h.serves(1, 0)}
		}, []string{"100"}},
		{"nor is he stopped", func(h *hall) []string {
			h.enters(1, units(3))
			h.enters(2, nil)
			h.enters(3, func(a *wire.Select) { a.Target = "0" })
			return []string{h.serves(1, 0)}
		}, []string{"3"}},
		{"who leaves is not served", func(h *hall) []string {
			h.enters(1, nil)
			h.enters(2, nil)
			h.leave(h.leaseOf(1))
			h.leave(h.leaseOf(9))
			return []string{h.serves(9, 0)}
		}, []string{"2"}},
		{"why there is nobody is told to all", func(h *hall) []string {
			h.enters(1, nil)
			h.enters(2, nil)
			h.fails = worker.ErrUnavailable
			return []string{h.serves(1, 0), h.serves(1, 0)}
		}, []string{"1 no_available_workers, 2 no_available_workers", ""}},
		{"the time is up", func(h *hall) []string {
			h.enters(1, nil)
			h.enters(2, func(a *wire.Select) { a.Wait = time.Minute })
			return []string{h.ticks(time.Second, true, false), h.ticks(time.Second+1, true, false), h.serves(9, 2*time.Second)}
		}, []string{"", "1 admission_full", "2"}},
		{"an ingress that is gone", func(h *hall) []string {
			h.enters(1, func(a *wire.Select) { a.Wait = time.Minute })
			return []string{h.ticks(worker.IngressSilent, false, false), h.ticks(worker.IngressSilent+1, false, false), h.serves(9, 0)}
		}, []string{"", "", ""}},
		{"an answer that was lost is given again, in its place", func(h *hall) []string {
			for plan := range uint64(2) {
				h.enters(plan+1, func(a *wire.Select) { a.Wait = time.Minute })
			}
			return []string{h.serves(1, 0), h.ticks(worker.GrantLife, true, false), h.serves(0, 0), h.ticks(worker.GrantLife+1, true, false), h.serves(1, 3*time.Second)}
		}, []string{"1", "", "", "", "1"}},
		{"an answer that was heard is not", func(h *hall) []string {
			h.enters(1, func(a *wire.Select) { a.Wait = time.Minute })
			return []string{h.serves(1, 0), h.ticks(worker.GrantLife+1, true, true), h.serves(1, 3*time.Second)}
		}, []string{"1", "", ""}},
		{"one who asks again keeps his place, and gets what was lost", func(h *hall) []string {
			h.enters(1, nil)
			h.enters(2, nil)
			h.enters(1, nil)
			got := []string{h.serves(1, 0)}
			if a, _ := h.enters(1, nil); a != nil {
				got = append(got, fmt.Sprint("again ", a.Lease.Plan))
			}
			return append(got, h.serves(1, 0))
		}, []string{"1", "again 1", "2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hall{queue: newQueue()}
			if got := tt.do(h); !slices.Equal(got, tt.want) {
				t.Errorf("answers %q, want %q", got, tt.want)
			}
			for id := range h.leases {
				h.leave(id)
			}
			if h.size.Load() != 0 || len(h.lines) != 0 || h.prompts != 0 {
				t.Errorf("left behind: %d selects in %d lines, %d bytes", h.size.Load(), len(h.lines), h.prompts)
			}
		})
	}
	t.Run("its bounds", func(t *testing.T) {
		h := &hall{queue: newQueue()}
		text := strings.Repeat("x", maxPrompts/(maxWaiting-1))
		for plan := range uint64(maxWaiting) {
			if _, full := h.enters(plan+1, func(a *wire.Select) { a.Text = text }); full {
				t.Fatalf("select %d finds no place", plan)
			}
		}
		if _, full := h.enters(maxWaiting+1, nil); !full {
			t.Error("there is no end to the line")
		}
		if _, full := h.enters(maxWaiting+1, func(a *wire.Select) { a.Model = "n" }); full {
			t.Error("another model has no place")
		}
		if h.prompts > maxPrompts || h.leases[h.leaseOf(1)].ask.Text != text || h.leases[h.leaseOf(maxWaiting)].ask.Text != "" {
			t.Errorf("%d bytes of prompts are kept", h.prompts)
		}
	})
	t.Run("nobody passes those who wait", func(t *testing.T) {
		h := &hall{queue: newQueue()}
		h.enters(1, nil)
		if !h.waits("m", 0) || h.waits("m", 1) || h.waits("n", 0) {
			t.Errorf("waiting: %v, before an urgent one: %v, of another model: %v", h.waits("m", 0), h.waits("m", 1), h.waits("n", 0))
		}
		h.serves(1, 0)
		if h.waits("m", 0) {
			t.Error("one who has an answer waits")
		}
	})
}

// TestEnqueue has asks wait at a replica.
func TestEnqueue(t *testing.T) {
	b := start(t, func(c *Config) { c.Rooms = Rooms{Bound: true, Most: 1} })
	b.put(t, spec(1, "m"), spec(2, "m"))
	b.ready(t, 2)
	lease := func(plan uint64) worker.LeaseID { return worker.LeaseID{Incarnation: 1, Plan: plan} }
	var at []worker.ID
	for plan := range uint64(2) {
		pick, err := b.ask(plan+1, "m")
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, pick.Worker.ID)
		b.leases(t, worker.Entry{Kind: worker.EntryStart, Lease: worker.Lease{ID: lease(plan + 1), Worker: pick.Worker.ID}})
	}
	if _, err := b.ask(3, "m"); !errors.Is(err, worker.ErrFull) {
		t.Fatalf("error %v, want %v", err, worker.ErrFull)
	}
	answers := make(chan *wire.Reply, 8) // more than there are
	waits := func(plan uint64) error {
		_, err := b.Enqueue(&wire.Select{Lease: lease(plan), Model: "m", Wait: time.Minute}, func(r *wire.Reply) { answers <- r })
		return err
	}
	for plan := uint64(3); plan <= 5; plan++ {
		if err := waits(plan); !errors.Is(err, wire.ErrQueued) {
			t.Fatalf("error %v, want %v", err, wire.ErrQueued)
		}
	}
	if n := b.queue.waiting(); n != 3 {
		t.Errorf("%d wait, want 3", n)
	}
	// One leaves before there is room, and one gets it.
	b.leases(t, worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: lease(3)}, Unreached: true})
	b.leases(t, worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: lease(1)}, Outcome: worker.Success})
	r := <-answers
	if r.Lease != lease(4) || r.Replica != b.cfg.Replica || r.Err != nil || r.Pick.Worker.ID != at[0] {
		t.Errorf("answer %+v, want worker %v for plan 4", r, at[0])
	}
	if err := waits(6); !errors.Is(err, wire.ErrQueued) {
		t.Errorf("error %v, want %v", err, wire.ErrQueued)
	}
	// The room is not given away twice, and what begins is out of the line.
	b.leases(t, worker.Entry{Kind: worker.EntryStart, Lease: worker.Lease{ID: lease(4), Worker: at[0]}})
	b.leases(t, worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: lease(2)}, Outcome: worker.Success})
	if r := <-answers; r.Lease != lease(5) || r.Pick.Worker.ID != at[1] {
		t.Errorf("answer %+v, want worker %v for plan 5", r, at[1])
	}
	if n := b.queue.waiting(); n != 1 || len(answers) != 0 {
		t.Errorf("%d wait, want 1, with %d answers more", n, len(answers))
	}
	for _, d := range b.Decisions(DecisionFilter{Limit: 100}) {
		if d.Error != "" && d.Plan != 3 {
			t.Errorf("a try of one who waits is shown as a decision: %+v", d)
		}
	}
}
