package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"smg/worker"
)

// Replace begins to register a worker anew, whoever registered it, and returns at once.
// It keeps its place in the order of workers; all else of it is s, which is what
// [Registrar.Add] takes, and what it says of itself once it answers. Until then it is
// what it was. The error is ErrUnknown, ErrRegistering, ErrLeaving, ErrRanks or ErrFull.
func (r *Registrar) Replace(_ context.Context, s *worker.Spec) error {
	if r.cfg.DPAware {
		return ErrRanks
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := cmp.Or(r.own[s.ID], r.heard[s.ID])
	switch {
	case r.jobs[s.ID] != nil:
		return ErrRegistering
	case was == nil:
		return ErrUnknown
	case was.Draining():
		return ErrLeaving
	case len(r.jobs) >= maxJobs:
		return ErrFull
	}
	s = s.Clone()
	s.RegisteredAt = was.RegisteredAt
	r.begin(&job{kind: UpdateWorker, asked: s})
	r.log.Info("worker is going to be registered anew", slog.String("worker", s.URL), slog.String("worker_id", s.ID.String()), slog.String("leg", s.Leg.String()))
	return nil
}

// reregister stores what a worker is from now on, if it is still the one that was to be
// replaced.
func (r *Registrar) reregister(ctx context.Context, j *job, s *worker.Spec) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	s.RegisteredAt = j.asked.RegisteredAt
	r.mu.Lock()
	s.Conflict = cmp.Or(unsupported(s), r.conflict(s))
	r.mu.Unlock()
	err := r.store.Change(ctx, s.ID, func(old *worker.Spec) (*worker.Spec, error) {
		if old == nil || old.Draining() || !old.RegisteredAt.Equal(s.RegisteredAt) {
			return nil, errReplaced
		}
		s.Revision = old.Revision + 1
		return s.Clone(), nil
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own[s.ID], r.known[s.ID] = s, &known{asked: j.asked}
	delete(r.failed, s.ID)
	r.changed()
	return nil
}

// failedWith remembers for a while why a job has failed, if its worker is still there to
// be asked about. r.mu is held.
func (r *Registrar) failedWith(j *job) {
	if j.kind == AddWorker || !j.failed {
		return
	}
	maps.DeleteFunc(r.failed, func(_ worker.ID, f Job) bool { return time.Since(f.Since) >= keepFailed })
	r.failed[j.asked.ID] = Job{Type: j.kind, Worker: j.asked, Failed: true, Reason: j.reason, Since: j.since}
}

// fail notes that a job has failed for good, and says whether err is a reason for that.
func (r *Registrar) fail(j *job, err error) bool {
	if !errors.Is(err, errReplaced) {
		return false
	}
	r.giveUp(j, errReplaced.Error())
	r.log.Warn("worker is not registered anew", slog.String("worker", j.asked.URL), slog.Any("reason", errReplaced))
	return true
}

func (r *Registrar) giveUp(j *job, reason string) {
	r.note(j, false, reason)
	r.mu.Lock()
	defer r.mu.Unlock()
	j.failed = true
}
