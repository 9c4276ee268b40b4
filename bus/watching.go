package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// watcher is told of a bucket as it is. Its methods are called one at a time.
type watcher interface {
	// begin: the bucket is told as a whole from here on. It may be another one than
	// before.
	begin()
	// entry: what is or was in the bucket, at its time.
	entry(e jetstream.KeyValueEntry)
	// synced: the whole bucket has been told. After an error it is told anew.
	synced(ctx context.Context) error
}

// watch tells w of the bucket until ctx ends, which is no error, or the connection
// is closed. keys is a pattern, "" all of them.
func (b *keyValue) watch(ctx context.Context, keys string, w watcher) error {
	if keys == "" {
		keys = jetstream.AllKeys
	}
	defer b.conn.OnReconnect(b.restart)()
	looking, stop := context.WithCancel(ctx)
	var look sync.WaitGroup
	look.Go(func() { b.look(looking) })
	defer look.Wait()
	defer stop()
	failing := false
	for {
		started, err := b.watchOnce(ctx, keys, w)
		if ctx.Err() != nil {
			return nil
		}
		if b.conn.nc.IsClosed() {
			return errClosed
		}
		if started {
			failing = false
		}
		// That there is no connection is told where it is noticed.
		if err != nil && !failing && !errors.Is(err, ErrDisconnected) {
			failing = true
			b.conn.log.Warn("watching a bucket failed; it is tried again until it works", "bucket", b.name, "error", err)
		}
		if err != nil {
			b.pause(ctx)
		}
	}
}

// lookEvery is how often it is looked whether the bucket is still the same: a watch
// of one that others removed, and made again, is silent.
const lookEvery = 2 * time.Second

// look has the watch start anew when the bucket has been replaced.
func (b *keyValue) look(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if b.replaced(ctx) {
			b.restart()
		}
	}
}

func (b *keyValue) pause(ctx context.Context) {
	t := time.NewTimer(reconnectWait)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-b.again:
	case <-t.C:
	}
}

// watchOnce watches until something calls for a new watch; then err is nil. started
// says that the bucket was told once as a whole.
func (b *keyValue) watchOnce(ctx context.Context, keys string, w watcher) (started bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kv, err := b.reopen(ctx)
	if err != nil {
		return false, err
	}
	w.begin()
	// The context must outlive the call, so its end is not the call's time limit.
	limit := time.AfterFunc(requestTimeout, cancel)
	updates, err := kv.Watch(ctx, keys)
	inTime := limit.Stop()
	if err != nil {
		if !inTime {
			err = errNoAnswer
		}
		return false, sendError(err)
	}
	defer func() {
		cancel() // which unsubscribes
		drain(updates.Updates())
	}()
	for {
		select {
		case <-ctx.Done():
			return started, nil
		case <-b.again:
			return started, nil
		case e, ok := <-updates.Updates():
			if !ok { // the bucket is gone
				return started, errStopped
			}
			if e != nil {
				w.entry(e)
				continue
			}
			started = true
			if err := w.synced(ctx); err != nil {
				return started, err
			}
		}
	}
}

// reopen is the bucket of now.
func (b *keyValue) reopen(ctx context.Context) (jetstream.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.open(ctx)
}

// drain unblocks a watcher that is being stopped, until it has stopped.
func drain(updates <-chan jetstream.KeyValueEntry) {
	t := time.NewTimer(requestTimeout)
	defer t.Stop()
	for {
		select {
		case _, ok := <-updates:
			if !ok {
				return
			}
		case <-t.C:
			return
		}
	}
}
