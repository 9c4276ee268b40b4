//go:build !linux

package front

import (
	"context"
	"errors"
)

// hangups hears of nobody here: net/http's own reading has to do.
type hangups struct{}

func newHangups() (*hangups, error) { return nil, errors.ErrUnsupported }

func (*hangups) add(*Conn) bool            { return false }
func (*hangups) drop(*Conn)                {}
func (*hangups) run(context.Context) error { return nil }
