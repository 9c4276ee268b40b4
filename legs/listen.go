package legs

import (
	"time"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// subscribe listens to the leg's streams.
func (s *Service) subscribe(subs *bus.Subscriptions) error {
	c, leg := s.cfg.Cluster, s.cfg.Leg
	bus.Join(subs, s.bus, c.Leases(leg), s.onLeases)
	bus.Join(subs, s.bus, c.State(leg), func(m *wire.Records) { s.onState(m, true) })
	bus.Join(subs, s.bus, c.SnapshotOf(leg, uint64(s.cfg.Replica)), func(m *wire.Records) { s.onState(m, false) })
	bus.Join(subs, s.bus, c.Snapshot(leg), s.onSnapshot)
	bus.Join(subs, s.bus, c.LoadsAsk(leg), s.onLoads)
	bus.Join(subs, s.bus, c.Beat(leg), s.onBeat)
	bus.Serve(subs, s.bus, c.Select(leg, s.cfg.Replica), s.answer)
	return subs.Err()
}

// answer is Select for an ingress in another process.
func (s *Service) answer(ask *wire.Select) *wire.Reply {
	if ask.Wait > 0 {
		return s.answerLater(ask)
	}
	pick, err := s.Select(ask)
	return &wire.Reply{Lease: ask.Lease, Replica: s.cfg.Replica, Pick: pick, Err: wire.ErrorOf(err)}
}

// onLeases folds what an ingress tells of its calls.
func (s *Service) onLeases(b *worker.Batch) {
	now := s.now()
	if s.recorder != nil {
		s.recorder.Leases(b, now)
	}
	s.leaveQueue(b)
	s.foldLeases(b, now)
	s.serveQueue(now)
}

func (s *Service) foldLeases(b *worker.Batch, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = s.fold.Apply(b, now, s.events[:0])
	for _, e := range s.events {
		if e.Unreached {
			s.book.Undo(e.Lease)
		}
		if k := s.keepers[e.Worker]; k != nil {
			s.outcome(k, e, now)
			if e.Unreached && e.Outcome == worker.Failure {
				s.suspect(k, now)
			}
			s.agenda.plan(k)
		}
	}
	s.publish()
}

// onBeat ranks a replica, itself among them.
func (s *Service) onBeat(b *wire.Beat) {
	s.apart(b)
	if s.ranking.Apply(worker.ReplicaBeat{Replica: b.Replica, Ready: b.Ready, Draining: b.Draining}, s.now()) {
		s.tick(false)
	}
}

// onState takes what other keepers say, or others who have heard them, and answers
// those that have missed something. Records of a stream show what was missed here.
func (s *Service) onState(m *wire.Records, stream bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !stream {
		s.recall.Answered()
	}
	now := s.now()
	heard, whole := make([]worker.Record, 0, len(*m)), true
	for i := range *m {
		rec := (*m)[i].Record(now)
		k := s.keepers[rec.Worker]
		if k == nil {
			heard = append(heard, rec) // its worker may be on the way
			continue
		}
		whole = whole && rec.Follows(k.Record())
		held, answer := k.Hear(rec)
		s.agenda.plan(k)
		heard = append(heard, held)
		s.renewed(k, held.Epoch)
		s.tell(held, answer)
	}
	s.registry.InstallAll(heard)
	s.publish()
	if stream && !whole {
		s.missed(now)
	}
}
