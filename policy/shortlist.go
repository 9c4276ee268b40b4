package policy

import (
	"math"

	"smg/worker"
)

// Shortlisted is how many workers a [Shortlist] has at most.
const Shortlisted = 5

// Shortlist is what a policy that scores workers saw when it chose: the best of
// those that it compared, and how many they were. It is a value of plain numbers and
// of pointers to what never changes; filling it allocates nothing. The zero value is
// an empty one, and stays so where no scores are compared.
type Shortlist struct {
	Compared int     // workers that had a score
	Score    float64 // of the worker that was taken

	n    int
	best [Shortlisted]Contender

	// While scores are compared: the indices of the best and their scores, ascending.
	index  [Shortlisted]int32
	score  [Shortlisted]float64
	beaten float64 // a score below it gets on the list
}

// Contender is a worker as it was known when its score was compared.
type Contender struct {
	Worker *worker.Spec
	Score  float64        // expected wait in seconds; the lowest is taken
	Active int            // calls in flight
	Credit int64          // tokens sent to it since its last report
	Report *worker.Report // nil if it has said nothing that still holds
}

// Best is the best of the workers that were compared, the lowest score first. Of
// equal ones those that were compared first are listed, so the worker that was taken
// need not be among them.
func (l *Shortlist) Best() []Contender { return l.best[:l.n] }

// Reset empties the list, for another choice.
func (l *Shortlist) Reset() { l.Compared, l.Score, l.n = 0, 0, 0 }

// begin starts a comparison; of several for one choice the last one counts. A nil
// list takes part in nothing.
func (l *Shortlist) begin() {
	if l != nil {
		l.n, l.beaten = 0, math.Inf(1)
	}
}

// offer puts a worker on the list if its score is good enough.
func (l *Shortlist) offer(index int, score float64) {
	if score >= l.beaten {
		return
	}
	at := min(l.n, Shortlisted-1)
	for ; at > 0 && score < l.score[at-1]; at-- {
		l.index[at], l.score[at] = l.index[at-1], l.score[at-1]
	}
	l.index[at], l.score[at] = int32(index), score
	if l.n < Shortlisted {
		l.n++
	}
	if l.n == Shortlisted {
		l.beaten = l.score[Shortlisted-1]
	}
}

// contest finds the lowest score, and the shortlist if there is one.
type contest struct {
	draw
	seen *Shortlist
}

// offer enters a worker, and returns the highest score that may still matter.
func (c *contest) offer(index int, score float64, intN func(int) int) (limit float64) {
	c.draw.offer(index, score, intN)
	if c.seen == nil {
		return c.draw.score
	}
	c.seen.offer(index, score)
	return c.seen.beaten
}

// end notes what is known of those on the list.
func (l *Shortlist) end(v *worker.View, compared int, score float64) {
	if l == nil {
		return
	}
	l.Compared, l.Score = compared, score
	for k := range l.n {
		i := int(l.index[k])
		load := v.Load(i)
		l.best[k] = Contender{v.Worker(i).Spec, l.score[k], load.Active(), load.Credit(), v.Report(i)}
	}
}
