package selector

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/keys"
	"smg/engine"
	"smg/engine/kvzmq"
	"smg/engine/rpc"
	"smg/legs"
	"smg/policy/kvindex"
	"smg/sim/simtest"
	"smg/worker"
)

// at is a worker over HTTP.
func at(url string, labels ...string) *worker.Spec {
	s := &worker.Spec{ID: worker.IDOf(url), URL: url, Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	return s
}

// ranks are those of endpoints, with replays or not.
func ranks(first int, endpoints ...[2]string) *kvzmq.Target {
	var t kvzmq.Target
	for i, e := range endpoints {
		t.Ranks = append(t.Ranks, kvzmq.Rank{Number: first + i, Live: e[0], Replay: e[1]})
	}
	return &t
}

func TestEventsFrom(t *testing.T) {
	const url = "http://10.0.0.7:8000"
	rank := at(url, eventsLabel, "tcp://*:5557", sizeLabel, "4").Ranked(2, 4)
	v6 := at("http://[::1]:8000", eventsLabel, "tcp://0.0.0.0:5557")
	tests := []struct {
		name   string
		flags  flags.KVEvents
		worker *worker.Spec
		want   *kvzmq.Target // nil: nothing is followed
		resume kvindex.Resume
	}{
		{"nothing is said", flags.KVEvents{}, at(url), nil, 0},
		{"by the flag", flags.KVEvents{Endpoint: "tcp://*:5557"}, at(url), ranks(0, [2]string{"tcp://10.0.0.7:5557"}), kvindex.Never},
		{"by the label", flags.KVEvents{Endpoint: "tcp://*:5557"}, at(url, eventsLabel, "tcp://other:1234"), ranks(0, [2]string{"tcp://other:1234"}), kvindex.Never},
		{"off by the label", flags.KVEvents{Endpoint: "tcp://*:5557"}, at(url, eventsLabel, ""), nil, 0},
		{
			"with a replay",
			flags.KVEvents{Endpoint: "tcp://*:5557", Replay: "tcp://*:6557"},
			at(url, sizeLabel, "2"),
			ranks(0, [2]string{"tcp://10.0.0.7:5557", "tcp://10.0.0.7:6557"}, [2]string{"tcp://10.0.0.7:5558", "tcp://10.0.0.7:6558"}),
			kvindex.ByRank,
		},
		{"a rank of an engine", flags.KVEvents{}, rank, ranks(2, [2]string{"tcp://10.0.0.7:5559"}), kvindex.Never},
		{"IPv6", flags.KVEvents{}, v6, ranks(0, [2]string{"tcp://[::1]:5557"}), kvindex.Never},
		{"on this machine", flags.KVEvents{}, at(url, eventsLabel, "ipc:///tmp/kv"), ranks(0, [2]string{"ipc:///tmp/kv"}), kvindex.Never},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := eventsFrom(&flags.Launch{KVEvents: tt.flags}, Prober{}, nil)(tt.worker)
			if tt.want == nil {
				if got != nil {
					t.Errorf("followed: %+v", got)
				}
				return
			}
			if diff := cmp.Diff(legs.EventSource(publishedEvents{*tt.want}), got, cmp.AllowUnexported(publishedEvents{})); diff != "" {
				t.Errorf("source (-want +got):\n%s", diff)
			}
			if got.Resume() != tt.resume {
				t.Errorf("resumed %d, want %d", got.Resume(), tt.resume)
			}
		})
	}
	for name, s := range map[string]*worker.Spec{
		"no scheme":        at(url, eventsLabel, "10.0.0.7:5557"),
		"no room for rank": at(url, eventsLabel, "tcp://*:65535", sizeLabel, "2"),
		"rank of a path":   at(url, eventsLabel, "ipc:///tmp/kv", sizeLabel, "2"),
		"replay":           at(url, eventsLabel, "tcp://*:5557", replayLabel, "tcp://*"),
	} {
		t.Run(name, func(t *testing.T) {
			source := eventsFrom(&flags.Launch{}, Prober{}, nil)(s)
			if source == nil {
				t.Fatal("nothing is said of it")
			}
			if _, err := source.Open(t.Context(), nil); err == nil {
				t.Error("it can be followed")
			}
		})
	}
	if s := eventsFrom(&flags.Launch{}, Prober{}, nil)(&worker.Spec{Mode: worker.GRPC}); s != nil {
		t.Error("a worker over gRPC is followed without a client")
	}
}

// What a gRPC engine tells reaches the index in its words.
func TestEventsOfCalls(t *testing.T) {
	cfg := simtest.Config()
	cfg.KVEvents = true
	cfg.Core.BlockSize = 4
	e := simtest.Start(t, simtest.GRPC(cfg))
	client, err := rpc.New(rpc.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ring, err := keys.RingOf(&flags.Launch{})
	if err != nil {
		t.Fatal(err)
	}
	w := &worker.Spec{URL: "grpc://" + e.Addr, Mode: worker.GRPC, Runtime: worker.Runtime("sglang")}
	source := eventsFrom(&flags.Launch{}, Prober{Keys: ring}, client)(w)
	target, err := client.Target(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ids := []uint32{11, 12, 13, 14, 15, 16, 17, 18}
	s, err := client.Generate(ctx, target, "sglang", &rpc.Request{ID: "a", Tokens: ids, Sampling: rpc.Sampling{Temperature: 1, TopP: 1, TopK: -1, RepetitionPenalty: 1, N: 1, MaxTokens: new(1)}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := s.Next(); err != nil {
			break
		}
	}
	s.Close()
	in, err := source.Open(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ix := kvindex.New(kvindex.Bounds{}, time.Now())
	feed := kvindex.NewFeed(ix, w.ID, source.Resume())
	for ix.Len() < 2 {
		b, err := in.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if step := feed.Apply(&b, time.Now()); step.Do != kvindex.Read || step.Err != nil {
			t.Fatalf("step %+v", step)
		}
	}
	if got := ix.Match(ids, time.Now(), nil); len(got) != 1 || got[0].Blocks != 2 {
		t.Errorf("scores %+v", got)
	}
	if _, err := source.Open(ctx, []kvindex.Cursor{{Seq: 1 << 40}}); !errors.Is(err, legs.ErrEventsLost) {
		t.Errorf("behind what there is: %v", err)
	}
}

func TestEventsErr(t *testing.T) {
	for of, want := range map[error]error{
		engine.ErrNoEvents: legs.ErrNoEvents, engine.ErrEventsLost: legs.ErrEventsLost, kvzmq.ErrData: legs.ErrEventData,
	} {
		if got := eventsErr(fmt.Errorf("open: %w", of)); !errors.Is(got, want) || !errors.Is(got, of) {
			t.Errorf("%v is %v, want %v", of, got, want)
		}
	}
	if err := errors.New("reset"); !errors.Is(eventsErr(err), err) || eventsErr(nil) != nil {
		t.Error("other errors are changed")
	}
}
