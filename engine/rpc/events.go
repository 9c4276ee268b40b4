package rpc

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"smg/engine"
	"smg/engine/enginepb/commonpb"
)

// Events is a stream of what happens to an engine's KV cache. It belongs to one goroutine
// and must be closed.
type Events struct {
	target *Target
	ctx    context.Context //nolint:containedctx // the caller's: its end ends the stream
	seen   *seen
	stream grpc.ServerStreamingClient[commonpb.KvEventBatch]
	cut    func()
}

// Events subscribes to an engine's events: to those behind the number from, or, with 0,
// to the present state and what follows. It returns once the engine has taken the
// subscription, which some do with the first event only. Errors match
// [engine.ErrNoEvents] where the engine publishes none, and [engine.ErrEventsLost] where
// it has no more what is asked for; all others are those of the package.
func (c *Client) Events(ctx context.Context, t *Target, runtime, key string, from uint64) (*Events, error) {
	d, err := dialectOf(runtime)
	if err != nil {
		return nil, &engine.Error{Kind: engine.ErrRequest, Target: t.url, Err: err}
	}
	if !c.enter(t.conn) {
		return nil, &engine.Error{Kind: engine.ErrClosed, Target: t.url}
	}
	reused, err := t.conn.ready(ctx, c.cfg.ConnectTimeout)
	if err != nil {
		c.exit(t.conn)
		return nil, t.unconnected(ctx, err)
	}
	call, end := context.WithCancel(ctx)
	stop := context.AfterFunc(c.base, end)
	call, what := watched(call)
	what.reused = reused
	e := &Events{target: t, ctx: ctx, seen: what, cut: sync.OnceFunc(func() {
		stop()
		end()
		c.exit(t.conn)
	})}
	if call, err = withKey(call, key); err != nil {
		e.cut()
		return nil, &engine.Error{Kind: engine.ErrRequest, Target: t.url, Err: fmt.Errorf("the worker's API key: %w", err)}
	}
	if e.stream, err = d.events(call, t.conn.cc, &commonpb.SubscribeKvEventsRequest{StartSequenceNumber: from}); err == nil {
		if _, err = e.stream.Header(); err == nil && what.decided.Load() && !what.heard.Load() {
			err = e.stream.RecvMsg(new(commonpb.KvEventBatch)) // why it was refused
		}
	}
	if err != nil {
		defer e.cut()
		return nil, e.failure(err)
	}
	return e, nil
}

// Next is the next batch, those that tell of nothing but the engine's load left out.
// io.EOF is the end of a stream that the engine has ended in peace; any other error is as
// [Client.Events] says, and final.
func (e *Events) Next() (engine.KVBatch, error) {
	for {
		m, err := e.stream.Recv()
		if err != nil {
			return engine.KVBatch{}, e.failure(err)
		}
		if m.GetLoad().GetLoadOnly() {
			continue // under a number that was there before, of whichever rank
		}
		return batchOf(m), nil
	}
}

// Close ends the subscription. Without it the client's own Close waits for its limit.
func (e *Events) Close() { e.cut() }

// failure is one of package engine's errors, or io.EOF.
func (e *Events) failure(err error) error {
	if err == io.EOF { //nolint:errorlint // gRPC does not wrap it
		return io.EOF
	}
	code := status.Code(err)
	err = e.target.failure(e.ctx, e.seen, err)
	switch {
	case isRefused(err, http.StatusNotImplemented):
		return fmt.Errorf("%w: %w", engine.ErrNoEvents, err)
	case e.seen.decided.Load() && (code == codes.OutOfRange || code == codes.DataLoss):
		return fmt.Errorf("%w: %w", engine.ErrEventsLost, err)
	}
	return err
}

// batchOf is a batch in the words of package engine. Blocks that are not in the engine's
// own fast memory, or that only some requests can share, are left out, as are their
// removals.
func batchOf(m *commonpb.KvEventBatch) engine.KVBatch {
	b := engine.KVBatch{Seq: m.SequenceNumber, Rank: int(m.GetDpRank()), Events: make([]engine.KVEvent, 0, len(m.Events))}
	for _, e := range m.Events {
		switch {
		case e.GetStored() != nil:
			s := e.GetStored()
			if far(s.Tier, s.Locality) || s.GetCacheSalt() != "" || s.GetLoraName() != "" || len(s.Blocks) == 0 {
				continue
			}
			stored := engine.KVEvent{Stored: make([]engine.KVBlock, 0, len(s.Blocks)), Chained: s.ParentBlockHash != nil, Parent: uint64(s.GetParentBlockHash())}
			for _, block := range s.Blocks {
				if block.LoraId != nil {
					break // and what is chained to it
				}
				stored.Stored = append(stored.Stored, engine.KVBlock{Hash: uint64(block.BlockHash), Tokens: block.TokenIds, Size: int(max(block.BlockSize, 0))})
			}
			if len(stored.Stored) > 0 {
				b.Events = append(b.Events, stored)
			}
		case e.GetRemoved() != nil:
			r := e.GetRemoved()
			if far(r.Tier, r.Locality) || len(r.BlockHashes) == 0 {
				continue
			}
			hashes := make([]uint64, len(r.BlockHashes))
			for i, h := range r.BlockHashes {
				hashes[i] = uint64(h)
			}
			b.Events = append(b.Events, engine.KVEvent{Removed: hashes})
		case e.GetCleared() != nil:
			b.Events = append(b.Events, engine.KVEvent{Cleared: true})
		}
	}
	return b
}

// far says whether blocks lie elsewhere than in the engine's own fast memory.
func far(tier *commonpb.KvCacheTier, place *commonpb.KvCacheLocality) bool {
	return tier != nil && *tier > commonpb.KvCacheTier_KV_CACHE_TIER_DEVICE ||
		place != nil && *place == commonpb.KvCacheLocality_KV_CACHE_LOCALITY_REMOTE
}
