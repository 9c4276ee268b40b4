package selector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"smg/cmd/internal/flags"
	"smg/engine"
	"smg/engine/kvzmq"
	"smg/engine/rpc"
	"smg/legs"
	"smg/policy/kvindex"
	"smg/worker"
	"smg/zmtp"
)

// The labels of a worker that say where its engine publishes its KV-cache events and what
// it remembers of them, before the flags. An empty one says that it does not.
const (
	eventsLabel = "kv_events_endpoint"
	replayLabel = "kv_events_replay_endpoint"
	sizeLabel   = "dp_size"
)

// eventsFrom lets a leg follow what engines tell of their KV caches: those over HTTP where
// they publish it, those over gRPC by the client, if there is one.
func eventsFrom(cfg *flags.Launch, p Prober, client *rpc.Client) func(*worker.Spec) legs.EventSource {
	return func(s *worker.Spec) legs.EventSource {
		if s.Mode == worker.GRPC {
			if client == nil {
				return nil
			}
			key, err := p.Keys.Open(s)
			if err != nil {
				return noSource{err}
			}
			return callEvents{client, s, key}
		}
		endpoint, replay := said(s, eventsLabel, cfg.KVEvents.Endpoint), said(s, replayLabel, cfg.KVEvents.Replay)
		if endpoint == "" {
			return nil
		}
		t, err := targetOf(s, endpoint, replay)
		if err != nil {
			return noSource{err}
		}
		return publishedEvents{t}
	}
}

// said is what a worker's label says, or else the fleet's flag.
func said(s *worker.Spec, label, flag string) string {
	if v, ok := s.Labels[label]; ok {
		return v
	}
	return flag
}

// targetOf is where the engine of a worker publishes: one endpoint for each rank that the
// worker is, at the port of rank 0 and the rank.
func targetOf(s *worker.Spec, endpoint, replay string) (kvzmq.Target, error) {
	var t kvzmq.Target
	first, ranks := 0, 1
	if s.DPSize > 0 {
		first = s.DPRank
	} else if n, err := strconv.Atoi(s.Labels[sizeLabel]); err == nil && n > 1 {
		ranks = min(n, kvindex.MaxRank+1)
	}
	for rank := first; rank < first+ranks; rank++ {
		r := kvzmq.Rank{Number: rank}
		var err error
		if r.Live, err = endpointOf(s, endpoint, rank); err != nil {
			return t, err
		}
		if replay != "" {
			if r.Replay, err = endpointOf(s, replay, rank); err != nil {
				return t, err
			}
		}
		t.Ranks = append(t.Ranks, r)
	}
	return t, nil
}

// endpointOf is the endpoint of a rank. Engines say * for the host that they are on.
func endpointOf(s *worker.Spec, endpoint string, rank int) (string, error) {
	network, address, err := zmtp.ParseEndpoint(endpoint)
	if err != nil {
		return "", err
	}
	if network == "unix" {
		if rank > 0 {
			return "", fmt.Errorf("endpoint %q has no port, by which rank %d could be found", endpoint, rank)
		}
		return endpoint, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if host == "*" || host == "0.0.0.0" || host == "::" {
		u, err := url.Parse(s.Base())
		if err != nil {
			return "", err
		}
		host = u.Hostname()
	}
	n, err := strconv.Atoi(port)
	if err != nil || n+rank > 65535 {
		return "", fmt.Errorf("endpoint %q leaves no port for rank %d", endpoint, rank)
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(n+rank)), nil
}

// noSource is that of a worker that cannot be asked.
type noSource struct{ err error }

func (n noSource) Resume() kvindex.Resume { return kvindex.Never }

func (n noSource) Open(context.Context, []kvindex.Cursor) (legs.EventStream, error) {
	return nil, n.err
}

// publishedEvents are those that an engine publishes over ZeroMQ.
type publishedEvents struct{ target kvzmq.Target }

func (p publishedEvents) Resume() kvindex.Resume {
	if p.target.Replays() {
		return kvindex.ByRank
	}
	return kvindex.Never
}

func (p publishedEvents) Open(ctx context.Context, from []kvindex.Cursor) (legs.EventStream, error) {
	seen := make(map[int]uint64, len(from))
	for _, c := range from {
		seen[c.Rank] = c.Seq
	}
	in, err := kvzmq.Open(ctx, p.target, seen, zmtp.DefaultConfig())
	if err != nil {
		return nil, err
	}
	return published{in}, nil
}

type published struct{ *kvzmq.Stream }

func (p published) Next(ctx context.Context) (kvindex.Batch, error) {
	b, err := p.Stream.Next(ctx)
	return batchOf(b), eventsErr(err)
}

// callEvents are those of an engine's gRPC server.
type callEvents struct {
	client *rpc.Client
	worker *worker.Spec
	key    string
}

func (c callEvents) Resume() kvindex.Resume { return kvindex.ByNumber }

func (c callEvents) Open(ctx context.Context, from []kvindex.Cursor) (legs.EventStream, error) {
	seq := uint64(0)
	if len(from) == 1 {
		seq = from[0].Seq
	}
	target, err := c.client.Target(c.worker.Base())
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	in, err := c.client.Events(ctx, target, string(c.worker.Runtime), c.key, seq)
	if err != nil {
		stop()
		c.client.Forget(target)
		return nil, eventsErr(err)
	}
	return &called{in, c, target, stop}, nil
}

type called struct {
	in     *rpc.Events
	of     callEvents
	target *rpc.Target
	stop   context.CancelFunc
}

// Next leaves out what other ranks than the worker's say, if it is one.
func (c *called) Next(context.Context) (kvindex.Batch, error) {
	for {
		b, err := c.in.Next()
		if err == nil && c.of.worker.DPSize > 0 && b.Rank != c.of.worker.DPRank {
			continue
		}
		return batchOf(b), eventsErr(err)
	}
}

func (c *called) Close() {
	c.stop()
	c.in.Close()
	c.of.client.Forget(c.target)
}

// eventsErr is an engine's failure in the words of package legs.
func eventsErr(err error) error {
	for _, e := range []struct{ of, is error }{
		{engine.ErrNoEvents, legs.ErrNoEvents}, {engine.ErrEventsLost, legs.ErrEventsLost}, {kvzmq.ErrData, legs.ErrEventData},
	} {
		if errors.Is(err, e.of) {
			return fmt.Errorf("%w: %w", e.is, err)
		}
	}
	return err
}

// batchOf is a batch in the words of the index.
func batchOf(b engine.KVBatch) kvindex.Batch {
	events := make([]kvindex.Event, len(b.Events))
	for i, e := range b.Events {
		switch {
		case e.Cleared:
			events[i].Kind = kvindex.Cleared
		case e.Removed != nil:
			events[i].Kind, events[i].Hashes = kvindex.Removed, e.Removed
		case len(e.Stored) > 0:
			events[i] = kvindex.Event{Kind: kvindex.Stored, Chained: e.Chained, Parent: e.Parent, BlockSize: e.Stored[0].Size}
			events[i].Blocks = make([]kvindex.Block, len(e.Stored))
			for k, block := range e.Stored {
				events[i].Blocks[k] = kvindex.Block{Hash: block.Hash, Tokens: block.Tokens}
			}
		}
	}
	return kvindex.Batch{Seq: b.Seq, Rank: b.Rank, Events: events}
}
