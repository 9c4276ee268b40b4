package worker

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"
)

// ReplicaBeat is a selector replica's sign of life on its leg, sent every
// [BeatInterval].
type ReplicaBeat struct {
	Replica  ReplicaID
	Ready    bool // it answers selects
	Draining bool // it is about to leave
}

// WorkerKey is the selection key of a worker: the replica ranked first for it is
// the worker's keeper.
func WorkerKey(id ID) uint64 { return xxh3.Hash(id[:]) }

// PoolKey is the selection key of a pool, and of requests without a key of their
// own. model is the canonical id.
func PoolKey(leg Leg, model string) uint64 { return xxh3.HashStringSeed(model, uint64(leg)) }

// Ranking is which selector replicas of a leg are alive, and in which order they
// are asked for a key. Everybody who hears the same beats ranks alike. A replica
// ranks itself like any other, by its own beats heard back over the bus. It is
// safe for concurrent use; First and Rank take no lock.
type Ranking struct {
	alive   atomic.Pointer[[]ReplicaID]
	version atomic.Uint64 // of alive

	mu    sync.Mutex
	heard map[ReplicaID]time.Time // replicas in the ranking
}

// NewRanking is a ranking of nobody.
func NewRanking() *Ranking {
	r := &Ranking{heard: map[ReplicaID]time.Time{}}
	r.publish()
	return r
}

// Apply folds a beat and says whether the ranking changed. One ready beat takes a
// replica in; one that is not ready, or draining, takes it out.
func (r *Ranking) Apply(b ReplicaBeat, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, in := r.heard[b.Replica]
	if !b.Ready || b.Draining {
		delete(r.heard, b.Replica)
	} else {
		r.heard[b.Replica] = now
		in = !in
	}
	if in {
		r.publish()
	}
	return in
}

// Tick takes out who has been silent for [ReplicaSilent] and says whether the
// ranking changed. late says that the caller's loop ran more than [LateLoop]
// behind; then the silence timers restart instead.
func (r *Ranking) Tick(now time.Time, late bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	for id, t := range r.heard {
		switch {
		case late:
			r.heard[id] = now
		case now.Sub(t) > ReplicaSilent:
			delete(r.heard, id)
			changed = true
		}
	}
	if changed {
		r.publish()
	}
	return changed
}

// Reconnected restarts the silence timers: who was not heard had nobody to hear.
func (r *Ranking) Reconnected(now time.Time) { r.Tick(now, true) }

func (r *Ranking) publish() {
	alive := make([]ReplicaID, 0, len(r.heard))
	for id := range r.heard {
		alive = append(alive, id)
	}
	slices.Sort(alive)
	r.alive.Store(&alive)
	r.version.Add(1)
}

// Version changes with the ranking; it is never 0. Whoever reads it before the ranking
// itself misses no change.
func (r *Ranking) Version() uint64 { return r.version.Load() }

// Len is the number of replicas in the ranking.
func (r *Ranking) Len() int { return len(*r.alive.Load()) }

// First is the replica to ask for key; false: none is alive.
func (r *Ranking) First(key uint64) (ReplicaID, bool) {
	var best ReplicaID
	var high uint64
	alive := *r.alive.Load()
	for i, id := range alive {
		if s := rendezvous(key, id); i == 0 || s > high {
			best, high = id, s
		}
	}
	return best, len(alive) > 0
}

// Rank appends to buf all replicas in the order in which they are asked for key.
func (r *Ranking) Rank(key uint64, buf []ReplicaID) []ReplicaID {
	n := len(buf)
	buf = append(buf, *r.alive.Load()...)
	slices.SortFunc(buf[n:], func(a, b ReplicaID) int {
		return cmp.Or(cmp.Compare(rendezvous(key, b), rendezvous(key, a)), cmp.Compare(a, b))
	})
	return buf
}

// rendezvous is the weight of a replica for a key: the highest comes first.
func rendezvous(key uint64, id ReplicaID) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], key)
	binary.LittleEndian.PutUint64(b[8:], uint64(id))
	return xxh3.Hash(b[:])
}
