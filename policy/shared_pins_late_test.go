package policy_test

import (
	"testing"

	"smg/policy"
)

// another has a replica pin a key to more workers than it has.
func (r *replica) another(t *testing.T, key string, first call) {
	t.Helper()
	r.Down(first.worker)
	r.wantBranch(t, keyed(r.Fleet, key), "occupied_miss")
	r.Up(first.worker)
}

// only has a replica pin a key to a worker.
func (r *replica) only(t *testing.T, key string, worker int) call {
	t.Helper()
	r.Down(0, 1, 2, 3)
	r.Up(worker)
	c := r.wantBranch(t, keyed(r.Fleet, key), "vacant")
	r.Up(0, 1, 2, 3)
	return c
}

// take is the replica's next change, which is on its way.
func (r *replica) take(t *testing.T) policy.PinChange {
	t.Helper()
	c, ok := r.shared.Next()
	if !ok {
		t.Fatal("there is nothing to be written")
	}
	return c
}

// TestSharedPinsLate: words that come late, or whose answer does not come, change
// nothing of what is decided since.
func TestSharedPinsLate(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, a, b *replica)
		want int // pins that are left
	}{
		{"its own word about a pin that is undone", func(t *testing.T, a, _ *replica) {
			lease := a.call(t, keyed(a.Fleet, "s")).lease
			a.write(true, true)
			a.Undo(lease)
			a.hear()
			wantEntries(t, a.reg, 0)
		}, 0},
		{"its own word about a pin that is being deleted", func(t *testing.T, a, _ *replica) {
			lease := a.call(t, keyed(a.Fleet, "s")).lease
			a.write(true, true)
			a.Undo(lease)
			c := a.take(t)
			a.hear()
			wantEntries(t, a.reg, 0)
			a.finish(c, true, true)
		}, 0},
		{"a pin that was undone, of which nobody knows whether it is stored", func(t *testing.T, a, _ *replica) {
			lease := a.call(t, keyed(a.Fleet, "s")).lease
			c := a.take(t)
			a.Undo(lease)
			a.finish(c, true, false)
			c = a.take(t)
			a.join()
			wantEntries(t, a.reg, 0)
			a.finish(c, false, false)
		}, 0},
		{"a change that was turned down, and the word before it", func(t *testing.T, a, _ *replica) {
			first := a.call(t, keyed(a.Fleet, "s"))
			a.write(true, true)
			a.another(t, "s", first)
			a.shared.Drop(a.take(t), a.now())
			a.join()
			wantQueue(t, a, 1, 0)
		}, 1},
		{"a deletion before the key was pinned again", func(t *testing.T, a, _ *replica) {
			lease := a.call(t, keyed(a.Fleet, "s")).lease
			a.write(true, true)
			a.Undo(lease)
			a.write(true, true)
			a.call(t, keyed(a.Fleet, "s"))
			a.hear()
			a.hear()
			wantEntries(t, a.reg, 1)
		}, 1},
		{"a deletion by another that has not used the pin since", func(t *testing.T, a, b *replica) {
			lease := a.call(t, keyed(a.Fleet, "s")).lease
			settle(a, b)
			b.call(t, keyed(b.Fleet, "s"))
			a.Undo(lease)
			settle(a, b)
			wantEntries(t, b.reg, 0)
		}, 0},
		{"the answer to a write that landed, after a change", func(t *testing.T, a, _ *replica) {
			first := a.call(t, keyed(a.Fleet, "s"))
			a.write(true, false)
			a.another(t, "s", first)
			c := a.take(t)
			a.hear()
			a.finish(c, true, true)
			wantQueue(t, a, 1, 0)
		}, 1},
		{"the end of a call whose pin gave way to the stored one", func(t *testing.T, a, b *replica) {
			a.only(t, "s", 0)
			settle(a)
			call := b.only(t, "s", 3)
			settle(b)
			b.Undo(call.lease)
			b.want(t, keyed(b.Fleet, "s"), 0, "occupied_hit")
		}, 1},
		{"the end of a call whose pin is another's too", func(t *testing.T, a, b *replica) {
			a.only(t, "s", 3)
			settle(a)
			call := b.only(t, "s", 3)
			settle(b)
			b.Undo(call.lease)
			wantEntries(t, b.reg, 1)
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, a, b := joined(t, manualConfig(policy.AssignMinLoad))
			tt.do(t, a, b)
			settle(a, b)
			if n := len(store.pins); n != tt.want {
				t.Errorf("%d pins are stored, want %d", n, tt.want)
			}
			for _, r := range []*replica{a, b} {
				pins := policy.PinsOf(r.Book)
				if len(pins) != tt.want {
					t.Errorf("replica %d has %d pins, want %d", r.id, len(pins), tt.want)
				}
				for key, workers := range pins {
					if stored := store.pins[key].Workers; workers != stored {
						t.Errorf("replica %d has %v, stored is %v", r.id, workers, stored)
					}
				}
			}
		})
	}
}
