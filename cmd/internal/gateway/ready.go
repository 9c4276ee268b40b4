package gateway

import (
	"context"
	"time"
)

// fleet is what tells whether the gateway can serve.
type fleet interface {
	Readiness() (ready bool, healthy, total int)
}

// readyPoll is how often readiness is looked at until it is there.
const readyPoll = 20 * time.Millisecond

// awaitReady returns how many workers are ready once all of them are, or 0 when
// ctx ends before.
func (g *Gateway) awaitReady(ctx context.Context, f fleet) int {
	t := time.NewTicker(readyPoll)
	defer t.Stop()
	for {
		if ready, healthy, _ := f.Readiness(); ready && healthy >= len(g.cfg.WorkerURLs) {
			return healthy
		}
		select {
		case <-ctx.Done():
			return 0
		case <-t.C:
		}
	}
}
