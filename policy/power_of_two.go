package policy

import (
	"log/slog"

	"smg/worker"
)

// powerOfTwo takes the better of two workers drawn by chance, or of all that have
// the fewest calls in flight.
type powerOfTwo struct {
	wait
	metric string
	intN   func(n int) int
	logger *slog.Logger
}

var (
	_ Policy     = (*powerOfTwo)(nil)
	_ LoadReader = (*powerOfTwo)(nil)
)

func newPowerOfTwo(cfg PowerOfTwoConfig, deps Deps) *powerOfTwo {
	return &powerOfTwo{wait: defaultWait(), metric: cfg.Metric, intN: deps.IntN, logger: deps.Logger}
}

// Pick implements [Policy].
func (p *powerOfTwo) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	var d Decision
	var err error
	s := scored{seen: req.Seen}
	ask := req.ask(p.mean)
	d.Taken, err = pool.Take(&ask, func(v *worker.View) int {
		var room [2]int32
		return s.shortest(&p.wait, v, p.group(v, &room), p.intN)
	})
	s.log(p.logger, PowerOfTwo, &d, pool)
	return d, err
}

// group is the workers whose expected wait decides. Two of them fit into room.
func (p *powerOfTwo) group(v *worker.View, room *[2]int32) []int32 {
	switch n := v.Candidates(); {
	case n == 1:
		room[0] = int32(v.Candidate(0))
		return room[:1]
	case p.metric == LeastRequests:
		return idlest(v)
	default:
		p.pair(v, n, room)
	}
	if p.metric == Requests {
		switch a, b := v.Load(int(room[0])).Active(), v.Load(int(room[1])).Active(); {
		case a < b:
			return room[:1]
		case b < a:
			return room[1:]
		}
	}
	return room[:]
}

// pair draws two distinct ones of n candidates, each pair with the same chance.
func (p *powerOfTwo) pair(v *worker.View, n int, room *[2]int32) {
	i := p.intN(n)
	j := (i + 1 + p.intN(n-1)) % n
	room[0], room[1] = int32(v.Candidate(i)), int32(v.Candidate(j))
}

// idlest is the candidates with the fewest calls in flight, each count read once.
func idlest(v *worker.View) []int32 {
	all := v.All()
	fewest, kept := 0, 0
	for _, i := range all {
		n := v.Load(int(i)).Active()
		if kept == 0 || n < fewest {
			fewest, kept = n, 0
		}
		if n == fewest {
			all[kept] = i
			kept++
		}
	}
	return all[:kept]
}
