package policy

import (
	"math"
	"slices"
	"sort"
	"time"

	"smg/worker"
)

// ranges divides prompt sizes among the workers of a model, in their order.
type ranges struct {
	members *worker.Members
	// upper is the inclusive upper bound of every worker's range but the last one's,
	// which is open-ended; ascending.
	upper  []int64
	share  int64   // of each worker when the bounds were last adjusted, 0 before
	sample []int64 // the sizes that they were adjusted to, ascending
	window window
}

// initialSizes is what the first ranges divide evenly.
const initialSizes = 4096

// adopt takes over who the members are. With other members the ranges are made anew,
// from the traffic that they were last made from.
func (r *ranges) adopt(m *worker.Members) {
	if m == r.members {
		return
	}
	same := r.members != nil && slices.EqualFunc(ids(r.members), ids(m), func(a, b worker.ID) bool { return a == b })
	r.members = m
	if same {
		return
	}
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

func ids(m *worker.Members) []worker.ID {
	all := make([]worker.ID, m.Len())
	for i := range all {
		all[i] = m.Spec(i).ID
	}
	return all
}

// owner is the member whose range a size is in.
func (r *ranges) owner(size int64) int {
	return sort.Search(len(r.upper), func(i int) bool { return size <= r.upper[i] })
}

// adjust makes new ranges from the window's sizes, if the load of a worker has
// changed by more than a factor of two since the last time, and says whether it did.
func (r *ranges) adjust() bool {
	if len(r.window.entries) == 0 || r.members == nil {
		return false
	}
	share := r.window.total / int64(r.members.Len())
	if r.share != 0 && share <= 2*r.share && r.share <= 2*share {
		return false
	}
	r.share = share
	r.sample = r.sample[:0]
	for _, e := range r.window.entries {
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

// forget drops a worker's load and says whether nobody is left.
func (r *ranges) forget(id worker.ID) (empty bool) {
	r.window.drop(id)
	return r.members == nil || r.members.Len() == 1 && r.members.Spec(0).ID == id
}

// sized is a request that was routed.
type sized struct {
	worker worker.ID
	lease  worker.LeaseID
	size   int64
	at     time.Time
}

// window is the requests that were routed lately, in order.
type window struct {
	entries []sized
	total   int64
	loads   map[worker.ID]int64
}

func (w *window) load(id worker.ID) int64 { return w.loads[id] }

func (w *window) add(e sized) {
	if w.loads == nil {
		w.loads = map[worker.ID]int64{}
	}
	w.entries = append(w.entries, e)
	w.total += e.size
	w.loads[e.worker] += e.size
}

// expire drops what was routed before since.
func (w *window) expire(since time.Time) {
	n := 0
	for n < len(w.entries) && w.entries[n].at.Before(since) {
		w.subtract(w.entries[n])
		n++
	}
	w.entries = w.entries[n:] // append moves them to the front of new memory in time
}

// remove takes one back.
func (w *window) remove(lease worker.LeaseID) {
	for i, e := range slices.Backward(w.entries) {
		if e.lease == lease {
			w.subtract(e)
			w.entries = slices.Delete(w.entries, i, i+1)
			return
		}
	}
}

// drop takes everything of a worker back.
func (w *window) drop(id worker.ID) {
	w.entries = slices.DeleteFunc(w.entries, func(e sized) bool {
		if e.worker == id {
			w.total -= e.size
		}
		return e.worker == id
	})
	delete(w.loads, id)
}

func (w *window) subtract(e sized) {
	w.total -= e.size
	if w.loads[e.worker] -= e.size; w.loads[e.worker] == 0 {
		delete(w.loads, e.worker)
	}
}
