//go:build !linux

package load

import (
	"context"
	"errors"
	"time"
)

// Driver keeps connections to one subject. It exists on Linux only.
type Driver struct{}

// Dial fails: the generator stands on Linux's epoll.
func Dial(Config) (*Driver, error) {
	return nil, errors.ErrUnsupported
}

// Close does nothing.
func (*Driver) Close() error { return nil }

// Open fails.
func (*Driver) Open(context.Context, []time.Duration) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// Saturate fails.
func (*Driver) Saturate(context.Context, time.Duration) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// One fails.
func (*Driver) One(context.Context) ([]byte, error) {
	return nil, errors.ErrUnsupported
}
