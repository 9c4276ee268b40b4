package radix

// chunk is how many values an arena allocates at a time.
const chunk = 1 << 8

// arena holds values of one type and names them by numbers from 1. A value never
// moves, growing copies nothing, and links between values are half the size of
// pointers and not the garbage collector's business.
type arena[T any] struct {
	chunks []*[chunk]T
	used   uint32   // numbers handed out so far, the given back ones included
	free   []uint32 // given back
}

// at is the value under a number that was handed out.
func (a *arena[T]) at(i uint32) *T { return &a.chunks[i/chunk][i%chunk] }

// has says whether the number was ever handed out.
func (a *arena[T]) has(i uint32) bool { return i != 0 && i <= a.used }

func (a *arena[T]) len() int { return int(a.used) - len(a.free) }

// take hands out a zero value.
func (a *arena[T]) take() (uint32, *T) {
	if n := len(a.free); n > 0 {
		i := a.free[n-1]
		a.free = a.free[:n-1]
		return i, a.at(i)
	}
	a.used++
	if int(a.used/chunk) == len(a.chunks) {
		a.chunks = append(a.chunks, new([chunk]T))
	}
	return a.used, a.at(a.used)
}

func (a *arena[T]) give(i uint32) {
	*a.at(i) = *new(T)
	a.free = append(a.free, i)
}
