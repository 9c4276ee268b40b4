package bootstrap

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"time"

	"smg/worker"
)

// Why a worker is not changed.
var (
	// ErrLeaving: it drains.
	ErrLeaving = errors.New("the worker is being removed")
	// ErrRanks: workers are ranks of engines, which come and go together.
	ErrRanks = errors.New("workers are data-parallel ranks of engines here, which are not replaced one by one")
	// errReplaced: it is not the worker any more that was to be changed.
	errReplaced = errors.New("the worker was removed, or registered anew, meanwhile")
)

// Patch is what is changed of a worker that is registered; what is nil stays.
type Patch struct {
	Priority *int
	Cost     *float64
	Labels   map[string]string // added to those it has, and in their place
	// SealedKey takes the place of the worker's own key; an empty one removes it.
	SealedKey []byte
	Health    *worker.HealthRules // field by field
}

// Of is a worker with the patch's changes.
func (p *Patch) Of(s *worker.Spec) *worker.Spec {
	s = s.Clone()
	if p.Priority != nil {
		s.Priority = *p.Priority
	}
	if p.Cost != nil {
		s.Cost = *p.Cost
	}
	if len(p.Labels) > 0 {
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		maps.Copy(s.Labels, p.Labels)
	}
	if p.SealedKey != nil {
		s.SealedKey = append([]byte(nil), p.SealedKey...) // nil for one that is empty
	}
	s.Health = s.Health.With(p.Health)
	return s
}

// Patch changes a worker, whoever registered it; the id of an engine is all its
// data-parallel ranks. Nobody is asked. The error is ErrUnknown, ErrLeaving or the
// store's.
func (r *Registrar) Patch(ctx context.Context, id worker.ID, p Patch) error {
	targets := r.targets(id)
	if len(targets) == 0 {
		return ErrUnknown
	}
	for _, s := range targets {
		err := r.alter(ctx, s.ID, func(old *worker.Spec) (*worker.Spec, error) {
			if old.Draining() {
				return nil, ErrLeaving
			}
			return p.Of(old), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// targets are the registered workers that an id means: the worker, or the ranks of the
// engine.
func (r *Registrar) targets(id worker.ID) (all []*worker.Spec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.others(worker.ID{}) {
		if r.own[s.ID] == nil && r.heard[s.ID] == nil {
			continue // it is only going to be
		}
		if s.ID == id || s.DPSize > 0 && worker.IDOf(s.Base()) == id {
			all = append(all, s)
		}
	}
	return all
}

// alter stores what change makes of a worker's record, as its next revision, whoever
// registered it. The error is ErrUnknown, change's or the store's.
func (r *Registrar) alter(ctx context.Context, id worker.ID, change func(*worker.Spec) (*worker.Spec, error)) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	var stored *worker.Spec
	err := r.store.Change(ctx, id, func(old *worker.Spec) (*worker.Spec, error) {
		if old == nil {
			return nil, ErrUnknown
		}
		s, err := change(old)
		if err != nil {
			return nil, err
		}
		s.Revision = old.Revision + 1
		stored = s
		return s.Clone(), nil
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.adopt(stored)
	r.changed()
	return nil
}

// rewrite stores what is known anew of a worker that is registered here, unless
// somebody else has changed or removed its record since: then the error is errReplaced,
// and the store is going to tell what it is now. r.writing is held.
func (r *Registrar) rewrite(ctx context.Context, s *worker.Spec) error {
	return r.store.Change(ctx, s.ID, func(old *worker.Spec) (*worker.Spec, error) {
		if old == nil || old.Revision > s.Revision || old.RegisteredAt.After(s.RegisteredAt) {
			return nil, errReplaced
		}
		return s.Clone(), nil
	})
}

// adopt takes a worker that is registered here as somebody has changed it since. One
// that was registered anew under its time of registration belongs to whoever did that.
// r.mu is held.
func (r *Registrar) adopt(s *worker.Spec) {
	old, k := r.own[s.ID], r.known[s.ID]
	if old == nil || k == nil || !s.RegisteredAt.Equal(old.RegisteredAt) || s.Revision <= old.Revision {
		return
	}
	patched := old.Clone()
	patched.Priority, patched.Cost, patched.Labels = s.Priority, s.Cost, s.Labels
	patched.SealedKey, patched.Health = s.SealedKey, s.Health
	patched.RegisteredAt, patched.Revision, patched.DrainingSince, patched.Conflict = s.RegisteredAt, s.Revision, s.DrainingSince, s.Conflict
	if !reflect.DeepEqual(patched, s) {
		r.disown(s.ID)
		return
	}
	// What was changed was asked for: it holds against what the worker says of itself.
	asked := k.asked.Clone()
	asked.Priority, asked.Cost, asked.SealedKey, asked.Health = s.Priority, s.Cost, s.SealedKey, s.Health.Clone()
	for name, value := range s.Labels {
		if had, ok := old.Labels[name]; ok && had == value {
			continue
		}
		if asked.Labels == nil {
			asked.Labels = map[string]string{}
		}
		asked.Labels[name] = value
	}
	k.asked, r.own[s.ID] = asked, s
}

// keepFailed is how long it is told that a change of a worker has failed.
const keepFailed = 5 * time.Minute
