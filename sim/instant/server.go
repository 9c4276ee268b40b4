package instant

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Config describes the answers.
type Config struct {
	// OwnedBy is the owner in /v1/models, by which routers tell engines apart:
	// "sglang" or "vllm".
	OwnedBy string
	Model   string
	// Tokens is the number of events in a stream, and of words in an answer.
	Tokens int
	// Gap is the time between the events of a stream. 0 sends them at once.
	Gap time.Duration
	// EventsPerWrite is how many events share one write. With a Gap it also
	// is how many are due at the same moment.
	EventsPerWrite int
}

// DefaultConfig answers with 16 tokens, one write each in streams.
func DefaultConfig() Config {
	return Config{OwnedBy: "sglang", Model: "sim", Tokens: 16, EventsPerWrite: 1}
}

// Validate reports every fault at once, each naming the flag that sets the
// field.
func (c Config) Validate() error {
	var faults []error
	const most = 1 << 16
	if c.OwnedBy != "sglang" && c.OwnedBy != "vllm" {
		faults = append(faults, fmt.Errorf("--engine must be sglang or vllm, not %q", c.OwnedBy))
	}
	if c.Model == "" {
		faults = append(faults, errors.New("--model must not be empty"))
	}
	if c.Tokens < 1 || c.Tokens > most {
		faults = append(faults, fmt.Errorf("--instant-tokens must be between 1 and %d, not %d", most, c.Tokens))
	}
	if c.Gap < 0 {
		faults = append(faults, fmt.Errorf("--instant-gap-ms must not be negative, not %v", c.Gap))
	}
	if c.EventsPerWrite < 1 {
		faults = append(faults, fmt.Errorf("--instant-events-per-write must be at least 1, not %d", c.EventsPerWrite))
	}
	return errors.Join(faults...)
}

// Server answers. It is safe for concurrent use, and one Server may serve many
// listeners.
type Server struct {
	answers answers
	gap     time.Duration
}

// New renders the answers.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Server{answers: render(cfg), gap: cfg.Gap}, nil
}

// Serve answers on l until ctx ends, then closes l and all connections and
// returns when their goroutines have ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var (
		mu    sync.Mutex
		open  = map[net.Conn]struct{}{}
		conns sync.WaitGroup
	)
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		for c := range open {
			_ = c.Close()
		}
	})
	defer func() {
		cancel()
		<-closed
		conns.Wait()
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept: %w", err)
		}
		mu.Lock()
		if ctx.Err() != nil {
			mu.Unlock()
			_ = c.Close()
			return nil
		}
		open[c] = struct{}{}
		mu.Unlock()
		conns.Go(func() {
			newConn(c, s).run(ctx)
			mu.Lock()
			delete(open, c)
			mu.Unlock()
			_ = c.Close()
		})
	}
}
