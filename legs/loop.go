package legs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"smg/bus"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// tickEvery is the period of the loop.
const tickEvery = 250 * time.Millisecond

// loop does what time brings.
func (s *Service) loop(ctx context.Context) {
	tick, beat := time.NewTicker(tickEvery), time.NewTicker(worker.BeatInterval)
	defer tick.Stop()
	defer beat.Stop()
	var probing sync.WaitGroup
	defer probing.Wait()
	var pace worker.Loop
	s.step(ctx, &probing, false)
	s.beat()
	for {
		select {
		case <-ctx.Done():
			s.leave()
			return
		case <-beat.C:
			s.beat()
		case <-s.poke:
			s.probeDue(ctx, &probing)
		case <-s.newsDue.C:
			s.mu.Lock()
			s.publish()
			s.mu.Unlock()
		case <-tick.C:
			s.step(ctx, &probing, pace.Late(s.now(), tickEvery))
		}
	}
}

// step is one round of the loop.
func (s *Service) step(ctx context.Context, probing *sync.WaitGroup, late bool) {
	now := s.now()
	if !s.bus.Connected() {
		s.fold.Disconnected()
		s.mu.Lock()
		s.readiness.Disconnected()
		s.mu.Unlock()
	}
	s.fold.Tick(now, late)
	s.ranking.Tick(now, late)
	s.book.Tick(now)
	s.tick(true)
	s.tickQueue(now)
	if s.recorder != nil {
		s.recorder.Fleet(s.registry.Workers(), now)
	}
	s.probeDue(ctx, probing)
}

// tick decides readiness, whom this replica keeps, and which pools it is first for.
func (s *Service) tick(timed bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.readiness.Ready()
	if timed && s.informed && s.readiness.Tick(now, s.heard()) && !was {
		s.ready.Store(true)
		s.log.Debug("selector replica is ready", slog.Uint64("replica", uint64(s.cfg.Replica)))
		s.beat()
	}
	if stage, due := s.recall.Tick(now); due {
		s.askSnapshot(stage)
	}
	s.rank()
	at := s.agenda.moment(now)
	for i, k := range s.agenda.kept {
		if s.agenda.ticks[i] > at {
			continue
		}
		had, breaker := k.Stay(), k.Record().Breaker
		s.tell(k.Tick(k.first, now))
		k.turned(breaker)
		s.agenda.plan(k)
		if k.Stay() != had {
			s.turnedReady()
		}
		s.logVeto(k)
	}
	s.publish()
	s.registry.Lapse(now)
	s.bury(now)
	for p := range s.registry.Pools {
		p.SetFirst(s.first(worker.PoolKey(p.Leg(), p.Model())))
	}
}

func (s *Service) first(key uint64) bool {
	r, ok := s.ranking.First(key)
	return ok && r == s.cfg.Replica
}

// announced is what the policies read, in the words of a beat.
func announced(in policy.Inputs) wire.Reads {
	var r wire.Reads
	for _, x := range [...]struct {
		in policy.Inputs
		r  wire.Reads
	}{
		{policy.ReadsKey, wire.ReadsKey},
		{policy.ReadsSize, wire.ReadsSize},
		{policy.ReadsTokens, wire.ReadsTokens},
		{policy.ReadsText, wire.ReadsText},
		{policy.ReadsImplicitKey, wire.ReadsImplicitKey},
		{policy.ReadsPinnedKey, wire.ReadsPinnedKey},
		{policy.ReadsConversationKey, wire.ReadsConversationKey},
		{policy.NeedsText, wire.NeedsText},
	} {
		if in&x.in != 0 {
			r |= x.r
		}
	}
	return r
}

// beat tells everybody that this replica is there.
func (s *Service) beat() { s.sendBeat(false) }

// leave tells everybody that this replica answers no more.
func (s *Service) leave() {
	s.ready.Store(false)
	s.sendBeat(true)
}

func (s *Service) sendBeat(draining bool) {
	name, reads := s.Policy()
	b := wire.Beat{
		Replica: s.cfg.Replica, Leg: s.cfg.Leg, Ready: s.ready.Load(), Draining: draining,
		Build: s.cfg.Build, Versions: []uint32{wire.Version},
		Policies: []wire.PolicyUse{{Name: name, Reads: announced(reads)}},
	}
	for p := range s.registry.Pools {
		if p.Model() != "" && len(b.Models) < wire.MaxList {
			b.Models = append(b.Models, p.Model())
		}
	}
	if err := bus.Publish(s.bus, s.cfg.Cluster.Beat(s.cfg.Leg), &b); err != nil && !errors.Is(err, bus.ErrDisconnected) {
		s.log.Error("the replica's beat could not be sent", slog.Any("error", err))
	}
}
