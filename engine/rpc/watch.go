package rpc

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// seen is what went over the connection of one call. gRPC's statuses do not tell an
// engine's own word from what the client makes up when a connection fails.
type seen struct {
	sent    atomic.Bool // the engine may have seen the call
	heard   atomic.Bool // something of an answer came
	decided atomic.Bool // the engine has ended the call itself
	reused  bool        // the connection was there before
}

type seenKey struct{}

// watched is ctx for a call whose connection is watched.
func watched(ctx context.Context) (context.Context, *seen) {
	s := new(seen)
	return context.WithValue(ctx, seenKey{}, s), s
}

// watcher notes in a call's context what goes over its connection.
type watcher struct{}

var _ stats.Handler = watcher{}

// TagRPC implements stats.Handler.
func (watcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (watcher) HandleRPC(ctx context.Context, what stats.RPCStats) {
	s, ok := ctx.Value(seenKey{}).(*seen)
	if !ok {
		return
	}
	switch what.(type) {
	case *stats.OutHeader:
		s.sent.Store(true)
	case *stats.InHeader, *stats.InPayload:
		s.heard.Store(true)
	case *stats.InTrailer:
		s.decided.Store(true)
	}
}

// TagConn implements stats.Handler.
func (watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (watcher) HandleConn(context.Context, stats.ConnStats) {}
