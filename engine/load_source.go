package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// LoadTimeout bounds each of the two questions of a poll.
const LoadTimeout = 5 * time.Second

// LoadTarget is an engine to ask for its load.
type LoadTarget struct {
	BaseURL string
	APIKey  string // bearer; "" sends none
	Runtime string // RuntimeSGLang, RuntimeVLLM, RuntimeGeneric or another
}

// LoadSource asks one engine for its load by the route that it has. It remembers
// that an engine has no /v1/loads, so it belongs to one stay of a worker among
// the ready ones: whoever polls drops it when the worker leaves them, is replaced
// or removed. It is safe for concurrent use.
type LoadSource struct {
	prober  *Prober
	target  LoadTarget
	timeout time.Duration
	absent  atomic.Bool // there is no /v1/loads
}

// NewLoadSource returns the source for target. It asks nothing yet.
func NewLoadSource(p *Prober, target LoadTarget) *LoadSource {
	return &LoadSource{prober: p, target: target, timeout: LoadTimeout}
}

// Poll asks once: /v1/loads, unless the engine is known not to have it, and
// where that yields nothing /metrics, each within [LoadTimeout]. An error is "no
// report", and tells why.
func (s *LoadSource) Poll(ctx context.Context) (Loads, error) {
	var missing error
	if !s.absent.Load() {
		loads, err := s.ask(ctx, func(ctx context.Context) (Loads, error) {
			return s.prober.Loads(ctx, s.target.BaseURL, s.target.APIKey)
		})
		if err == nil {
			return loads, nil
		}
		if errors.Is(err, ErrNoLoads) {
			s.absent.Store(true)
		}
		missing = err
	}
	loads, err := s.ask(ctx, func(ctx context.Context) (Loads, error) {
		return s.prober.Metrics(ctx, s.target.BaseURL, s.target.APIKey, s.target.Runtime)
	})
	if err != nil && missing != nil {
		err = fmt.Errorf("%w; %w", missing, err)
	}
	return loads, err
}

func (s *LoadSource) ask(ctx context.Context, question func(context.Context) (Loads, error)) (Loads, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return question(ctx)
}
