package ingress

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"smg/worker"
)

// complaintEvery is how often a worker's failures are worth a line.
const complaintEvery = 10 * time.Second

// complaints keep the log readable while a worker fails every request.
type complaints struct {
	mu      sync.Mutex
	workers map[worker.ID]*complaint
}

type complaint struct {
	last    time.Time
	skipped int // failures since, without a line
}

// due counts a failure. It says whether the worker has a line coming, and how many
// failures had none.
func (c *complaints) due(id worker.ID, now time.Time) (skipped int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers == nil {
		c.workers = map[worker.ID]*complaint{}
	}
	w := c.workers[id]
	if w == nil {
		w = &complaint{}
		c.workers[id] = w
	}
	if now.Sub(w.last) < complaintEvery {
		w.skipped++
		return 0, false
	}
	skipped = w.skipped
	w.last, w.skipped = now, 0
	return skipped, true
}

// prune drops what was counted of the workers that are gone.
func (c *complaints) prune(gone func(worker.ID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.workers, func(id worker.ID, _ *complaint) bool { return gone(id) })
}

// complain tells the operator that a worker fails requests.
func (s *Server) complain(w *worker.Spec, why, request string) {
	if skipped, due := s.complaints.due(w.ID, s.now()); due {
		s.log.Warn("worker failed a request", slog.String("worker", w.URL), slog.String("leg", w.Leg.String()),
			slog.String("reason", why), slog.Int("failures_before", skipped), slog.String("request_id", request))
	}
}
