package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"smg/worker"
)

// orphaned is how long after its time a worker that drains is removed by others than
// the one who began that, who may be gone.
const orphaned = 30 * time.Second

// Drain has a worker get nothing more, and removes it once its requests have had time
// to end (Config.Settle, or the worker's own), whoever registered it. Those that have
// not ended go on. The id of an engine is all its data-parallel ranks. A registration of
// the worker that runs here ends. It returns once the worker is chosen no more as far as
// that is in the hands of this process. The error is ErrUnknown or the store's.
func (r *Registrar) Drain(ctx context.Context, id worker.ID) error {
	targets := r.targets(id)
	settle := time.Duration(0)
	for _, s := range targets {
		settle = max(settle, r.settleOf(s))
	}
	if settle == 0 {
		return r.Remove(ctx, id)
	}
	if _, err := r.stop(ctx, id); err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	drained := 0
	for _, s := range targets {
		err := r.drain(ctx, s.ID, settle)
		switch {
		case err == nil:
			drained++
		case !errors.Is(err, ErrUnknown): // else somebody else has removed it
			return err
		}
	}
	if drained == 0 {
		return ErrUnknown
	}
	return nil
}

// settleOf is how long a worker drains.
func (r *Registrar) settleOf(s *worker.Spec) time.Duration {
	if s.Health != nil && s.Health.Settle != nil {
		return *s.Health.Settle
	}
	return r.cfg.Settle
}

// drain begins to remove one worker.
func (r *Registrar) drain(ctx context.Context, id worker.ID, settle time.Duration) error {
	var leaving *worker.Spec
	err := r.alter(ctx, id, func(s *worker.Spec) (*worker.Spec, error) {
		s = s.Clone()
		if !s.Draining() { // a second call makes it no longer
			s.DrainingSince = time.Now().Truncate(time.Millisecond)
		}
		leaving = s
		return s, nil
	})
	if err != nil {
		return err
	}
	r.log.Info("worker is draining", slog.String("worker", leaving.URL), slog.String("worker_id", id.String()), slog.Duration("settle", settle))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.escort(leaving, settle)
	return nil
}

// departure is when a worker that drains is going to be removed.
type departure struct{ since, at time.Time }

// escort has a worker that drains removed after its time. r.mu is held.
func (r *Registrar) escort(s *worker.Spec, settle time.Duration) {
	d := departure{s.DrainingSince, s.DrainingSince.Add(settle)}
	if due, ok := r.leaving[s.ID]; r.again == nil || ok && due.since.Equal(d.since) && !d.at.Before(due.at) {
		return // Run begins with those that drain
	}
	r.leaving[s.ID] = d
	r.again(func(ctx context.Context) {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.leaving[s.ID] == d {
				delete(r.leaving, s.ID)
			}
		}()
		if !sleep(ctx, time.Until(d.at)) {
			return
		}
		err := r.leave(ctx, s)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("a worker that has drained cannot be removed yet", slog.String("worker", s.URL), slog.Any("error", err))
		}
		for err != nil && sleep(ctx, leaveAgain) {
			err = r.leave(ctx, s)
		}
	})
}

// escortAll looks after all that drain. r.mu is held.
func (r *Registrar) escortAll() {
	for _, s := range r.heard {
		if s.Draining() {
			r.escort(s, r.settleOf(s)+orphaned)
		}
	}
}

// leaveAgain is the wait before another try to remove a worker's record.
const leaveAgain = time.Second

// leave removes the record of a worker whose time is over, if it is still that.
func (r *Registrar) leave(ctx context.Context, s *worker.Spec) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	removed := false
	err := r.store.Change(ctx, s.ID, func(old *worker.Spec) (*worker.Spec, error) {
		removed = old != nil && old.Draining() && old.RegisteredAt.Equal(s.RegisteredAt)
		if !removed {
			return nil, errReplaced
		}
		return nil, nil
	})
	if err != nil && !errors.Is(err, errReplaced) {
		return err
	}
	if removed {
		r.mu.Lock()
		r.disown(s.ID)
		r.mu.Unlock()
		r.changed()
		r.log.Info("worker removed", slog.String("worker", s.URL), slog.String("worker_id", s.ID.String()))
	}
	return nil
}

// Failed takes a keeper's word that a worker does not get well again. One about a
// process of before its registration says nothing.
func (r *Registrar) Failed(id worker.ID, epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, own := r.known[id], r.own[id]
	if !r.cfg.RemoveFailed || k == nil || k.removing || r.again == nil || own != nil && epoch < uint64(max(0, own.RegisteredAt.UnixMilli())) {
		return
	}
	k.removing = true
	r.again(func(ctx context.Context) {
		err := r.remove(ctx, id)
		if err == nil || errors.Is(err, ErrUnknown) {
			return
		}
		if ctx.Err() == nil {
			r.log.Warn("a worker that failed could not be removed", slog.String("worker_id", id.String()), slog.Any("error", err))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		k.removing = false // its keeper repeats itself
	})
}
