package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"time"

	"smg/worker"
)

// JobType is what a job does.
type JobType uint8

// The types of jobs.
const (
	AddWorker JobType = iota
	UpdateWorker
	RemoveWorker
)

// String is the type's name as the API has it.
func (t JobType) String() string {
	switch t {
	case UpdateWorker:
		return "UpdateWorker"
	case RemoveWorker:
		return "RemoveWorker"
	case AddWorker:
	}
	return "AddWorker"
}

// Job is what is being done with a worker, as it stands.
type Job struct {
	Type   JobType
	Worker *worker.Spec // as asked for; not to be changed
	// Trying says that the worker is being asked now; between tries the job waits.
	Trying bool
	Failed bool      // nobody tries any more
	Reason string    // of the last try that failed, "" before
	Since  time.Time // of the last change
}

// job is the registration of a worker that is not registered yet, or not as asked for.
type job struct {
	kind JobType
	// asked is the worker as asked for. A time of registration in it is kept; without
	// one it is that of the first good answer.
	asked   *worker.Spec
	forever bool // it is not given up
	done    chan struct{}

	// Guarded by Registrar.mu.
	cancel context.CancelFunc // nil until it runs
	stored bool               // its record may be
	trying bool
	failed bool // for good
	reason string
	since  time.Time
}

// note keeps what has become of a job.
func (r *Registrar) note(j *job, trying bool, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.trying, j.reason, j.since = trying, reason, time.Now()
}

// run is one job, from its first try to a registered worker, to the last try that
// it has, or to the end of ctx.
func (r *Registrar) run(ctx context.Context, j *job) {
	defer r.end(j)
	if !sleep(ctx, r.cfg.Delay) {
		return
	}
	log := r.log.With(slog.String("worker", j.asked.URL))
	last, interval, hurried := "", r.cfg.Interval, false
	tries := max(int(math.Ceil(0.9*float64(r.cfg.Timeout)/float64(r.cfg.Interval))), 3)
	for try := 1; ; try++ {
		r.note(j, true, last)
		err := r.try(ctx, j)
		if err == nil || ctx.Err() != nil || r.fail(j, err) {
			return
		}
		msg := err.Error()
		wait := interval
		if unstored := errors.Is(err, errUnstored); unstored && !hurried {
			wait, hurried = min(interval, storeAgain), true
		} else {
			hurried = unstored
		}
		if msg != last {
			if errors.Is(err, errTaken) {
				log.Warn("worker is not registered", slog.String("reason", msg), slog.Duration("next_try", wait),
					slog.String("hint", "correct the legs of this command line, or give fleets that have nothing to do with each other a --cluster each"))
			} else {
				log.Warn("worker is not answering", slog.String("reason", msg), slog.Duration("next_try", wait),
					slog.String("hint", "start it, or correct its URL"))
			}
			last = msg
		}
		r.note(j, false, last)
		switch {
		case try == tries && !j.forever:
			r.giveUp(j, last)
			log.Error("worker did not answer in time and is not registered", slog.Duration("startup_timeout", r.cfg.Timeout),
				slog.String("reason", last), slog.String("hint", "add it again once it answers"))
			return
		case try == tries:
			interval, wait = r.cfg.Retry, r.cfg.Retry
			log.Error("worker did not answer in time", slog.Duration("startup_timeout", r.cfg.Timeout), slog.Duration("next_try", interval))
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// storeAgain is the wait before the first other try for a worker that has answered: it
// is not the worker that has to get ready.
const storeAgain = time.Second

// errUnstored: the worker has answered, but its record is not stored.
var errUnstored = errors.New("writing the worker's record")

// end gives the job's id free.
func (r *Registrar) end(j *job) {
	r.mu.Lock()
	delete(r.jobs, j.asked.ID)
	r.failedWith(j)
	r.mu.Unlock()
	close(j.done)
	r.changed() // somebody may have waited for its bootstrap address
}

// try asks the worker once and, if it answers, writes its record.
func (r *Registrar) try(ctx context.Context, j *job) error {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.slots }()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ProbeTimeout)
	defer cancel()
	if h := j.asked.Health; !r.cfg.DisableHealth && (h == nil || h.Disabled == nil || !*h.Disabled) {
		if err := r.prober.Health(ctx, j.asked, r.cfg.Endpoint); err != nil {
			return err
		}
	}
	found, err := r.prober.Discover(ctx, j.asked)
	if err != nil {
		return err
	}
	ranks, err := r.expand(merged(j.asked, found))
	if err != nil {
		return err
	}
	for _, s := range ranks {
		r.mu.Lock()
		err := r.taken(s)
		r.mu.Unlock()
		if err != nil {
			return err
		}
		warning := r.mooncake(ctx, s)
		register := r.register
		if j.kind == UpdateWorker {
			register = r.reregister
		}
		if err := register(ctx, j, s); err != nil {
			return fmt.Errorf("%w: %w", errUnstored, err)
		}
		r.registered(s, warning)
	}
	return nil
}

// registered tells of a worker that is.
func (r *Registrar) registered(s *worker.Spec, warning string) {
	r.log.Info("worker registered", slog.String("worker", s.URL), slog.String("worker_id", s.ID.String()), slog.String("leg", s.Leg.String()),
		slog.String("model", s.ModelID()), slog.String("runtime", string(s.Runtime)))
	if warning != "" {
		r.log.Warn("KV of a prefill worker may not be handed over", slog.String("worker", s.URL), slog.String("reason", warning),
			slog.String("hint", "give it the bootstrap port of its engine, or labels kv_engine_id and dp_size"))
	}
	if s.Conflict != "" {
		r.tell(s)
	}
}

// register gives the worker its place in the order of workers and stores it.
func (r *Registrar) register(ctx context.Context, j *job, s *worker.Spec) error {
	r.mu.Lock()
	j.stored = true
	if s.RegisteredAt.IsZero() {
		s.RegisteredAt = r.stamp()
	}
	if old := r.heard[s.ID]; old != nil && alike(s, old) {
		s.RegisteredAt = old.RegisteredAt // it is no new worker because it is registered here, too
	}
	s.Conflict = cmp.Or(unsupported(s), r.conflict(s))
	r.own[s.ID] = s // before it is stored: who comes after it must see it
	r.known[s.ID] = &known{asked: j.asked}
	r.mu.Unlock()
	err := r.store.Put(ctx, s.Clone())
	if err != nil {
		r.mu.Lock()
		if r.own[s.ID] == s {
			r.disown(s.ID)
		}
		r.mu.Unlock()
	}
	return err
}

// alike says whether two registrations are of the same worker, with the same facts.
func alike(a, b *worker.Spec) bool {
	a = a.Clone()
	a.RegisteredAt, a.Conflict = b.RegisteredAt, b.Conflict
	return reflect.DeepEqual(a, b)
}

// stamp is the time of a registration: now, but after all that were given out. r.mu
// is held.
func (r *Registrar) stamp() time.Time {
	now := time.Now().Truncate(time.Millisecond)
	if !now.After(r.last) {
		now = r.last.Add(time.Millisecond)
	}
	r.last = now
	return now
}

// sleep waits for d and says whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
