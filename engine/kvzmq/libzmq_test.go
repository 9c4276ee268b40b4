package kvzmq

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine"
	"smg/zmtp"
)

// peer is test/zmq/peer.py with the Python of `make test-zmq`.
type peer struct {
	in  io.WriteCloser
	out *json.Decoder
}

func startPeer(t *testing.T, args ...string) *peer {
	t.Helper()
	python := os.Getenv("SMG_TEST_ZMQ_PYTHON")
	if python == "" {
		t.Skip("needs a Python with pyzmq: make test-zmq")
	}
	cmd := exec.Command(python, append([]string{"../../test/zmq/peer.py"}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if t.Failed() {
			_ = cmd.Process.Kill()
		}
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("the peer: %v", err)
		}
	})
	return &peer{in, json.NewDecoder(bufio.NewReader(out))}
}

// told is what the peer says next.
func (p *peer) told(t *testing.T, v any) {
	t.Helper()
	if err := p.out.Decode(v); err != nil {
		t.Fatal(err)
	}
}

// TestLibzmq reads a publisher of libzmq and msgspec, as engines have them, live and by
// replay.
func TestLibzmq(t *testing.T) {
	for _, kind := range []string{"vllm", "sglang"} {
		t.Run(kind, func(t *testing.T) {
			p := startPeer(t, "publish", kind)
			var at struct{ Events, Replay, ZMQ string }
			p.told(t, &at)
			t.Logf("libzmq %s", at.ZMQ)
			_, _ = fmt.Fprintln(p.in, "say 0 100\nsay 1 200")
			target := Target{Ranks: []Rank{{Live: at.Events, Replay: at.Replay}}, Topic: "kv"}
			s, err := Open(t.Context(), target, nil, zmtp.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var sub struct{ Subscribed string }
			p.told(t, &sub)
			if sub.Subscribed != "016b76" {
				t.Errorf("subscribed to %s", sub.Subscribed)
			}
			want := func(seq uint64, first int) engine.KVBatch {
				h := uint64(first)
				second := -h
				if kind == "vllm" {
					second = 1<<63 + h
				}
				ids := make([]uint32, 8)
				for i := range ids {
					ids[i] = uint32(first + i)
				}
				return engine.KVBatch{Seq: seq, Events: []engine.KVEvent{
					{Stored: []engine.KVBlock{{Hash: h, Tokens: ids[:4], Size: 4}, {Hash: second, Tokens: ids[4:], Size: 4}}},
					{Removed: []uint64{h}},
					{Cleared: true},
				}}
			}
			for i, first := range []int{100, 200, 300} {
				if i == 2 {
					_, _ = fmt.Fprintln(p.in, "say 2 300")
				}
				got, err := s.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want(uint64(i), first), got); diff != "" {
					t.Errorf("batch %d (-want +got):\n%s", i, diff)
				}
			}
			_, _ = fmt.Fprintln(p.in, "large 3")
			if got, err := s.Next(t.Context()); err != nil || len(got.Events) != 1 || len(got.Events[0].Removed) != 500_000 {
				t.Errorf("a large batch: %d events, %v", len(got.Events), err)
			}
			_, _ = fmt.Fprintln(p.in, "end")
			if _, err := s.Next(t.Context()); err == nil {
				t.Error("the publisher has ended, the stream has not")
			}
		})
	}
}

// TestLibzmqReads has a subscriber of libzmq read the publisher of package zmtp, which
// simulated engines have.
func TestLibzmqReads(t *testing.T) {
	pub := publish(t, 0, true)
	p := startPeer(t, "read", pub.rank.Live, pub.rank.Replay)
	var ready struct{ Reading bool }
	p.told(t, &ready)
	for pub.Subscribers() == 0 {
		if t.Context().Err() != nil {
			t.Fatal("nobody subscribes")
		}
	}
	for seq := range uint64(3) {
		pub.say(t, seq)
	}
	var got struct{ Live, Again []any }
	p.told(t, &got)
	want := []any{}
	for seq := range 3 {
		want = append(want, []any{float64(seq), []any{[]any{"BlockRemoved", []any{float64(seq)}}}})
	}
	if diff := cmp.Diff(want, got.Live); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, got.Again); diff != "" {
		t.Errorf("sent again (-want +got):\n%s", diff)
	}
}
