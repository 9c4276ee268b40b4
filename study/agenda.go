package study

import (
	"container/heap"
	"time"
)

// agenda is what is to happen, by time; what is due at the same time happens in the
// order in which it was put there.
type agenda struct {
	items items
	n     uint64
}

type item struct {
	at time.Duration
	n  uint64
	do func()
}

// add puts something on the agenda.
func (a *agenda) add(at time.Duration, do func()) {
	a.n++
	heap.Push(&a.items, item{at, a.n, do})
}

// next is when the next item is due. There must be one.
func (a *agenda) next() time.Duration { return a.items[0].at }

func (a *agenda) pop() item { return heap.Pop(&a.items).(item) }

type items []item

func (s items) Len() int      { return len(s) }
func (s items) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

func (s items) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].n < s[j].n
}

func (s *items) Push(x any) { *s = append(*s, x.(item)) }

func (s *items) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = item{}
	*s = (*s)[:last]
	return x
}
