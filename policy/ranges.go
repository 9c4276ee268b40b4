package policy

import (
	"math"
	"slices"
	"sort"
	"time"

	"smg/worker"
)

// ranges divides prompt sizes among the workers of a model, in their order, and knows
// who was sent what lately.
type ranges struct {
	members *worker.Members
	// upper is the inclusive upper bound of every worker's range but the last one's,
	// which is open-ended; ascending.
	upper  []int64
	share  int64   // of each worker when the bounds were last adjusted, 0 before
	sample []int64 // the sizes that they were adjusted to, ascending

	// The window: what was routed lately, in order, and what it adds up to.
	entries []sized
	total   int64
	loads   []int64 // by member
}

// sized is a request that was routed.
type sized struct {
	member int32 // where it went
	lease  worker.LeaseID
	size   int64
	at     time.Time
}

// initialSizes is what the first ranges divide evenly.
const initialSizes = 4096

// adopt takes over who the members are. With other members the ranges are made anew,
// from the traffic that they were last made from, and who is gone is forgotten.
func (r *ranges) adopt(m *worker.Members) {
	if m == r.members {
		return
	}
	old := r.members
	r.members = m
	same := old != nil && old.Len() == m.Len()
	for i := 0; same && i < m.Len(); i++ {
		same = old.Spec(i).ID == m.Spec(i).ID
	}
	if same {
		return
	}
	r.move(old, m)
	if len(r.sample) > 0 {
		r.divide(m.Len())
		return
	}
	n := m.Len()
	gap := int64(initialSizes / n)
	r.upper = make([]int64, n-1)
	for i := range r.upper {
		r.upper[i] = int64(i+1)*gap - 1
	}
}

// move finds the members of the window anew.
func (r *ranges) move(old, m *worker.Members) {
	r.loads, r.total = make([]int64, m.Len()), 0
	kept := r.entries[:0]
	for _, e := range r.entries {
		if at := m.Index(old.Spec(int(e.member)).ID); at >= 0 {
			e.member = int32(at)
			kept = append(kept, e)
			r.total += e.size
			r.loads[at] += e.size
		}
	}
	r.entries = kept
}

// owner is the member whose range a size is in.
func (r *ranges) owner(size int64) int {
	return sort.Search(len(r.upper), func(i int) bool { return size <= r.upper[i] })
}

// adjust makes new ranges from the window's sizes, if the load of a worker has
// changed by more than a factor of two since the last time, and says whether it did.
func (r *ranges) adjust() bool {
	if len(r.entries) == 0 || r.members == nil {
		return false
	}
	share := r.total / int64(r.members.Len())
	if r.share != 0 && share <= 2*r.share && r.share <= 2*share {
		return false
	}
	r.share = share
	r.sample = r.sample[:0]
	for _, e := range r.entries {
		r.sample = append(r.sample, e.size)
	}
	slices.Sort(r.sample)
	old := r.upper
	r.divide(r.members.Len())
	return !slices.Equal(old, r.upper)
}

// divide gives each of n workers about the same share of the sample: a range ends
// with the size that fills the share. But a size that belongs to another mode of the
// traffic than those before it, or that is so frequent that with it the share would
// be filled twice, begins the next range.
func (r *ranges) divide(n int) {
	share := int64(0)
	for _, size := range r.sample {
		share += size
	}
	share /= int64(n)
	rest, lower := r.sample, int64(0)
	r.upper = make([]int64, 0, n-1)
	for range n - 1 {
		var upper int64
		upper, rest = cut(rest, lower, share)
		r.upper = append(r.upper, upper)
		lower = upper + 1
	}
}

// cut is where a range that begins at lower ends, and the sizes that are left.
func cut(sizes []int64, lower, share int64) (upper int64, rest []int64) {
	sum, before := int64(0), int64(0) // before: the last distinct size that is in
	for len(sizes) > 0 {
		size, n := sizes[0], 1
		for n < len(sizes) && sizes[n] == size {
			n++
		}
		with := sum + size*int64(n)
		if with < share {
			sum, before, sizes = with, size, sizes[n:]
			continue
		}
		if sum > 0 && (with >= 2*share || size > 2*before) {
			// Between the two, in the middle of their ratio.
			return max(lower, int64(math.Sqrt(float64(before)*float64(size)))), sizes
		}
		if size <= lower {
			return lower + share, sizes[n:]
		}
		return size, sizes[n:]
	}
	return lower + share, nil
}

// only says whether a worker is the last of the members.
func (r *ranges) only(id worker.ID) bool {
	return r.members == nil || r.members.Len() == 1 && r.members.Spec(0).ID == id
}

func (r *ranges) add(e sized) {
	r.entries = append(r.entries, e)
	r.total += e.size
	r.loads[e.member] += e.size
}

// expire drops what was routed before since.
func (r *ranges) expire(since time.Time) {
	n := 0
	for n < len(r.entries) && r.entries[n].at.Before(since) {
		r.subtract(r.entries[n])
		n++
	}
	r.entries = r.entries[n:] // append moves them to the front of new memory in time
}

// remove takes one back.
func (r *ranges) remove(lease worker.LeaseID) {
	for i, e := range slices.Backward(r.entries) {
		if e.lease == lease {
			r.subtract(e)
			r.entries = slices.Delete(r.entries, i, i+1)
			return
		}
	}
}

func (r *ranges) subtract(e sized) {
	r.total -= e.size
	r.loads[e.member] -= e.size
}
