package policy

// draw keeps the lowest of what it is offered, each of equals with the same chance, in
// one pass and without memory (reservoir sampling). Of n equals about log n cost a
// random number: which one is taken next is drawn, not whether each is.
type draw struct {
	index int
	score float64
	equal int // offers as low as score, 0 before the first
	next  int // the equal that is taken next, 0 while it is not drawn
}

func (d *draw) offer(index int, score float64, intN func(int) int) {
	switch {
	case d.equal == 0 || score < d.score:
		d.index, d.score, d.equal, d.next = index, score, 1, 0
	case score == d.score:
		if d.next == 0 {
			d.next = d.jump(intN)
		}
		if d.equal++; d.equal == d.next {
			d.index = index
			d.next = d.jump(intN)
		}
	}
}

// jump draws which equal is taken next: with the i-th one held, none of those up to
// the m-th is with a chance of i/m.
func (d *draw) jump(intN func(int) int) int {
	const fine = 1 << 53
	return int(min(1<<62, float64(d.equal)*fine/float64(1+intN(fine)))) + 1
}

// fewest is the index of the lowest count in a group of admitted indices, ties
// broken uniformly.
func fewest(group []int32, count func(i int) int, intN func(int) int) int {
	var best draw
	for _, i := range group {
		best.offer(int(i), float64(count(int(i))), intN)
	}
	return best.index
}
