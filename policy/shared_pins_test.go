package policy_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// pinStore is a store of pins in the plainest words, and what watchers of it are to
// be told.
type pinStore struct {
	revision uint64
	pins     map[worker.PinKey]storedPin
	told     []told
}

type storedPin struct {
	worker.Pin
	revision uint64
}

// told is a change; one without workers is a deletion.
type told storedPin

func newPinStore() *pinStore { return &pinStore{pins: map[worker.PinKey]storedPin{}} }

// put stores a pin, or deletes it if it has no workers.
func (s *pinStore) put(pin worker.Pin) uint64 {
	s.revision++
	if pin.Workers == [2]worker.ID{} {
		delete(s.pins, pin.Key)
	} else {
		s.pins[pin.Key] = storedPin{pin, s.revision}
	}
	s.told = append(s.told, told{pin, s.revision})
	return s.revision
}

// replica is a book that shares its pins with those of other desks.
type replica struct {
	*desk
	shared  policy.SharedPins
	id      worker.ReplicaID
	store   *pinStore
	heard   int // how much of store.told it was told
	written int
}

func newReplica(t *testing.T, id worker.ReplicaID, cfg policy.Config, store *pinStore) *replica {
	t.Helper()
	r := &replica{desk: newDesk(t, 4, cfg, nil, seeded(uint64(id))), id: id, store: store}
	r.shared = r.SharePins(id)
	return r
}

func (r *replica) now() time.Time { return r.Fleet.Now() }

// join has the replica told all that is stored.
func (r *replica) join() {
	r.shared.Begin()
	for _, p := range r.store.pins {
		r.shared.Learn(&p.Pin, p.revision, 0, r.now())
	}
	r.heard = len(r.store.told)
	r.shared.Synced()
}

// hear tells the replica the next change.
func (r *replica) hear() bool {
	if r.heard >= len(r.store.told) {
		return false
	}
	c := r.store.told[r.heard]
	r.heard++
	if c.Workers == [2]worker.ID{} {
		r.shared.Unlearn(c.Key, c.revision)
	} else {
		r.shared.Learn(&c.Pin, c.revision, 0, r.now())
	}
	return true
}

// write stores the replica's next change. landed and acked are what becomes of the
// request and of its answer.
func (r *replica) write(landed, acked bool) bool {
	c, ok := r.shared.Next()
	if !ok {
		return false
	}
	r.finish(c, landed, acked)
	return true
}

func (r *replica) finish(c policy.PinChange, landed, acked bool) {
	r.written++
	is := r.store.pins[c.Pin.Key]
	agrees := is.revision == c.After || c.After != 0 && c.After == r.lastDeletion(c.Pin.Key)
	switch {
	case c.Forget() && is.revision == 0 && acked:
		r.shared.Stored(c, 0, r.now())
	case !agrees && acked:
		if is.revision == 0 {
			r.shared.Conflict(c, nil, 0, 0, r.now())
		} else {
			r.shared.Conflict(c, &is.Pin, is.revision, 0, r.now())
		}
	default:
		revision := uint64(0)
		if agrees && landed && (!c.Forget() || is.revision != 0) {
			revision = r.store.put(c.Pin)
		}
		if acked && landed {
			r.shared.Stored(c, revision, r.now())
		} else {
			r.shared.Retry(c)
		}
	}
}

// lastDeletion is the revision of the mark that stands in the store for a key.
func (r *replica) lastDeletion(key worker.PinKey) (revision uint64) {
	for _, c := range r.store.told {
		if c.Key == key {
			revision = 0
			if c.Workers == [2]worker.ID{} {
				revision = c.revision
			}
		}
	}
	return revision
}

// settle writes and tells until nothing is left.
func settle(replicas ...*replica) {
	for busy := true; busy; {
		busy = false
		for _, r := range replicas {
			for r.write(true, true) || r.hear() {
				busy = true
			}
		}
	}
}

func pinKey(key string) worker.PinKey { return worker.PinKeyOf(policytest.Model, worker.HashKey(key)) }

func wantQueue(t *testing.T, r *replica, waiting, gone int) {
	t.Helper()
	if w, g := policy.PinQueue(r.shared); w != waiting || g != gone {
		t.Errorf("%d wait to be stored and %d to be forgotten, want %d and %d", w, g, waiting, gone)
	}
}

// joined is two replicas of a policy that pins.
func joined(t *testing.T, cfg policy.Config) (store *pinStore, a, b *replica) {
	t.Helper()
	store = newPinStore()
	a, b = newReplica(t, 1, cfg, store), newReplica(t, 2, cfg, store)
	a.join()
	b.join()
	return store, a, b
}

func TestSharedPins(t *testing.T) {
	pinning(t, func(t *testing.T, cfg policy.Config) {
		t.Run("a pin of one replica is the other's", func(t *testing.T) {
			_, a, b := joined(t, cfg)
			pin := a.wantBranch(t, keyed(a.Fleet, "s"), "vacant")
			settle(a, b)
			b.want(t, keyed(b.Fleet, "s"), pin.worker, "occupied_hit")
			wantQueue(t, b, 0, 0) // using it soon after is nothing to tell
		})
		t.Run("of two pins the stored one holds", func(t *testing.T) {
			_, a, b := joined(t, cfg)
			pin := a.call(t, keyed(a.Fleet, "s"))
			b.Down(pin.worker)
			b.call(t, keyed(b.Fleet, "s"))
			b.Up(pin.worker)
			settle(a, b)
			a.want(t, keyed(a.Fleet, "s"), pin.worker, "occupied_hit")
			b.want(t, keyed(b.Fleet, "s"), pin.worker, "occupied_hit")
		})
		t.Run("a key that changes twice is written once", func(t *testing.T) {
			store, a, b := joined(t, cfg)
			first := a.call(t, keyed(a.Fleet, "s"))
			a.Down(first.worker)
			second := a.wantBranch(t, keyed(a.Fleet, "s"), "occupied_miss")
			settle(a)
			if a.written != 1 {
				t.Errorf("written %d times, want once", a.written)
			}
			workers := store.pins[pinKey("s")].Workers
			if id := a.ID(second.worker); workers[0] != id && workers[1] != id {
				t.Error("what is stored is not the last state")
			}
			settle(b)
			if diff := cmp.Diff(policy.PinsOf(a.Book), policy.PinsOf(b.Book)); diff != "" {
				t.Errorf("the replicas differ (-a +b):\n%s", diff)
			}
		})
		t.Run("a change while another is written is written too", func(t *testing.T) {
			store, a, _ := joined(t, cfg)
			first := a.call(t, keyed(a.Fleet, "s"))
			c, _ := a.shared.Next()
			a.Down(first.worker)
			a.wantBranch(t, keyed(a.Fleet, "s"), "occupied_miss")
			a.finish(c, true, true)
			a.hear() // its own first word is no news
			settle(a)
			if diff := cmp.Diff(policy.PinsOf(a.Book)[pinKey("s")], store.pins[pinKey("s")].Workers); diff != "" {
				t.Errorf("stored is something else (-pin +stored):\n%s", diff)
			}
		})
	})
}

// TestSharedPinsUndo: a call that never got to its worker leaves no pin anywhere.
func TestSharedPinsUndo(t *testing.T) {
	for _, tt := range []struct {
		name    string
		written bool // before it is undone
		during  bool // it is undone while it is written
		want    int  // writes
	}{
		{name: "before it is written", want: 0},
		{name: "while it is written", during: true, want: 2},
		{name: "after it was written", written: true, want: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, a, b := joined(t, manualConfig(policy.AssignRandom))
			lease := a.call(t, keyed(a.Fleet, "s")).lease
			switch {
			case tt.during:
				c, _ := a.shared.Next()
				a.Undo(lease)
				a.finish(c, true, true)
			case tt.written:
				settle(a, b)
				a.Undo(lease)
			default:
				a.Undo(lease)
			}
			settle(a, b)
			if a.written != tt.want {
				t.Errorf("written %d times, want %d", a.written, tt.want)
			}
			if n := len(store.pins) + len(policy.PinsOf(a.Book)) + len(policy.PinsOf(b.Book)); n > 0 {
				t.Errorf("%d pins are left", n)
			}
		})
	}
}

// TestSharedPinsRefresh: a pin in use is written again at a tenth of the idle limit,
// and not before.
func TestSharedPinsRefresh(t *testing.T) {
	for _, tt := range []struct {
		name           string
		idle, interval time.Duration
		after          time.Duration
		want           int
	}{
		{"early", time.Hour, time.Minute, 6*time.Minute - 1, 0},
		{"in time", time.Hour, time.Minute, 6 * time.Minute, 1},
		{"pins that stay for ever", 0, time.Minute, 1000 * time.Hour, 0},
		{"pins that nobody looks after", time.Hour, 0, 1000 * time.Hour, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := manualConfig(policy.AssignRandom)
			cfg.Pins.MaxIdle, cfg.Pins.EvictionInterval = tt.idle, tt.interval
			store, a, b := joined(t, cfg)
			a.call(t, keyed(a.Fleet, "s"))
			settle(a, b)
			before := store.revision
			for range 3 {
				a.call(t, at(keyed(a.Fleet, "s"), tt.after))
			}
			wantQueue(t, a, tt.want, 0)
			settle(a, b)
			if n := store.revision - before; n != uint64(tt.want) {
				t.Errorf("%d writes, want %d", n, tt.want)
			}
		})
	}
}

// TestSharedPinsIdle: what others use does not idle here, and what was idle for too
// long is not taken over.
func TestSharedPinsIdle(t *testing.T) {
	cfg := manualConfig(policy.AssignRandom)
	cfg.Pins.MaxIdle, cfg.Pins.EvictionInterval = time.Hour, time.Minute
	store, a, b := joined(t, cfg)
	start := a.now()
	a.call(t, keyed(a.Fleet, "used"))
	a.call(t, keyed(a.Fleet, "idle"))
	settle(a, b)
	b.Tick(start)
	used := store.pins[pinKey("used")]
	b.shared.Learn(&used.Pin, used.revision+10, 0, start.Add(30*time.Minute))
	b.Tick(start.Add(time.Hour))
	if got := keysOf(policy.PinsOf(b.Book)); len(got) != 1 || got[0] != pinKey("used") {
		t.Errorf("after an hour there are %v", got)
	}
	b.Tick(start.Add(90 * time.Minute))
	wantEntries(t, b.reg, 0)

	c := newReplica(t, 3, cfg, store)
	c.shared.Begin()
	c.shared.Learn(&used.Pin, 1, 59*time.Minute, start)
	c.shared.Learn(&worker.Pin{Key: pinKey("old"), Workers: used.Workers, Replica: 1}, 2, time.Hour, start)
	c.shared.Synced()
	if got := keysOf(policy.PinsOf(c.Book)); len(got) != 1 || got[0] != pinKey("used") {
		t.Errorf("of a young and an old pin %v were taken over", got)
	}
	c.Tick(start)
	c.Tick(start.Add(time.Minute))
	wantEntries(t, c.reg, 0) // its age counts
}

func keysOf(m map[worker.PinKey][2]worker.ID) (keys []worker.PinKey) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// TestSharedPinsExpired: a pin that the store has forgotten is stored anew when it is
// used.
func TestSharedPinsExpired(t *testing.T) {
	store, a, b := joined(t, manualConfig(policy.AssignRandom))
	pin := a.call(t, keyed(a.Fleet, "s"))
	settle(a, b)
	delete(store.pins, pinKey("s"))
	a.want(t, at(keyed(a.Fleet, "s"), time.Hour), pin.worker, "occupied_hit")
	settle(a, b)
	if store.pins[pinKey("s")].revision == 0 {
		t.Error("it is not stored")
	}
}

// TestSharedPinsRefill: a store that has lost everything is filled again by those who
// answer for the keys, and only by them.
func TestSharedPinsRefill(t *testing.T) {
	store, a, b := joined(t, manualConfig(policy.AssignRandom))
	for i := range 1000 {
		a.call(t, keyed(a.Fleet, fmt.Sprint("a-", i)))
	}
	b.call(t, keyed(b.Fleet, "b"))
	settle(a, b)
	b.call(t, keyed(b.Fleet, "a-0"))
	before := policy.PinsOf(a.Book)
	*store = *newPinStore()
	a.written, b.written = 0, 0
	b.join()
	wantQueue(t, b, 2, 0)
	a.join()
	settle(a, b)
	if len(store.pins) != 1001 {
		t.Errorf("%d pins are stored, want 1001", len(store.pins))
	}
	for _, r := range []*replica{a, b} {
		if diff := cmp.Diff(before, policy.PinsOf(r.Book)); diff != "" {
			t.Errorf("replica %d has other pins (-before +now):\n%s", r.id, diff)
		}
	}
}

// TestSharedPinsWait: while the store is away, picks go on and what waits is bounded.
func TestSharedPinsWait(t *testing.T) {
	cfg := manualConfig(policy.AssignRandom)
	cfg.Pins.MaxKeys = 100
	store, a, b := joined(t, cfg)
	a.call(t, keyed(a.Fleet, "old"))
	settle(a, b)
	a.shared.Begin() // and nobody answers
	for i := range 10_000 {
		a.call(t, keyed(a.Fleet, fmt.Sprint("key-", i)))
	}
	wantQueue(t, a, 100, 1) // of those that made room only one was ever stored
	if _, ok := a.shared.Next(); ok {
		t.Error("something is to be written before it is known what is stored")
	}
	a.join()
	settle(a, b)
	if len(store.pins) != 100 {
		t.Errorf("%d pins are stored, want 100", len(store.pins))
	}
	if diff := cmp.Diff(policy.PinsOf(a.Book), policy.PinsOf(b.Book)); diff != "" {
		t.Errorf("the replicas differ (-a +b):\n%s", diff)
	}
}

// TestSharedPinsDropped: what cannot be stored stays a pin, and is tried again when it
// would be written again.
func TestSharedPinsDropped(t *testing.T) {
	_, a, _ := joined(t, manualConfig(policy.AssignRandom))
	pin := a.call(t, keyed(a.Fleet, "s"))
	c, _ := a.shared.Next()
	a.shared.Drop(c, a.now())
	a.want(t, keyed(a.Fleet, "s"), pin.worker, "occupied_hit")
	wantQueue(t, a, 0, 0)
	a.want(t, at(keyed(a.Fleet, "s"), time.Hour), pin.worker, "occupied_hit")
	wantQueue(t, a, 1, 0)
}

func TestBookPins(t *testing.T) {
	labelled := func(label string) *worker.Spec {
		return &worker.Spec{ID: worker.IDOf("http://w"), URL: "http://w", Models: []worker.Model{{ID: "m"}}, Labels: map[string]string{"policy": label}}
	}
	for _, tt := range []struct {
		name  string
		cfg   policy.Config
		label string
		want  bool
	}{
		{"manual", manualConfig(policy.AssignRandom), "", true},
		{"sticky sessions", stickyConfig(policy.RoundRobin, policy.AssignDelegate), "", true},
		{"sticky sessions of the ring", stickyConfig(policy.ConsistentHashing, policy.AssignDelegate), "", false},
		{"neither", policy.DefaultConfig(), "", false},
		{"a model of policy manual", policy.DefaultConfig(), "manual", true},
		{"a model of another policy", policy.DefaultConfig(), "random", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, 1, tt.cfg, nil, policy.Deps{})
			if tt.label != "" {
				d.Added(labelled(tt.label))
			}
			if got := d.Pins(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSharedPinsConverge: whatever is lost, late or undone, in the end two replicas
// and the store say the same.
func TestSharedPinsConverge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store := newPinStore()
		cfg := manualConfig(policy.AssignRandom)
		a, b := newReplica(t, 1, cfg, store), newReplica(t, 2, cfg, store)
		a.join()
		b.join()
		var leases [2][]worker.LeaseID
		var flying [2]*policy.PinChange
		lost := false
		which, key, one := rapid.IntRange(0, 1), rapid.SampledFrom([]string{"x", "y"}), rapid.IntRange(0, 3)
		both := []*replica{a, b}
		// land ends the write that is under way.
		land := func(i int, landed, acked bool) {
			if c := flying[i]; c != nil {
				flying[i] = nil
				both[i].finish(*c, landed, acked)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"call": func(rt *rapid.T) {
				i := which.Draw(rt, "replica")
				r := both[i]
				req := keyed(r.Fleet, key.Draw(rt, "key"), rapid.SliceOfNDistinct(one, 0, 2, rapid.ID[int]).Draw(rt, "tried")...)
				leases[i] = append(leases[i], r.call(t, req).lease)
			},
			"undo": func(rt *rapid.T) {
				i := which.Draw(rt, "replica")
				if n := len(leases[i]); n > 0 {
					both[i].Undo(leases[i][max(0, n-1-rapid.IntRange(0, 2).Draw(rt, "back"))])
				}
			},
			"take": func(rt *rapid.T) {
				i := which.Draw(rt, "replica")
				if flying[i] != nil {
					rt.Skip("one is under way")
				}
				if c, ok := both[i].shared.Next(); ok {
					flying[i] = &c
				}
			},
			"land": func(rt *rapid.T) {
				land(which.Draw(rt, "replica"), rapid.Bool().Draw(rt, "landed"), rapid.Bool().Draw(rt, "acked"))
			},
			"hear": func(rt *rapid.T) { both[which.Draw(rt, "replica")].hear() },
			"join anew": func(rt *rapid.T) {
				both[which.Draw(rt, "replica")].join()
			},
			"lose everything": func(*rapid.T) {
				lost = true
				*store = *newPinStore()
				for _, r := range both {
					r.join()
				}
			},
		})
		for i := range both {
			land(i, true, true)
		}
		settle(a, b)
		want := map[worker.PinKey][2]worker.ID{}
		for k, p := range store.pins {
			want[k] = p.Workers
		}
		for _, r := range both {
			got := policy.PinsOf(r.Book)
			if lost { // with it, what it was to be told to forget: such pins become idle
				maps.DeleteFunc(got, func(k worker.PinKey, _ [2]worker.ID) bool { return store.pins[k].revision == 0 })
			}
			if !maps.Equal(got, want) {
				rt.Errorf("replica %d (-stored +pins):\n%s", r.id, cmp.Diff(want, got))
			}
		}
	})
}
