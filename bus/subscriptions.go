package bus

import (
	"errors"
	"slices"

	"smg/wire"
)

// Subscriptions are several that begin and end together. The zero value is none.
// It is not safe for concurrent use.
type Subscriptions struct {
	subs []*Subscription
	err  error
}

// Join adds a subscription, as [Subscribe] makes it. After a failure nothing more
// is added; [Subscriptions.Err] tells of it.
func Join[T any](s *Subscriptions, c *Conn, t wire.Topic[T], handle func(*T)) {
	s.add(func() (*Subscription, error) { return Subscribe(c, t, handle) })
}

// JoinReplies adds an inbox, as [SubscribeReplies] makes it.
func JoinReplies[A any](s *Subscriptions, c *Conn, t wire.Topic[A], handle func(*A), nobody func(subject string)) {
	s.add(func() (*Subscription, error) { return SubscribeReplies(c, t, handle, nobody) })
}

// Serve adds the answering of requests, as [Answer] does it.
func Serve[Q, A any](s *Subscriptions, c *Conn, service wire.Service[Q, A], handle func(*Q) *A) {
	s.add(func() (*Subscription, error) { return Answer(c, service, handle) })
}

func (s *Subscriptions) add(subscribe func() (*Subscription, error)) {
	if s.err != nil {
		return
	}
	sub, err := subscribe()
	if err != nil {
		s.err = err
		return
	}
	s.subs = append(s.subs, sub)
}

// Err is why not all could be added, or nil.
func (s *Subscriptions) Err() error { return s.err }

// Stop ends them all, the last one first, and returns after the last call of a
// handler.
func (s *Subscriptions) Stop() error {
	var errs []error
	for _, sub := range slices.Backward(s.subs) {
		errs = append(errs, sub.Stop())
	}
	s.subs = nil
	return errors.Join(errs...)
}
