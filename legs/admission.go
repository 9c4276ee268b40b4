package legs

import (
	"errors"
	"log/slog"
	"time"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// Rooms bounds what the workers of a leg get at a time.
type Rooms struct {
	// Bound says that they are bounded.
	Bound bool
	// Most is how many sequences a worker may have, 0 for as many as it reports to run
	// at a time.
	Most int
}

func isFull(err error) bool { return errors.Is(err, worker.ErrFull) }

// Enqueue is [Service.Select] for an ask that waits, up to ask.Wait, if nobody has room.
// Then the error is wire.ErrQueued, and reply is called with what becomes of it, unless
// the lease is ended before: it may be called before Enqueue returns, and more than once.
// reply must not block. An ask that is repeated keeps its place.
func (s *Service) Enqueue(ask *wire.Select, reply func(*wire.Reply)) (wire.Pick, error) {
	if !s.ready.Load() {
		return wire.Pick{}, wire.ErrSelectionUnavailable
	}
	pool := s.registry.Pool(s.cfg.Leg, ask.Model)
	if pool == nil || !s.cfg.Rooms.Bound {
		return s.Select(ask)
	}
	now := s.now()
	answer, full := s.queue.enter(ask, pool.Model(), reply, now)
	switch {
	case answer != nil:
		return answer.Pick, nil
	case full:
		return wire.Pick{}, worker.ErrFull
	}
	s.serveQueue(now)
	return wire.Pick{}, wire.ErrQueued
}

// answerLater is Enqueue for an ingress in another process.
func (s *Service) answerLater(ask *wire.Select) *wire.Reply {
	inbox := s.cfg.Cluster.Replies(ask.Lease.Incarnation)
	pick, err := s.Enqueue(ask, func(r *wire.Reply) {
		if err := bus.Publish(s.bus, inbox, r); err != nil && !errors.Is(err, bus.ErrDisconnected) {
			s.log.Error("an answer to a request that has waited could not be sent", slog.Any("error", err))
		}
	})
	r := &wire.Reply{Lease: ask.Lease, Replica: s.cfg.Replica}
	if errors.Is(err, wire.ErrQueued) {
		r.Queued = true
		return r
	}
	r.Pick, r.Err = pick, wire.ErrorOf(err)
	return r
}

// serveQueue has workers picked for those who wait, as far as there is room. While nobody
// waits it costs a look at a number.
func (s *Service) serveQueue(now time.Time) {
	if s.queue.size.Load() == 0 {
		return
	}
	room := func(model string, units int) bool {
		p := s.registry.Pool(s.cfg.Leg, model)
		return p == nil || p.Room(units)
	}
	s.sendAnswers(s.queue.serve(now, room, func(w *waiter) (wire.Pick, error) { return s.pick(w.ask, now, true) }))
}

// tickQueue ends what has waited too long.
func (s *Service) tickQueue(now time.Time) {
	if s.queue.size.Load() == 0 {
		return
	}
	s.sendAnswers(s.queue.tick(now, s.fold.Hears, s.fold.Holds))
	s.serveQueue(now)
}

func (s *Service) sendAnswers(answers []answered) {
	for _, a := range answers {
		a.reply.Replica = s.cfg.Replica
		a.send(a.reply)
	}
}

// leaveQueue takes those out whose leases have begun, wherever they went, or ended.
func (s *Service) leaveQueue(b *worker.Batch) {
	if s.queue.size.Load() == 0 {
		return
	}
	for i := range b.Entries {
		s.queue.leave(b.Entries[i].Lease.ID)
	}
}
