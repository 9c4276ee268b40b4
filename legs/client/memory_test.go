package client

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"smg/wire"
	"smg/worker"
)

func TestMemoryForgetsTheKeyUsedLongestAgo(t *testing.T) {
	var m memory
	key := func(i int) (k memoryKey) {
		binary.LittleEndian.PutUint64(k.sum[:], uint64(i))
		return k
	}
	id := func(i int) (id worker.ID) {
		binary.LittleEndian.PutUint64(id[:], uint64(i))
		return id
	}
	for i := range memorySize {
		m.note(key(i), id(i))
	}
	m.note(key(1), id(77)) // moves
	if got, ok := m.recall(key(0)); !ok || got != id(0) {
		t.Fatalf("key 0 is at %v (known %v), want %v", got, ok, id(0))
	}
	m.note(key(memorySize), id(memorySize))
	m.note(key(memorySize+1), id(memorySize+1))
	for i, want := range map[int]worker.ID{0: id(0), 1: id(77), 4: id(4), memorySize: id(memorySize), memorySize + 1: id(memorySize + 1)} {
		if got, ok := m.recall(key(i)); !ok || got != want {
			t.Errorf("key %d is at %v (known %v), want %v", i, got, ok, want)
		}
	}
	for _, i := range []int{2, 3} {
		if _, ok := m.recall(key(i)); ok {
			t.Errorf("key %d is known, although it was used longest ago", i)
		}
	}
	if got := m.order.Len(); got != memorySize || len(m.keys) != memorySize {
		t.Errorf("%d keys are held, %d can be found, want %d", got, len(m.keys), memorySize)
	}
}

// TestDegradedPins: while nobody who knows the pins can be asked, a key stays with
// the worker that this ingress had for it last.
func TestDegradedPins(t *testing.T) {
	header := func(key string) worker.Keys {
		k := worker.HashKey(key)
		return worker.Keys{Header: k, Pinned: k}
	}
	conversation := func(key string) worker.Keys {
		k := worker.HashKey(key)
		return worker.Keys{Header: worker.HashKey(key + "_t1"), Conversation: k}
	}
	rid := func(key string) worker.Keys {
		return worker.Keys{RID: worker.HashKey(key), Conversation: worker.HashKey("other")}
	}
	tests := []struct {
		name string
		use  wire.PolicyUse
		keys func(string) worker.Keys
		want bool // the key stays
	}{
		{"manual", wire.PolicyUse{Name: manual, Reads: wire.ReadsKey | wire.ReadsPinnedKey}, header, true},
		{"manual with sticky sessions", wire.PolicyUse{Name: manual, Reads: wire.ReadsPinnedKey | wire.ReadsConversationKey}, rid, true},
		{"sticky sessions, header", wire.PolicyUse{Name: "round_robin", Reads: wire.ReadsConversationKey}, conversation, true},
		{"sticky sessions, rid", wire.PolicyUse{Name: "cache_aware", Reads: wire.ReadsText | wire.ReadsConversationKey}, rid, true},
		{"a policy that pins nothing", wire.PolicyUse{Name: "random", Reads: wire.ReadsKey}, header, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, false, far)
			f.known(t, 4)
			var gone atomic.Bool
			f.replicaOf(t, 9, tt.use, func(s *wire.Select) *wire.Reply {
				if gone.Load() {
					return &wire.Reply{Lease: s.Lease, Err: &wire.Error{Code: wire.CodeNotReady}}
				}
				return &wire.Reply{Lease: s.Lease, Replica: 9, Pick: wire.Pick{Worker: spec(3), Policy: tt.use.Name}}
			})
			ask := func(keys worker.Keys, outcome worker.Outcome) wire.Pick {
				t.Helper()
				id := f.Plan()
				pick, err := f.Select(t.Context(), &wire.Select{Lease: id, Model: "nick", Keys: keys})
				if err != nil {
					t.Fatal(err)
				}
				f.End(id, outcome, false)
				return pick
			}
			// seen is how many workers thirty calls reach: all the same of four by
			// chance happens once in 10^17 times.
			seen := func(keys worker.Keys) map[string]bool {
				urls := map[string]bool{}
				for range 30 {
					pick := ask(keys, worker.Success)
					if !pick.Degraded {
						t.Fatal("the pick does not say that it is degraded")
					}
					urls[pick.Worker.URL] = true
				}
				return urls
			}
			if pick := ask(tt.keys("a"), worker.Success); pick.Degraded {
				t.Fatal("the selector was not asked")
			}
			gone.Store(true)
			if got := seen(tt.keys("a")); (len(got) == 1 && got[spec(3).URL]) != tt.want {
				t.Errorf("the key went to %v, stays with w3: want %v", got, tt.want)
			}
			if got := seen(worker.Keys{}); len(got) == 1 {
				t.Errorf("calls without a key all went to %v", got)
			}
			if !tt.want {
				return
			}
			// Its worker fails: another takes the key and keeps it.
			ask(tt.keys("a"), worker.Failure)
			if got := seen(tt.keys("a")); len(got) != 1 || got[spec(3).URL] {
				t.Errorf("after w3 has failed the key went to %v, want one other worker", got)
			}
			if got := len(f.legs[worker.Regular].memory.keys); got != 1 {
				t.Errorf("%d keys are held, want 1", got)
			}
		})
	}
}
