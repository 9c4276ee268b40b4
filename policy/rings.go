package policy

import (
	"sync"

	"smg/policy/ring"
	"smg/worker"
)

// maxRings is how many pools' last rings are kept at hand.
const maxRings = 16

// rings makes the hash rings of pools. The ring in use lies with the pool's members;
// here is the last one of each pool, from which the next is made at a fraction of
// the cost when a worker comes or goes.
type rings struct {
	mu   sync.Mutex
	last map[*worker.Pool]*ring.Ring
}

// of is the ring over members, which are or were those of pool.
func (r *rings) of(pool *worker.Pool, members *worker.Members) *ring.Ring {
	return members.Memo(func(m *worker.Members) any { return r.make(pool, m) }).(*ring.Ring)
}

func (r *rings) make(pool *worker.Pool, members *worker.Members) *ring.Ring {
	urls := make([]string, members.Len())
	for i := range urls {
		urls[i] = members.Spec(i).URL
	}
	r.mu.Lock()
	previous := r.last[pool]
	r.mu.Unlock()
	if previous == nil {
		previous = ring.New(nil)
	}
	next := previous.Update(urls)

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[*worker.Pool]*ring.Ring{}
	}
	if _, kept := r.last[pool]; !kept && len(r.last) >= maxRings {
		for other := range r.last { // any: what is lost is time
			delete(r.last, other)
			break
		}
	}
	r.last[pool] = next
	return next
}

// ringChoice chooses with the help of the ring over the view's members.
type ringChoice func(circle *ring.Ring, v *worker.View) int

// take lets choose pick on the pool's ring. The ring is made before the pool is
// locked, which leaves time for the membership to change; then the choice is made
// anew.
func (r *rings) take(ask *worker.Ask, pool *worker.Pool, choose ringChoice) (worker.Taken, error) {
	for range 3 {
		if taken, stale, err := r.takeOn(pool.Members(), ask, pool, choose); !stale {
			return taken, err
		}
	}
	taken, _, err := r.takeOn(nil, ask, pool, choose)
	return taken, err
}

// takeOn lets choose pick on the ring of members. It is stale, and nothing is taken,
// if those are not the pool's any more. With nil members the ring is made under the
// pool's lock and never stale.
func (r *rings) takeOn(members *worker.Members, ask *worker.Ask, pool *worker.Pool, choose ringChoice) (taken worker.Taken, stale bool, err error) {
	var circle *ring.Ring
	if members != nil {
		circle = r.of(pool, members)
	}
	taken, err = pool.Take(ask, func(v *worker.View) int {
		switch {
		case circle == nil:
			circle = r.of(pool, v.Members())
		case v.Members() != members:
			stale = true
			return -1
		}
		return choose(circle, v)
	})
	return taken, stale, err
}

// owner is the index of the first candidate on the ring from a position, or -1.
func owner(circle *ring.Ring, position uint64, v *worker.View) int {
	chosen := -1
	circle.First(position, func(member int) bool {
		slot := v.Slot(member)
		if slot < 0 || !v.Admits(slot) {
			return false
		}
		chosen = slot
		return true
	})
	return chosen
}
