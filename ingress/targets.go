package ingress

import (
	"context"
	"time"

	"smg/engine"
)

// Forgetter is a Dispatcher that keeps something of targets which it can let go of. See
// [engine.Client].
type Forgetter interface{ Forget(t *engine.Target) }

// forgetEvery is how often the targets of workers that are gone are let go of.
const forgetEvery = 30 * time.Second

// forgetting lets go of them until ctx ends.
func (s *Server) forgetting(ctx context.Context, f Forgetter) {
	t := time.NewTicker(forgetEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.forget(f)
		}
	}
}

// forget lets go of the targets of workers that are gone. A call that has one already is
// not disturbed.
func (s *Server) forget(f Forgetter) {
	there := map[string]struct{}{}
	for _, w := range s.fleet.Workers() {
		there[w.Spec.Base()] = struct{}{}
	}
	s.targets.Range(func(url, t any) bool {
		if _, ok := there[url.(string)]; !ok {
			s.targets.Delete(url)
			f.Forget(t.(*engine.Target))
		}
		return true
	})
}
