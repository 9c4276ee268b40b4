package legs

import (
	"math"
	"time"

	"smg/worker"
)

// moment is an instant in nanoseconds since the service was made.
type moment int64

// never is the moment of what will not happen by time alone.
const never = moment(math.MaxInt64)

// agenda is when something is to be done for each keeper: a round of the loop looks at
// a number for each worker, and at the few whose time has come. It is guarded by
// Service.mu.
type agenda struct {
	base   time.Time
	kept   []*keeping
	ticks  []moment // [worker.Keeper.Tick]
	probes []moment // health probes
	polls  []moment // load polls
}

func (a *agenda) moment(t time.Time) moment { return moment(t.Sub(a.base)) }

// at is the moment of t, if that ever comes.
func (a *agenda) at(t time.Time, ever bool) moment {
	switch {
	case !ever:
		return never
	case t.IsZero():
		return math.MinInt64
	}
	return a.moment(t)
}

// add takes a keeper in, to be looked at at once.
func (a *agenda) add(k *keeping) {
	k.place = len(a.kept)
	a.kept = append(a.kept, k)
	a.ticks, a.probes, a.polls = append(a.ticks, math.MinInt64), append(a.probes, math.MinInt64), append(a.polls, math.MinInt64)
}

// remove takes a keeper out; the last one gets its place.
func (a *agenda) remove(k *keeping) {
	i, last := k.place, len(a.kept)-1
	a.kept[last].place = i
	a.kept[i], a.ticks[i], a.probes[i], a.polls[i] = a.kept[last], a.ticks[last], a.probes[last], a.polls[last]
	a.kept[last] = nil
	a.kept, a.ticks, a.probes, a.polls = a.kept[:last], a.ticks[:last], a.probes[:last], a.polls[:last]
}

// plan decides anew when something is to be done for k. It is called after everything
// that happens to a keeper.
func (a *agenda) plan(k *keeping) {
	a.ticks[k.place] = a.at(k.TickAt(k.first))
	a.probes[k.place] = a.at(k.ProbeAt())
	a.polls[k.place] = a.at(k.pollAt())
}

// pollAt is when the next load poll is due. A worker that is not to be polled is looked
// at as long as it has a report.
func (k *keeping) pollAt() (at time.Time, ever bool) {
	if k.every == 0 {
		return time.Time{}, k.engine != nil || k.Active() && k.Record().Status == worker.Ready && (k.Record().Report != nil || k.Record().Overloaded)
	}
	return k.PollAt(k.every)
}

// rank decides anew whom this replica keeps, if the ranking has changed since. s.mu is
// held.
func (s *Service) rank() {
	version := s.ranking.Version()
	if version == s.ranked {
		return
	}
	s.ranked = version
	for _, k := range s.agenda.kept {
		if first := s.first(worker.WorkerKey(k.spec.ID)); first != k.first {
			k.first = first
			s.agenda.plan(k)
		}
	}
}
