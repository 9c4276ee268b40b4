package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Stage is one of the services of a process. It runs until its context ends; a stage
// that returns before that ends the process.
type Stage struct {
	Name string
	Run  func(ctx context.Context) error
}

// RunStages starts the stages in order and, once ctx ends or one of them returns,
// stops them in reverse order, each when the one above it has returned: requests
// end before the leases that announce them, and those before the bus.
func RunStages(ctx context.Context, stages []Stage) error {
	base := context.WithoutCancel(ctx)
	var (
		mu       sync.Mutex
		errs     []error
		stopping = make(chan struct{})
		once     sync.Once
		stops    []func()
	)
	for _, s := range stages {
		sctx, cancel := context.WithCancel(base)
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer once.Do(func() { close(stopping) })
			if err := s.Run(sctx); err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
				mu.Unlock()
			}
		}()
		stops = append(stops, func() {
			cancel()
			<-done
		})
	}
	select {
	case <-ctx.Done():
	case <-stopping:
	}
	for _, stop := range slices.Backward(stops) {
		stop()
	}
	return errors.Join(errs...)
}
