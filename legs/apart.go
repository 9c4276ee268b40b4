package legs

import (
	"log/slog"
	"time"

	"smg/wire"
	"smg/worker"
)

// Ready says whether this replica answers selects: it knows who exists, has heard the
// calls that are in flight, and is not leaving.
func (s *Service) Ready() bool { return s.ready.Load() }

// apart tells, once for each other replica of the leg, that it chooses by another
// policy. Half of the requests would go by one and half by the other, which looks like
// neither.
func (s *Service) apart(b *wire.Beat) {
	if b.Replica == s.cfg.Replica || b.Draining || len(b.Policies) == 0 {
		return
	}
	name, _ := s.Policy()
	other := b.Policies[0].Name
	if other == name {
		return
	}
	now := s.now()
	if _, told := s.others.Swap(b.Replica, now); told {
		return
	}
	s.others.Range(func(id, heard any) bool {
		if now.Sub(heard.(time.Time)) > worker.ReplicaSilent {
			s.others.Delete(id)
		}
		return true
	})
	s.log.Warn("another selector of this leg has another policy: requests go by the one or the other",
		slog.String("policy", name), slog.String("other_policy", other), slog.Uint64("other_replica", uint64(b.Replica)),
		slog.String("hint", "start all selectors of a leg with the same policy and flags; while they are being replaced one by one this passes by itself"))
}
