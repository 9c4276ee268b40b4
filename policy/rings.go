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
