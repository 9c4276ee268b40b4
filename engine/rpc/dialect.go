package rpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"smg/engine"
	"smg/engine/enginepb/commonpb"
)

// dialect is the protocol of one engine.
type dialect interface {
	generate(ctx context.Context, cc grpc.ClientConnInterface, r *Request) (messages, error)
	abort(ctx context.Context, cc grpc.ClientConnInterface, id string) error
	health(ctx context.Context, cc grpc.ClientConnInterface) (healthy bool, message string, err error)
	describe(ctx context.Context, cc grpc.ClientConnInterface) (engine.Info, engine.Identity, error)
	loads(ctx context.Context, cc grpc.ClientConnInterface) ([]engine.RankLoad, error)
	flush(ctx context.Context, cc grpc.ClientConnInterface, in *commonpb.FlushCacheRequest) (*commonpb.FlushCacheResponse, error)
	events(ctx context.Context, cc grpc.ClientConnInterface, in *commonpb.SubscribeKvEventsRequest) (grpc.ServerStreamingClient[commonpb.KvEventBatch], error)
}

// messages are the answers of a call, one after the other.
type messages func() (message, error)

// message is what an engine said of one choice.
type message struct {
	index                      uint32
	tokens                     []uint32
	prompt, cached, completion uint32
	output, input              *Logprobs
	done                       bool
	finish                     string
	stopToken                  *uint32
	stopText                   string
	kv                         string
	// totals says that completion counts all of the choice, and not what is new.
	totals bool
}

// dialects are the engines that are spoken to, in the order in which one that is not
// known is asked.
func dialects() []string { return []string{engine.RuntimeSGLang, engine.RuntimeVLLM} }

// dialectOf is an engine's protocol.
func dialectOf(runtime string) (dialect, error) {
	switch runtime {
	case engine.RuntimeSGLang:
		return sglang{}, nil
	case engine.RuntimeVLLM:
		return vllm{}, nil
	}
	return nil, fmt.Errorf("%w: engine %q is not spoken to over gRPC", engine.ErrRequest, runtime)
}
