package legs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"smg/bus"
	"smg/policy"
	"smg/worker"
)

// PinStore is where the replicas of a leg keep the pins of keys: [bus.Versioned] is
// one. It is safe for concurrent use.
type PinStore interface {
	Write(ctx context.Context, pin *worker.Pin, after uint64) (bus.Stored[worker.Pin], error)
	Remove(ctx context.Context, key worker.PinKey, after uint64) (bus.Stored[worker.Pin], error)
	Watch(ctx context.Context, ev bus.VersionedEvents[worker.PinKey, worker.Pin]) error
}

const (
	// retryEvery is the wait before a write that failed is tried again.
	retryEvery = 250 * time.Millisecond
	// lastWrites bounds the writing of what has changed before the end.
	lastWrites = time.Second
)

// sharing keeps the pins of a leg and those of a store the same. Selection does not
// wait for it: it goes by the pins, one goroutine here writes, another one listens.
type sharing struct {
	store PinStore
	log   *slog.Logger
	now   func() time.Time
	heard func() // told when everything stored has been heard

	begun  chan struct{} // closed when pins is set
	pins   policy.SharedPins
	failed bool // what was told last; of the writer
}

// begin shares the pins of a book from now on. It is called under Service.mu, once
// there are any.
func (s *sharing) begin(book *policy.Book, replica worker.ReplicaID) {
	select {
	case <-s.begun:
	default:
		s.pins = book.SharePins(replica)
		close(s.begun)
	}
}

// known says whether what others have pinned is known, if they had anything to say.
func (s *sharing) known() bool {
	select {
	case <-s.begun:
		return s.pins.Known()
	default:
		return true
	}
}

// run shares pins until ctx ends. Until there are any it leaves the store alone.
func (s *sharing) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.begun:
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.listen(ctx) })
	g.Go(func() error {
		s.write(ctx)
		return nil
	})
	return g.Wait()
}

// listen takes over what is stored.
func (s *sharing) listen(ctx context.Context) error {
	return s.store.Watch(ctx, bus.VersionedEvents[worker.PinKey, worker.Pin]{
		Begin: s.pins.Begin,
		Put: func(_ worker.PinKey, in bus.Stored[worker.Pin]) {
			s.pins.Learn(in.Value, in.Revision, in.Age, s.now())
		},
		Delete: s.pins.Unlearn,
		Synced: func() {
			s.pins.Synced()
			s.heard()
		},
	})
}

// write stores what changes here, and at the end what has changed until then.
func (s *sharing) write(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
			defer cancel()
			s.writeAll(last)
			return
		case <-s.pins.Changed():
		case <-retry.C:
		}
		if !s.writeAll(ctx) {
			retry.Reset(retryEvery)
		}
	}
}

// writeAll stores one change after another, while the store takes them.
func (s *sharing) writeAll(ctx context.Context) (ok bool) {
	for {
		c, more := s.pins.Next()
		if !more {
			return true
		}
		if !s.writeOne(ctx, c) {
			return false
		}
	}
}

// writeOne stores a change, or says that now is no time for it.
func (s *sharing) writeOne(ctx context.Context, c policy.PinChange) (ok bool) {
	var is bus.Stored[worker.Pin]
	var err error
	if c.Forget() {
		is, err = s.store.Remove(ctx, c.Pin.Key, c.After)
	} else {
		is, err = s.store.Write(ctx, &c.Pin, c.After)
	}
	switch {
	case err == nil:
		s.pins.Stored(c, is.Revision, s.now())
	case !errors.Is(err, bus.ErrConflict):
		s.pins.Retry(c)
	case is.Value == nil && is.Revision != 0: // it cannot be read: it is a newer program's
		s.pins.Drop(c, s.now())
	default:
		s.pins.Conflict(c, is.Value, is.Revision, is.Age, s.now())
	}
	ok = err == nil || errors.Is(err, bus.ErrConflict)
	if ctx.Err() == nil {
		s.tell(ok, err)
	}
	return ok
}

// tell says when pins begin to be refused, and when that is over. That there is no
// connection is told where it is noticed.
func (s *sharing) tell(ok bool, err error) {
	switch {
	case ok && s.failed:
		s.failed = false
		s.log.Info("pins of sticky keys are stored again")
	case !ok && !s.failed && !errors.Is(err, bus.ErrDisconnected):
		s.failed = true
		s.log.Warn("pins of sticky keys cannot be stored; it is tried again until it works", slog.Any("error", err))
	}
}
