package simzmq

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"smg/sim/simhttp"
	"smg/zmtp"
)

// topic is what the messages begin with, as in the engines' examples.
const topic = "kv-events"

// remembered is how many batches are sent again at most, as many as an engine keeps.
const remembered = 10_000

// Publisher publishes for one engine, which must be made to tell of its cache.
type Publisher struct {
	engine *simhttp.Server
	events net.Listener
	replay net.Listener // may be nil
	pub    *zmtp.Publisher

	mu  sync.Mutex
	log []message
}

type message struct {
	seq     uint64
	payload []byte
}

// New is a publisher that owns its listeners. replay may be nil.
func New(engine *simhttp.Server, events, replay net.Listener) *Publisher {
	return &Publisher{engine: engine, events: events, replay: replay, pub: zmtp.NewPublisher(zmtp.DefaultConfig())}
}

// Run publishes until ctx ends.
func (p *Publisher) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.pub.Serve(ctx, p.events) })
	if p.replay != nil {
		g.Go(func() error { return zmtp.Serve(ctx, p.replay, zmtp.Router, zmtp.DefaultConfig(), p.answer) })
	}
	g.Go(func() error {
		for {
			err := p.engine.SubscribeKV(ctx, 0, func() error { return nil }, p.tell)
			if !errors.Is(err, simhttp.ErrKVSlow) {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
	})
	return g.Wait()
}

// tell publishes a batch. Engines count from 0.
func (p *Publisher) tell(b simhttp.KVBatch) error {
	cfg := p.engine.Config()
	m := message{b.Seq - 1, encode(cfg.Kind, cfg.Core.BlockSize, &b)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pub.Publish([]byte(topic), binary.BigEndian.AppendUint64(nil, m.seq), m.payload)
	if p.log = append(p.log, m); len(p.log) > remembered {
		p.log = slices.Clone(p.log[len(p.log)-remembered/2:])
	}
	return nil
}

// answer sends what a peer asks for: all from a number on, and a last one that says so.
func (p *Publisher) answer(c *zmtp.Conn) {
	for {
		ask, err := c.Receive()
		if err != nil {
			return
		}
		if len(ask) != 2 || len(ask[0]) > 0 || len(ask[1]) != 8 {
			continue // as engines do
		}
		from := binary.BigEndian.Uint64(ask[1])
		p.mu.Lock()
		log := slices.Clip(p.log)
		p.mu.Unlock()
		for _, m := range log {
			if m.seq >= from && c.Send(nil, binary.BigEndian.AppendUint64(nil, m.seq), m.payload) != nil {
				return
			}
		}
		if c.Send(nil, []byte("\xff\xff\xff\xff\xff\xff\xff\xff"), nil) != nil {
			return
		}
	}
}

// Listening waits until somebody listens, or ctx ends.
func (p *Publisher) Listening(ctx context.Context) bool {
	for p.pub.Subscribers() == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}
