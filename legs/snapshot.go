package legs

import (
	"errors"
	"log/slog"
	"time"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// askSnapshot asks for what keepers have said. It waits for nobody: somebody tells it,
// and until then the replica goes by what it holds itself. s.mu is held.
func (s *Service) askSnapshot(stage worker.RecallStage) {
	ask := wire.Snapshot{Asker: uint64(s.cfg.Replica), Stage: stage}
	if err := bus.Publish(s.bus, s.cfg.Cluster.Snapshot(s.cfg.Leg), &ask); err != nil && !errors.Is(err, bus.ErrDisconnected) {
		s.log.Error("nobody could be asked for the records of workers", slog.Any("error", err))
	}
}

// onSnapshot tells one who asks, and before that, that this replica is there: an
// ingress that knows the workers, but nobody who chooses them, would choose by itself.
func (s *Service) onSnapshot(ask *wire.Snapshot) {
	if ask.Asker == uint64(s.cfg.Replica) {
		return
	}
	s.beat()
	if s.ranking.Recalls(ask.Stage, ask.Asker, s.cfg.Replica) {
		s.send(s.cfg.Cluster.SnapshotOf(s.cfg.Leg, ask.Asker), s.registry.Records(s.cfg.Leg))
	}
}

// missed asks for a snapshot because something that a keeper said was missed, unless
// that was done so lately that the keepers who are left have not repeated themselves
// since. s.mu is held.
func (s *Service) missed(now time.Time) {
	if now.Sub(s.recalled) >= worker.RecordRepeat {
		s.recalled = now
		s.askSnapshot(s.recall.Begin(now))
	}
}
