package legs

import (
	"errors"
	"log/slog"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// EngineLoads is what the engines of those workers report that this replica keeps, and
// whose last poll succeeded and holds. It is safe for concurrent use.
func (s *Service) EngineLoads() []worker.Loads {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []worker.Loads
	for _, k := range s.agenda.kept {
		rep := k.Record().Report
		if !k.Active() || rep == nil || rep.Stale(now) || k.engine == nil || k.engine.stay != k.Stay() || len(k.engine.ranks) == 0 {
			continue
		}
		all = append(all, worker.Loads{Worker: k.spec.ID, Ranks: k.engine.ranks})
	}
	return all
}

// onLoads tells an ingress.
func (s *Service) onLoads(ask *wire.LoadsAsk) {
	to := s.cfg.Cluster.Loads(s.cfg.Leg, ask.Asker)
	parts := wire.LoadsOf(ask.Question, s.cfg.Replica, s.EngineLoads())
	for i := range parts {
		if err := bus.Publish(s.bus, to, &parts[i]); err != nil && !errors.Is(err, bus.ErrDisconnected) {
			s.log.Error("loads of engines could not be told", slog.Any("error", err))
		}
	}
}
