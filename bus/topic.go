package bus

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"smg/wire"
)

// Most that may wait for a handler; beyond it messages are dropped. What waits
// that long is no news any more.
const (
	pendingMessages = 1 << 16
	pendingBytes    = 32 << 20
)

// flushTimeout bounds the wait for the server to know of a subscription.
const flushTimeout = 2 * time.Second

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Publish sends v to all subscribers of t, those of this process too. It does not
// wait for any of them. The error is [ErrDisconnected] when there is no
// connection; nothing is kept to be sent later.
func Publish[T any](c *Conn, t wire.Topic[T], v *T) error {
	return send(c, t, "", v)
}

// send publishes v, to be answered on reply unless that is "".
func send[T any](c *Conn, t wire.Topic[T], reply string, v *T) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	data, err := t.Append((*buf)[:0], v)
	if err == nil {
		*buf = data
		err = c.publish(t.Subject, reply, data)
	}
	if err != nil {
		c.metrics.publishErrors.WithLabelValues(t.Kind).Inc()
		return fmt.Errorf("publishing on %s: %w", t.Subject, err)
	}
	return nil
}

func (c *Conn) publish(subject, reply string, data []byte) error {
	switch {
	case !c.up.Load():
		return ErrDisconnected
	case reply == "":
		return sendError(c.nc.Publish(subject, data))
	default:
		return sendError(c.nc.PublishRequest(subject, reply, data))
	}
}

// Subscription is a running delivery of messages to a handler.
type Subscription struct {
	sub  *nats.Subscription
	gone chan struct{}
	stop func() error
}

// Subscribe has handle called with each message of t, one at a time, in the order
// of arrival, until the subscription is stopped or the connection closed. handle
// owns the value. When Subscribe returns, nothing that is published afterwards,
// by whomever, is missed while the connection lasts.
//
// A message that cannot be decoded, or that comes when too many wait for a slow
// handler, is dropped and counted; the first of each is logged.
func Subscribe[T any](c *Conn, t wire.Topic[T], handle func(*T)) (*Subscription, error) {
	return SubscribeReplies(c, t, handle, nil)
}

// subscribe has receive called with the messages on subject.
func subscribe(c *Conn, kind, subject string, receive func(*nats.Msg, *drops)) (*Subscription, error) {
	s, err := newSubscription(c, kind, subject, receive)
	if err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", subject, sendError(err))
	}
	return s, nil
}

func newSubscription(c *Conn, kind, subject string, receive func(*nats.Msg, *drops)) (*Subscription, error) {
	if !c.begin() {
		return nil, ErrDisconnected
	}
	d := &drops{conn: c, topic: kind, subject: subject}
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		d.check(m.Sub)
		receive(m, d)
	})
	if err != nil {
		c.handlers.Done()
		return nil, err
	}
	s := &Subscription{sub: sub, gone: make(chan struct{})}
	s.stop = sync.OnceValue(s.unsubscribe)
	c.watch(sub, func() { d.behind(sub) })
	gone := sync.OnceFunc(func() {
		c.watch(sub, nil)
		close(s.gone)
		c.handlers.Done()
	})
	sub.SetClosedHandler(func(string) { gone() })
	if !sub.IsValid() {
		gone() // the connection closed meanwhile, perhaps before it knew of the handler
	}
	err = sub.SetPendingLimits(pendingMessages, pendingBytes)
	// Without a connection the server is told when there is one again.
	if err == nil && c.nc.IsConnected() {
		err = c.nc.FlushTimeout(flushTimeout)
		if err != nil && !c.nc.IsConnected() {
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop ends the delivery and returns after the last call of the handler, which
// must not be the one that calls Stop. What waited for the handler is dropped.
func (s *Subscription) Stop() error { return s.stop() }

func (s *Subscription) unsubscribe() error {
	err := sendError(s.sub.Unsubscribe())
	if s.sub.IsValid() {
		return fmt.Errorf("unsubscribing from %s: %w", s.sub.Subject, err)
	}
	<-s.gone // closed by the connection too
	return nil
}

// drops accounts for the messages of one subscription that its handler never saw.
type drops struct {
	conn    *Conn
	topic   string
	subject string

	malformed sync.Once
	slow      sync.Once
	mute      sync.Once
	late      atomic.Bool // once behind, always watched

	mu      sync.Mutex
	counted int
}

func (d *drops) bad(err error) {
	d.conn.metrics.dropped.WithLabelValues(d.topic, malformed).Inc()
	d.malformed.Do(func() {
		d.conn.log.Warn("dropped a message that cannot be read; further ones are only counted",
			"subject", d.subject, "error", err)
	})
}

// unanswered is told that an answer was not sent. That the connection is gone is
// known.
func (d *drops) unanswered(err error) {
	if errors.Is(err, ErrDisconnected) {
		return
	}
	d.mute.Do(func() {
		d.conn.log.Warn("an answer could not be sent; further ones are only counted",
			"subject", d.subject, "error", err)
	})
}

func (d *drops) behind(sub *nats.Subscription) {
	d.late.Store(true)
	d.check(sub)
	d.slow.Do(func() {
		d.conn.log.Warn("dropped messages because their handler is slow; further ones are only counted",
			"subject", d.subject)
	})
}

func (d *drops) check(sub *nats.Subscription) {
	if !d.late.Load() {
		return
	}
	n, err := sub.Dropped()
	if err != nil {
		return // the subscription has ended
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n > d.counted {
		d.conn.metrics.dropped.WithLabelValues(d.topic, slow).Add(float64(n - d.counted))
		d.counted = n
	}
}
