package legs

import (
	"errors"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// subscribe listens to the leg's streams. stop ends what was begun, also after an
// error.
func (s *Service) subscribe() (stop func() error, err error) {
	var subs []*bus.Subscription
	stop = func() error {
		var errs []error
		for _, sub := range subs {
			errs = append(errs, sub.Stop())
		}
		return errors.Join(errs...)
	}
	keep := func(sub *bus.Subscription, e error) {
		if e != nil {
			err = errors.Join(err, e)
			return
		}
		subs = append(subs, sub)
	}
	c, leg := s.cfg.Cluster, s.cfg.Leg
	keep(bus.Subscribe(s.bus, c.Leases(leg), s.onLeases))
	keep(bus.Subscribe(s.bus, c.State(leg), s.onState))
	keep(bus.Subscribe(s.bus, c.Beat(leg), s.onBeat))
	return stop, err
}

// onLeases folds what an ingress tells of its calls.
func (s *Service) onLeases(b *worker.Batch) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = s.fold.Apply(b, now, s.events[:0])
	for _, e := range s.events {
		if k := s.keepers[e.Worker]; k != nil {
			s.tell(k.Outcome(e, now))
		}
	}
	s.publish()
}

// onBeat ranks a replica, itself among them.
func (s *Service) onBeat(b *wire.Beat) {
	if s.ranking.Apply(worker.ReplicaBeat{Replica: b.Replica, Ready: b.Ready, Draining: b.Draining}, s.now()) {
		s.tick(false)
	}
}

// onState takes what other keepers say, and answers those that have missed
// something.
func (s *Service) onState(m *wire.Records) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	heard := make([]worker.Record, 0, len(*m))
	for i := range *m {
		rec := (*m)[i].Record(now)
		k := s.keepers[rec.Worker]
		if k == nil {
			heard = append(heard, rec) // its worker may be on the way
			continue
		}
		held, answer := k.Hear(rec)
		heard = append(heard, held)
		s.tell(held, answer)
	}
	s.registry.InstallAll(heard)
	s.publish()
}
