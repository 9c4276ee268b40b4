package zmtp

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
)

// Serve accepts connections to a socket of the given kind and has each handled, until
// ctx ends or the listener fails. It closes the listener, and returns after every handler
// has. Handlers get connections that are closed when ctx ends.
func Serve(ctx context.Context, ln net.Listener, kind Kind, cfg Config, handle func(*Conn)) error {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	for {
		raw, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return errors.Join(err, ln.Close())
		}
		handlers.Go(func() {
			agreeing, done := context.WithTimeout(ctx, cfg.Connect)
			c, err := Agree(agreeing, raw, kind, cfg)
			done()
			if err != nil {
				return
			}
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			defer func() { _ = c.Close() }()
			handle(c)
		})
	}
}

// highWater is how many messages wait for one subscriber before further ones are lost to
// it.
const highWater = 10_000

// Publisher is a PUB socket. It is safe for concurrent use.
type Publisher struct {
	cfg Config

	mu   sync.Mutex
	subs map[*subscriber]struct{}
}

// subscriber is one of those who listen.
type subscriber struct {
	queue  chan [][]byte // holds what the subscriber is slower than, see highWater
	topics map[string]int
}

// NewPublisher is a socket without connections.
func NewPublisher(cfg Config) *Publisher {
	return &Publisher{cfg: cfg, subs: map[*subscriber]struct{}{}}
}

// Serve takes subscribers until ctx ends, as [Serve] does.
func (p *Publisher) Serve(ctx context.Context, ln net.Listener) error {
	return Serve(ctx, ln, Pub, p.cfg, p.handle)
}

// Publish sends a message to all who have asked for its first frame's beginning. It does
// not wait. The frames must not be modified any more.
func (p *Publisher) Publish(frames ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subs {
		if s.wants(frames[0]) {
			select {
			case s.queue <- frames:
			default: // as PUB sockets do
			}
		}
	}
}

// Subscribers is how many have asked for something.
func (p *Publisher) Subscribers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.subs {
		if len(s.topics) > 0 {
			n++
		}
	}
	return n
}

func (s *subscriber) wants(topic []byte) bool {
	for t := range s.topics {
		if bytes.HasPrefix(topic, []byte(t)) {
			return true
		}
	}
	return false
}

// handle serves one subscriber.
func (p *Publisher) handle(c *Conn) {
	s := &subscriber{queue: make(chan [][]byte, highWater), topics: map[string]int{}}
	p.mu.Lock()
	p.subs[s] = struct{}{}
	p.mu.Unlock()
	done := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			select {
			case frames := <-s.queue:
				if c.Send(frames...) != nil {
					_ = c.Close() // which ends the reading below
					return
				}
			case <-done:
				return
			}
		}
	})
	for {
		frames, err := c.Receive()
		if err != nil {
			break
		}
		p.told(s, frames)
	}
	close(done)
	_ = c.Close()
	sending.Wait()
	p.mu.Lock()
	delete(p.subs, s)
	p.mu.Unlock()
}

// told changes what a subscriber wants.
func (p *Publisher) told(s *subscriber, frames [][]byte) {
	if len(frames) != 1 || len(frames[0]) == 0 {
		return
	}
	topic := string(frames[0][1:])
	p.mu.Lock()
	defer p.mu.Unlock()
	switch frames[0][0] {
	case 1:
		s.topics[topic]++
	case 0:
		if s.topics[topic]--; s.topics[topic] <= 0 {
			delete(s.topics, topic)
		}
	}
}
