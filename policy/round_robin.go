package policy

import (
	"sync"

	"smg/worker"
)

// maxRotations is how many candidate sets round_robin remembers (the seed's bound).
const maxRotations = 4096

// roundRobin rotates through the workers of each candidate set, which is known by
// the hash of its ordered ids. So a worker that leaves makes a new set with a
// rotation of its own, and one that returns finds the old rotation where it was.
type roundRobin struct {
	mu   sync.Mutex
	sets map[uint64]*rotation
	// newest and oldest end a list in the order of last use.
	newest, oldest *rotation
	// start is where the next new set begins; it moves on with each, so that a
	// fleet that changes often does not favour its first worker.
	start uint64
}

type rotation struct {
	set          uint64
	next         uint64
	newer, older *rotation
}

var _ Policy = (*roundRobin)(nil)

func newRoundRobin() *roundRobin {
	return &roundRobin{sets: map[uint64]*rotation{}}
}

// Pick implements [Policy].
func (p *roundRobin) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	ask := req.ask(meanTokens)
	taken, err := pool.Take(&ask, p.choose)
	return Decision{Taken: taken}, err
}

// choose passes over workers that the view does not admit as if they had had their
// turn: giving the next one an extra turn later would load it twice in a row.
func (p *roundRobin) choose(v *worker.View) int {
	n := uint64(v.Len())
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rotation(v.Signature())
	i := r.next % n
	for range n - 1 {
		if v.Admits(int(i)) {
			break
		}
		i = (i + 1) % n
	}
	r.next = i + 1
	return int(i)
}

// rotation is the rotation of a set, the one used last from now on.
func (p *roundRobin) rotation(set uint64) *rotation {
	if p.newest != nil && p.newest.set == set {
		return p.newest
	}
	r := p.sets[set]
	switch {
	case r != nil:
		p.unlink(r)
	case len(p.sets) >= maxRotations:
		r = p.oldest
		p.unlink(r)
		delete(p.sets, r.set)
		p.begin(r, set)
	default:
		r = new(rotation)
		p.begin(r, set)
	}
	p.pushNewest(r)
	return r
}

func (p *roundRobin) begin(r *rotation, set uint64) {
	r.set, r.next = set, p.start
	p.start++
	p.sets[set] = r
}

func (p *roundRobin) pushNewest(r *rotation) {
	r.newer, r.older = nil, p.newest
	if p.newest != nil {
		p.newest.newer = r
	} else {
		p.oldest = r
	}
	p.newest = r
}

// unlink takes out a rotation that is not the newest.
func (p *roundRobin) unlink(r *rotation) {
	r.newer.older = r.older
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		p.oldest = r.newer
	}
}
