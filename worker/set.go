package worker

import (
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Members is a pool's registered workers, whatever their state, in order. It is
// immutable and changes identity only when a worker comes, goes or is replaced.
type Members struct {
	specs []*Spec
	index map[ID]int32

	memoOnce sync.Once
	memo     any
}

func newMembers(specs []*Spec) *Members {
	m := &Members{specs: specs, index: make(map[ID]int32, len(specs))}
	for i, s := range specs {
		m.index[s.ID] = int32(i)
	}
	return m
}

// Len is the number of registered workers.
func (m *Members) Len() int { return len(m.specs) }

// Spec is the i-th registered worker.
func (m *Members) Spec(i int) *Spec { return m.specs[i] }

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
	slot      []int32   // member index → index in available, or -1
	halfOpen  []int32   // indices in available, ascending
	signature uint64
	vetoed    int
}

func newSet(members *Members, worker func(i int) *Worker) *Set {
	s := &Set{members: members, slot: make([]int32, members.Len())}
	var d xxhash.Digest
	d.Reset()
	for i := range members.Len() {
		w := worker(i)
		s.slot[i] = -1
		if w.Record.Overloaded {
			s.vetoed++
		}
		if !w.Record.Available() {
			continue
		}
		s.slot[i] = int32(len(s.available))
		if w.Record.Breaker == HalfOpen {
			s.halfOpen = append(s.halfOpen, s.slot[i])
		}
		s.available = append(s.available, w)
		_, _ = d.Write(w.Spec.ID[:]) // never fails
	}
	s.signature = d.Sum64()
	return s
}

// View is what a choice runs over: the available workers of a pool by index, less
// those that this one request must not get. It is valid only inside [Pool.Take].
type View struct {
	set      *Set
	excluded []int32 // ascending, without doubles
	room     [16]int32
}

// Len is the number of available workers; indices run from 0 in member order.
func (v *View) Len() int { return len(v.set.available) }

// Candidates is the number of indices that may be chosen, at least 1.
func (v *View) Candidates() int { return len(v.set.available) - len(v.excluded) }

// Admits says whether index i may be chosen: not tried before by this request
// (while another candidate exists), and with a free slot if half open.
func (v *View) Admits(i int) bool {
	return len(v.excluded) == 0 || !slices.Contains(v.excluded, int32(i))
}

// Candidate maps k in [0, Candidates()) to the index of the k-th candidate.
func (v *View) Candidate(k int) int {
	for _, e := range v.excluded {
		if k < int(e) {
			break
		}
		k++
	}
	return k
}

// Worker is the available worker at index i.
func (v *View) Worker(i int) *Worker { return v.set.available[i] }

// Members is the pool's registered workers.
func (v *View) Members() *Members { return v.set.members }

// Slot is the index of the i-th member, or -1 while it is not available.
func (v *View) Slot(member int) int { return int(v.set.slot[member]) }

// Signature identifies the ordered set of available workers, whatever of it this
// request has to avoid.
func (v *View) Signature() uint64 { return v.set.signature }

// prepare excludes what lease may not get and reports whether a candidate is left.
// probes and first decide on half-open workers; skip is soft.
func (v *View) prepare(s *Set, skip []ID, first bool, admit int) bool {
	v.set, v.excluded = s, v.room[:0]
	for _, i := range s.halfOpen {
		if !first || s.available[i].Load.Probes() >= admit {
			v.excluded = append(v.excluded, i)
		}
	}
	hard := len(v.excluded)
	if hard == len(s.available) {
		return false
	}
	for _, id := range skip {
		m, ok := s.members.index[id]
		if !ok || s.slot[m] < 0 || slices.Contains(v.excluded, s.slot[m]) {
			continue
		}
		v.excluded = append(v.excluded, s.slot[m])
	}
	if len(v.excluded) == len(s.available) {
		v.excluded = v.excluded[:hard]
	}
	slices.Sort(v.excluded)
	return true
}
