package worker

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Members is a pool's registered workers, whatever their state, in order. It is
// immutable and changes identity only when a worker comes, goes or is replaced.
type Members struct {
	specs []*Spec

	indexOnce sync.Once
	index     map[ID]int32

	memoOnce sync.Once
	memo     any

	kindsOnce sync.Once
	kinds     kinds
}

// Len is the number of registered workers.
func (m *Members) Len() int { return len(m.specs) }

// Spec is the i-th registered worker.
func (m *Members) Spec(i int) *Spec { return m.specs[i] }

// Index is the place of a worker among the members, or -1. The first call on a
// membership takes time linear in its size.
func (m *Members) Index(id ID) int {
	m.indexOnce.Do(func() {
		m.index = make(map[ID]int32, len(m.specs))
		for i, s := range m.specs {
			m.index[s.ID] = int32(i)
		}
	})
	if i, ok := m.index[id]; ok {
		return int(i)
	}
	return -1
}

// Memo computes a value that is a function of the membership alone (a hash ring)
// once, and drops it with the membership. All callers must pass the same build.
func (m *Members) Memo(build func(*Members) any) any {
	m.memoOnce.Do(func() { m.memo = build(m) })
	return m.memo
}

// Set is an immutable view of a pool: its members and which are available.
type Set struct {
	members   *Members
	available []*Worker // in member order
	loads     []*Load   // of available
	slot      []int32   // member index → index in available, or -1
	halfOpen  []int32   // indices in available, ascending
	vetoed    int

	signature atomic.Uint64 // 0 until the first use
	present   atomic.Pointer[[]bool]
}

// newSet is the set of a roster, which is in order and has no doubles.
func newSet(roster []*cell) *Set {
	s := &Set{
		members:   &Members{specs: make([]*Spec, len(roster))},
		available: make([]*Worker, 0, len(roster)),
		loads:     make([]*Load, 0, len(roster)),
		slot:      make([]int32, len(roster)),
	}
	for i, c := range roster {
		s.members.specs[i] = c.now.Spec
	}
	s.fill(roster)
	return s
}

// refreshed is a set over the same members, of whom any may have a new record.
func (s *Set) refreshed(roster []*cell) *Set {
	n := &Set{
		members:   s.members,
		available: make([]*Worker, 0, len(roster)),
		loads:     make([]*Load, 0, len(roster)),
		slot:      make([]int32, len(roster)),
	}
	n.fill(roster)
	return n
}

func (s *Set) fill(roster []*cell) {
	for i, c := range roster {
		w := c.now
		s.slot[i] = -1
		if w.Record.Overloaded {
			s.vetoed++
		}
		if w.Available() {
			s.slot[i] = int32(len(s.available))
			s.available = append(s.available, w)
			s.loads = append(s.loads, w.Load)
		}
	}
	s.findHalfOpen()
}

// with is a set over the same members, of whom the i-th has a new record. It
// shares what it can: a fleet that turns ready one by one must not cost a whole
// build each time.
func (s *Set) with(i int, old, w *Worker) *Set {
	n := &Set{members: s.members, slot: s.slot, vetoed: s.vetoed}
	if old.Record.Overloaded {
		n.vetoed--
	}
	if w.Record.Overloaded {
		n.vetoed++
	}
	was, is := s.slot[i] >= 0, w.Available()
	switch {
	case was && is:
		n.available = slices.Clone(s.available)
		n.available[s.slot[i]] = w
		n.loads = s.loads
		n.signature.Store(s.signature.Load())
	case was:
		at := int(s.slot[i])
		n.available = slices.Concat(s.available[:at], s.available[at+1:])
		n.loads = slices.Concat(s.loads[:at], s.loads[at+1:])
		n.slot = shifted(s.slot, i, -1)
		n.slot[i] = -1
	case is:
		at := len(s.available)
		for _, next := range s.slot[i+1:] {
			if next >= 0 {
				at = int(next)
				break
			}
		}
		n.available = slices.Concat(s.available[:at], []*Worker{w}, s.available[at:])
		n.loads = slices.Concat(s.loads[:at], []*Load{w.Load}, s.loads[at:])
		n.slot = shifted(s.slot, i, 1)
		n.slot[i] = int32(at)
	default:
		n.available, n.loads = s.available, s.loads
		n.signature.Store(s.signature.Load())
	}
	if len(s.halfOpen) > 0 || w.Record.Breaker == HalfOpen {
		n.findHalfOpen()
	}
	return n
}

// shifted is slot with by added behind member i.
func shifted(slot []int32, i int, by int32) []int32 {
	slot = slices.Clone(slot)
	for j := i + 1; j < len(slot); j++ {
		if slot[j] >= 0 {
			slot[j] += by
		}
	}
	return slot
}

func (s *Set) findHalfOpen() {
	for i, w := range s.available {
		if w.Record.Breaker == HalfOpen {
			s.halfOpen = append(s.halfOpen, int32(i))
		}
	}
}

// sign is the hash of the ordered ids of the available workers, never 0.
func (s *Set) sign() uint64 {
	if v := s.signature.Load(); v != 0 {
		return v
	}
	var d xxhash.Digest
	d.Reset()
	for _, w := range s.available {
		_, _ = d.Write(w.Spec.ID[:]) // never fails
	}
	v := max(1, d.Sum64())
	s.signature.Store(v)
	return v
}

// reason is why nothing of the set can be chosen.
func (s *Set) reason() error {
	switch n := s.members.Len(); {
	case n == 0:
		return ErrNoWorkers
	case s.vetoed == n:
		return ErrOverloaded
	}
	return ErrUnavailable
}
