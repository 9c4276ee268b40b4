package worker

import "slices"

// maxSlots bounds what a ledger remembers. Below it every start is told apart;
// above it neighbours in time are merged, so that the resolution stays within a
// twenty-fourth of the time since the last report.
const (
	maxSlots   = 64
	resolution = 24
)

// slot is the starts folded from first to last, in nanoseconds of the fold's clock.
type slot struct {
	first, last int64
	sum         sum
}

// ledger is the credit of one worker by age: what was started since the last
// report. Times must not decrease from one add to the next.
type ledger struct {
	sum   sum
	width int64 // starts this close share a slot
	slots []slot
}

func (l *ledger) add(at, tokens int64) {
	one := sum{1, tokens}
	l.sum = l.sum.plus(one)
	if n := len(l.slots); n > 0 && at-l.slots[n-1].first <= l.width {
		l.slots[n-1].last = at
		l.slots[n-1].sum = l.slots[n-1].sum.plus(one)
		return
	}
	if len(l.slots) == maxSlots {
		l.merge()
	}
	l.slots = append(l.slots, slot{at, at, one})
}

// merge joins neighbours into slots of a greater width, of which two can never be
// joined: so no more than 2*resolution+1 are left.
func (l *ledger) merge() {
	l.width = (l.slots[len(l.slots)-1].last - l.slots[0].first) / resolution
	n := 0
	for _, s := range l.slots[1:] {
		if into := &l.slots[n]; s.last-into.first <= l.width {
			into.last = s.last
			into.sum = into.sum.plus(s.sum)
			continue
		}
		n++
		l.slots[n] = s
	}
	l.slots = l.slots[:n+1]
}

// takeBack undoes an add, unless a report has cleared it since.
func (l *ledger) takeBack(at, tokens int64) {
	i, _ := slices.BinarySearchFunc(l.slots, at, func(s slot, at int64) int {
		switch {
		case s.last < at:
			return -1
		case s.first > at:
			return 1
		}
		return 0
	})
	if i == len(l.slots) || l.slots[i].first > at {
		return
	}
	one := sum{1, tokens}
	l.slots[i].sum = l.slots[i].sum.minus(one)
	l.sum = l.sum.minus(one)
}

// clear drops what was added before the instant at.
func (l *ledger) clear(at int64) {
	n := 0
	for n < len(l.slots) && l.slots[n].last < at {
		l.sum = l.sum.minus(l.slots[n].sum)
		n++
	}
	if n > 0 {
		l.slots = slices.Delete(l.slots, 0, n)
		l.width = 0
	}
}
