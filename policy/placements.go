package policy

import (
	"slices"
	"sync"
	"time"

	"smg/worker"
)

// maxHolders is how many workers a head is remembered at.
const maxHolders = 3

// placements is the hash index of cache_aware for one model: where prompts that begin
// alike were sent lately.
type placements struct {
	ttl time.Duration

	mu    sync.Mutex
	heads map[placement][]placed
}

// placement is a head: its hash, which covers the cache partition, and its length.
type placement struct {
	hash     uint64
	boundary int
}

type placed struct {
	worker  worker.ID
	touched time.Time
}

func newPlacements(ttl time.Duration) *placements {
	return &placements{ttl: ttl, heads: map[placement][]placed{}}
}

// live adds the holders of a head that are not expired to h.
func (p *placements) live(head placement, v *worker.View, now time.Time, h *holders) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.prune(head, now)
	for _, x := range all {
		h.add(v, x.worker, 1)
	}
}

// prune drops the expired holders of a head and returns the others. p.mu is held.
func (p *placements) prune(head placement, now time.Time) []placed {
	all := p.heads[head]
	if !slices.ContainsFunc(all, func(x placed) bool { return p.expired(x, now) }) {
		return all
	}
	all = slices.DeleteFunc(all, func(x placed) bool { return p.expired(x, now) })
	p.keep(head, all)
	return all
}

func (p *placements) expired(x placed, now time.Time) bool { return now.Sub(x.touched) > p.ttl }

func (p *placements) keep(head placement, all []placed) {
	if len(all) == 0 {
		delete(p.heads, head)
		return
	}
	p.heads[head] = all
}

// record notes that prompts with these heads go to a worker now, and returns the
// heads that it was no holder of before. A fourth holder replaces the stalest.
func (p *placements) record(heads []placement, id worker.ID, now time.Time) (added []placement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, head := range heads {
		all := p.prune(head, now)
		i := slices.IndexFunc(all, func(x placed) bool { return x.worker == id })
		switch {
		case i >= 0:
			all[i].touched = now
			continue
		case len(all) < maxHolders:
			all = append(all, placed{id, now})
		default:
			stalest := 0
			for k, x := range all {
				if x.touched.Before(all[stalest].touched) {
					stalest = k
				}
			}
			all[stalest] = placed{id, now}
		}
		p.heads[head] = all
		added = append(added, head)
	}
	return added
}

// undo takes back what record added at an instant, unless it was touched since.
func (p *placements) undo(heads []placement, id worker.ID, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, head := range heads {
		p.keep(head, slices.DeleteFunc(p.heads[head], func(x placed) bool { return x.worker == id && x.touched.Equal(at) }))
	}
}

// forget drops a worker everywhere.
func (p *placements) forget(id worker.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for head, all := range p.heads {
		p.keep(head, slices.DeleteFunc(all, func(x placed) bool { return x.worker == id }))
	}
}

// sweep drops what is expired and counts the heads that are left.
func (p *placements) sweep(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for head := range p.heads {
		p.prune(head, now)
	}
	return len(p.heads)
}
