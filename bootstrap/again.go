package bootstrap

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"time"

	"smg/worker"
)

// known is what is remembered of a worker that is registered here.
type known struct {
	asked  *worker.Spec // as asked for
	epoch  uint64       // of the process that told what is registered, 0 until one is heard of
	asking bool         // what it is
	dated  bool         // another process has come since it was asked

	removing bool // because it has failed
}

// disown forgets that a worker is registered here. r.mu is held.
func (r *Registrar) disown(id worker.ID) {
	delete(r.own, id)
	delete(r.known, id)
}

// Process takes what a worker's keeper says of the process behind its URL. If it is not
// the one that told what is registered, the worker is asked anew what it is, and its
// record stored again under the same time of registration. What the record says so
// holds for the process that is there: its labels and models, where it is met, and
// whether somebody else is met there.
func (r *Registrar) Process(id worker.ID, epoch uint64, p worker.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, k := r.own[id], r.known[id]
	if s == nil || k == nil || epoch < k.epoch {
		return
	}
	moved := s.BootstrapSource == worker.EngineSource && p.BootstrapPort != 0 && p.BootstrapPort != s.BootstrapPort
	replaced := k.epoch != 0 && epoch > k.epoch
	k.epoch = epoch
	switch {
	case !moved && !replaced || r.again == nil:
	case k.asking:
		k.dated = true
	default:
		k.asking = true
		r.again(func(ctx context.Context) { r.renew(ctx, s.ID, k) })
	}
}

// A process that has just come may not answer everything at once.
const (
	renewTries = 5
	renewWait  = time.Second
)

// renew asks a worker what it is until it has said so.
func (r *Registrar) renew(ctx context.Context, id worker.ID, k *known) {
	for try := 1; ; try++ {
		err := r.rediscover(ctx, id, k)
		r.mu.Lock()
		switch {
		case ctx.Err() != nil, r.known[id] != k:
			r.mu.Unlock()
			return
		case k.dated:
			k.dated, try = false, 0
		case err == nil, try >= renewTries:
			k.asking = false
			url := k.asked.URL
			r.mu.Unlock()
			if err != nil {
				r.log.Warn("a worker that was restarted does not say what it is: what is known of it is from before",
					slog.String("worker", url), slog.Any("reason", err))
			}
			return
		}
		r.mu.Unlock()
		if err != nil && !sleep(ctx, renewWait) {
			return
		}
	}
}

// rediscover asks a worker once and stores what is new.
func (r *Registrar) rediscover(ctx context.Context, id worker.ID, k *known) error {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.slots }()
	asking, cancel := context.WithTimeout(ctx, r.cfg.ProbeTimeout)
	defer cancel()
	r.mu.Lock()
	asked := k.asked
	r.mu.Unlock()
	found, err := r.prober.Discover(asking, asked)
	if err != nil {
		return err
	}
	s := merged(asked, found)
	r.mu.Lock()
	if old := r.own[id]; old != nil && old.DPSize > 0 {
		s = s.Ranked(old.DPRank, old.DPSize)
	}
	r.mu.Unlock()
	r.mooncake(asking, s)
	r.writing.Lock() // a worker that is being removed must not come back
	defer r.writing.Unlock()
	r.mu.Lock()
	old := r.own[id]
	if old == nil || r.known[id] != k {
		r.mu.Unlock()
		return nil
	}
	if k.asked != asked {
		r.mu.Unlock()
		return errReplaced // somebody has changed it meanwhile
	}
	s.RegisteredAt, s.Revision, s.DrainingSince = old.RegisteredAt, old.Revision, old.DrainingSince
	s.Conflict = cmp.Or(unsupported(s), r.conflict(s))
	r.mu.Unlock()
	if reflect.DeepEqual(s, old) {
		return nil
	}
	if err := r.rewrite(ctx, s); err != nil {
		return err
	}
	r.mu.Lock()
	if r.known[id] == k && r.own[id] == old {
		r.own[id] = s
	}
	r.mu.Unlock()
	r.log.Info("worker tells of itself anew", slog.String("worker", s.URL), slog.String("model", s.ModelID()))
	if s.Conflict != old.Conflict {
		r.tell(s)
	}
	r.changed() // its address may be somebody else's, or free
	return nil
}
