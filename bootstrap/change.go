package bootstrap

import (
	"context"
	"errors"

	"smg/worker"
)

// ErrUnsupported is the error of changes that workers cannot have yet.
var ErrUnsupported = errors.New("workers cannot be changed in this way yet")

// Patch is what is changed of a worker that is registered; what is nil stays.
type Patch struct {
	Priority *int
	Cost     *float64
	Labels   map[string]string // added to those it has, and in their place
	// SealedKey takes the place of the worker's own key.
	SealedKey []byte
	Health    *worker.HealthRules // field by field
}

// Replace registers a worker anew, whoever registered it, under its place in the order
// of workers: s is what [Registrar.Add] takes. The error is ErrUnknown, ErrRegistering,
// ErrFull or the store's.
func (r *Registrar) Replace(context.Context, *worker.Spec) error { return ErrUnsupported }

// Patch changes a worker, whoever registered it. Nobody is asked. The error is
// ErrUnknown or the store's.
func (r *Registrar) Patch(context.Context, worker.ID, Patch) error { return ErrUnsupported }

// Drain has a worker get nothing more, and removes it once its requests have had time
// to end, whoever registered it. The error is ErrUnknown or the store's.
func (r *Registrar) Drain(context.Context, worker.ID) error { return ErrUnsupported }
