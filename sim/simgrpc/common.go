package simgrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"smg/engine/enginepb/commonpb"
	"smg/sim"
	"smg/sim/simhttp"
	"smg/sim/simtext"
)

// minPing is how often a client may ask whether the engine is there.
const minPing = 10 * time.Second

func tokens(ids []uint32) []simtext.Token {
	out := make([]simtext.Token, len(ids))
	for i, id := range ids {
		out[i] = simtext.Token(id)
	}
	return out
}

func ids(tokens []simtext.Token) []uint32 {
	out := make([]uint32, len(tokens))
	for i, t := range tokens {
		out[i] = uint32(t)
	}
	return out
}

// orOne is a number whose zero engines read as 1.
func orOne(v float32) float64 {
	if v == 0 {
		return 1
	}
	return float64(v)
}

// What the numbers of log-probabilities say that they are of; see docs/sim.md.
const (
	inputs      = 1
	outputs     = 2
	bestOutputs = 4
	prefilled   = 9
)

func logprob(what, place int) float32 { return -float32(what) - float32(place)/1e6 }

// ended is how a call ends: in peace, or with why it does not.
func ended(ctx context.Context, fault *simhttp.Fault) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case fault == nil:
		return nil
	case fault.Drop:
		return errDropped
	}
	return status.Error(codeOf(fault.Status), fault.Message)
}

// errDropped ends a call whose connection is to be closed.
var errDropped = status.Error(codes.Unavailable, "the connection is closed")

func flushed(engine *simhttp.Server) *commonpb.FlushCacheResponse {
	if !engine.Flush() {
		return &commonpb.FlushCacheResponse{Message: "Cache not flushed because there are pending requests."}
	}
	return &commonpb.FlushCacheResponse{Success: true, Message: "Cache flushed."}
}

// subscribe tells a caller of the engine's cache.
func subscribe(engine *simhttp.Server, r *commonpb.SubscribeKvEventsRequest, s grpc.ServerStreamingServer[commonpb.KvEventBatch]) (err error) {
	v := visitOf(s.Context())
	defer func() { v.Leave(statusOf(err)) }()
	event := uint64(0)
	opened := func() error { return s.SendHeader(metadata.MD{}) }
	err = engine.SubscribeKV(s.Context(), r.StartSequenceNumber, opened, func(b simhttp.KVBatch) error {
		out := &commonpb.KvEventBatch{SequenceNumber: b.Seq, Timestamp: float64(b.At.UnixMicro()) / 1e6}
		for _, e := range b.Events {
			event++
			out.Events = append(out.Events, eventOf(e, event))
		}
		return s.Send(out)
	})
	switch {
	case errors.Is(err, simhttp.ErrNoKVEvents):
		return status.Error(codes.Unimplemented, err.Error())
	case errors.Is(err, simhttp.ErrKVRange):
		return status.Error(codes.OutOfRange, err.Error())
	case errors.Is(err, simhttp.ErrKVSlow):
		return status.Error(codes.DataLoss, err.Error())
	case s.Context().Err() != nil:
		return status.FromContextError(s.Context().Err()).Err()
	}
	return err
}

// eventOf is one change as both protocols have it.
func eventOf(e simhttp.KVEvent, number uint64) *commonpb.KvCacheEvent {
	out := &commonpb.KvCacheEvent{EventId: number}
	switch e.Kind {
	case sim.Stored:
		stored := &commonpb.KvBlocksStored{Blocks: []*commonpb.KvBlock{{BlockHash: int64(e.Hash), TokenIds: ids(e.Tokens), BlockSize: int32(len(e.Tokens))}}}
		if e.Chained {
			stored.ParentBlockHash = new(int64(e.Parent))
		}
		out.Data = &commonpb.KvCacheEvent_Stored{Stored: stored}
	case sim.Evicted:
		out.Data = &commonpb.KvCacheEvent_Removed{Removed: &commonpb.KvBlocksRemoved{BlockHashes: []int64{int64(e.Hash)}}}
	case sim.Cleared:
		out.Data = &commonpb.KvCacheEvent_Cleared{Cleared: &commonpb.KvCacheCleared{}}
	}
	return out
}

// callerOf is the address of a call's caller.
func callerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
