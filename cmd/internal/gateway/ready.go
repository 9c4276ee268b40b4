package gateway

import (
	"context"
	"time"
)

// Readiness is looked at often at first, seldom while a worker stays away.
const (
	readyPoll    = 10 * time.Millisecond
	maxReadyPoll = time.Second / 4
)

// awaitReady returns how many workers are ready once all of them are, or 0 when
// ctx ends before.
func (g *Gateway) awaitReady(ctx context.Context, look func() (ready bool, healthy, total int)) int {
	want, pause := len(candidates(g.cfg)), readyPoll
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		if ready, healthy, _ := look(); ready && healthy >= want {
			return healthy
		}
		select {
		case <-ctx.Done():
			return 0
		case <-t.C:
		}
		pause = min(pause+pause/8, maxReadyPoll)
		t.Reset(pause)
	}
}
