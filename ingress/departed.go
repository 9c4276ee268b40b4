package ingress

import (
	"context"
	"sync"
	"time"

	"smg/engine"
	"smg/worker"
)

// Forgetter is a Dispatcher that keeps something of targets which it can let go of. See
// [engine.Client].
type Forgetter interface{ Forget(t *engine.Target) }

// forgetEvery is how often what is known of workers that are gone is let go of.
const forgetEvery = 30 * time.Second

// forgetting lets go of it until ctx ends.
func (s *Server) forgetting(ctx context.Context) {
	t := time.NewTicker(forgetEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.forget()
		}
	}
}

// forget lets go of everything that is kept of a worker, of those that are gone. A call
// that has something of it already is not disturbed.
func (s *Server) forget() {
	workers := s.fleet.Workers()
	ids, urls := make(map[worker.ID]bool, len(workers)), make(map[string]bool, len(workers))
	for _, w := range workers {
		ids[w.Spec.ID], urls[w.Spec.Base()] = true, true
	}
	s.targets.Range(func(url, t any) bool {
		if !urls[url.(string)] {
			s.targets.Delete(url)
			if s.forgetter != nil {
				s.forgetter.Forget(t.(*engine.Target))
			}
		}
		return true
	})
	for _, m := range []*sync.Map{&s.warned, &s.deaf} {
		m.Range(func(id, _ any) bool {
			if !ids[id.(worker.ID)] {
				m.Delete(id)
			}
			return true
		})
	}
	gone := func(id worker.ID) bool { return !ids[id] }
	s.engineIDs.prune(gone)
	s.complaints.prune(gone)
	if s.ranks != nil {
		s.ranks.prune(func(url string) bool { return !urls[url] })
	}
}
