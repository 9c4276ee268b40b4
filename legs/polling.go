package legs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"smg/worker"
)

// newsDelay is how long what polls found may wait for more of it: a report costs
// little beside the swap of the pools that it is in.
const newsDelay = 100 * time.Millisecond

// gather is how long a worker that has turned ready may wait for others that do.
const gather = 10 * time.Millisecond

// staleAfter is how many poll intervals a report holds.
const staleAfter = 3

// loadPoll is a poll to be sent.
type loadPoll struct {
	k      *keeping
	stay   uint64
	source LoadSource
	every  time.Duration
}

// pollLoads has every ready worker that this replica keeps polled at its interval,
// until ctx ends.
func (s *Service) pollLoads(ctx context.Context) {
	if s.loads == nil {
		return
	}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var polling sync.WaitGroup
	defer polling.Wait()
	for {
		for _, p := range s.pollsDue() {
			place, ok := s.lanes.enter(ctx)
			if !ok {
				return
			}
			polling.Go(func() {
				defer place.leave()
				s.poll(ctx, p)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.turned:
			pause(ctx, gather)
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// turnedReady has the schedule looked at soon: a worker may be due.
func (s *Service) turnedReady() {
	select {
	case s.turned <- struct{}{}:
	default: // told already
	}
}

// pollsDue are the polls whose time has come. A worker that is not to be polled any
// more has reported nothing.
func (s *Service) pollsDue() []loadPoll {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.regroup()
	var due []loadPoll
	at := s.agenda.moment(now)
	for i, k := range s.agenda.kept {
		if s.agenda.polls[i] > at {
			continue
		}
		if k.every == 0 {
			k.engine = nil
			s.tell(k.Report(nil, false, now))
			s.agenda.plan(k)
			continue
		}
		stay, ok := k.PollDue(now, k.every)
		s.agenda.plan(k)
		if !ok {
			continue
		}
		if k.source == nil || k.asked != stay {
			k.asked, k.source = stay, s.loads(k.spec)
		}
		due = append(due, loadPoll{k, stay, k.source, k.every})
	}
	s.publish()
	return due
}

// join decides how often a worker that has come is polled. If that changes how often
// others are, regroup does it. s.mu is held.
func (s *Service) join(k *keeping) {
	if s.grouped && s.rhythms.add(&s.cfg.Loads, k.spec, s.book.ReadsLoads) {
		k.every = s.rhythms.every(k.spec)
		return
	}
	s.grouped = false
}

// regroup decides anew how often workers are polled, if any has come, gone or
// changed. s.mu is held.
func (s *Service) regroup() {
	if s.grouped {
		return
	}
	s.grouped = true
	specs := make([]*worker.Spec, 0, len(s.keepers))
	for _, k := range s.keepers {
		specs = append(specs, k.spec)
	}
	s.rhythms = s.cfg.Loads.rhythms(specs, s.book.ReadsLoads)
	for _, k := range s.agenda.kept {
		k.every = s.rhythms.every(k.spec)
		s.agenda.plan(k)
	}
}

// poll asks one worker for its load and tells its keeper, unless the worker has left
// the ready ones meanwhile.
func (s *Service) poll(ctx context.Context, p loadPoll) {
	if !s.stays(p) {
		return
	}
	sent := s.now()
	loads, err := p.source.Poll(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the service stops: this says nothing about the worker
	}
	if err == nil && !loads.Sums.Sound() {
		err = errors.New("the report has numbers that cannot be")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kept(p.k) || p.k.Stay() != p.stay {
		return
	}
	var rep *worker.Report
	if err == nil && p.k.every != 0 {
		rep = &loads.Sums
		rep.PolledAt, rep.GoodFor = sent, staleAfter*p.every
		p.k.engine = newEngineLoad(p.k.spec, p.stay, loads.Ranks)
	}
	over := rep != nil && p.k.spec.Overload.Or(s.cfg.Loads.Overload).Veto(rep)
	quiet := len(s.news) == 0
	s.tell(p.k.Polled(p.stay, rep, over, s.now()))
	s.agenda.plan(p.k)
	if quiet && len(s.news) > 0 {
		s.newsDue.Reset(newsDelay)
	}
	s.logPoll(p.k, err)
	s.logVeto(p.k)
	if errors.Is(err, syscall.ECONNREFUSED) {
		s.suspect(p.k, s.now())
	}
}

// stays says whether a poll still makes sense.
func (s *Service) stays(p loadPoll) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept(p.k) && p.k.Stay() == p.stay
}

// logPoll writes a line when the reason why a worker's polls fail has changed.
func (s *Service) logPoll(k *keeping, err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	if reason != "" && reason != k.unpolled {
		s.log.Debug("load poll failed", append(k.attrs(), slog.String("reason", reason))...)
	}
	k.unpolled = reason
}

// logVeto writes a line when a worker that this replica keeps has become overloaded,
// or is so no more.
func (s *Service) logVeto(k *keeping) {
	rec := k.Record()
	was := k.vetoed
	if k.vetoed = rec.Overloaded; k.vetoed == was || !k.Active() {
		return
	}
	if !k.vetoed {
		s.log.Info("worker is not overloaded any more", k.attrs()...)
		return
	}
	attrs := k.attrs()
	if r := rec.Report; r != nil {
		attrs = append(attrs, slog.Int64("waiting", r.Waiting), slog.Float64("token_usage", r.KVUsage))
	}
	s.log.Warn("worker is overloaded and gets no requests", attrs...)
}
