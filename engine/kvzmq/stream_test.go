package kvzmq

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/engine"
	"smg/zmtp"
)

// publisher is one rank of an engine, as vLLM's and SGLang's are.
type publisher struct {
	*zmtp.Publisher
	rank Rank

	mu     sync.Mutex
	log    [][2][]byte // number and payload
	asked  []uint64
	broken bool // the replay socket never answers
}

// serve runs a socket until the test ends.
func serve(t *testing.T, run func(ctx context.Context, ln net.Listener) error) (endpoint string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := run(ctx, ln); err != nil {
			t.Errorf("serving: %v", err)
		}
	}()
	stop = func() { cancel(); <-over }
	t.Cleanup(stop)
	return "tcp://" + ln.Addr().String(), stop
}

func publish(t *testing.T, number int, replay bool) *publisher {
	p := &publisher{Publisher: zmtp.NewPublisher(zmtp.DefaultConfig()), rank: Rank{Number: number}}
	p.rank.Live, _ = serve(t, p.Serve)
	if replay {
		p.rank.Replay, _ = serve(t, func(ctx context.Context, ln net.Listener) error {
			return zmtp.Serve(ctx, ln, zmtp.Router, zmtp.DefaultConfig(), p.replay)
		})
	}
	return p
}

func (p *publisher) replay(c *zmtp.Conn) {
	for {
		ask, err := c.Receive()
		if err != nil || len(ask) != 2 || len(ask[0]) != 0 || len(ask[1]) != 8 {
			return
		}
		from := binary.BigEndian.Uint64(ask[1])
		p.mu.Lock()
		p.asked = append(p.asked, from)
		log, broken := p.log, p.broken
		p.mu.Unlock()
		for _, m := range log {
			if binary.BigEndian.Uint64(m[0]) >= from && c.Send(nil, m[0], m[1]) != nil {
				return
			}
		}
		if !broken && c.Send(nil, []byte("\xff\xff\xff\xff\xff\xff\xff\xff"), nil) != nil {
			return
		}
	}
}

// say publishes a batch that removes the block with its number.
func (p *publisher) say(t *testing.T, seq uint64) {
	p.send(t, seq, pack(t, list{1.5, list{list{"BlockRemoved", list{seq}}}, p.rank.Number}))
}

func (p *publisher) send(t *testing.T, seq uint64, payload []byte) {
	number := binary.BigEndian.AppendUint64(nil, seq)
	p.mu.Lock()
	p.log = append(p.log, [2][]byte{number, payload})
	p.mu.Unlock()
	p.Publish([]byte("kv-events"), number, payload)
}

// open subscribes, and waits until the publishers know.
func open(t *testing.T, from map[int]uint64, ps ...*publisher) *Stream {
	t.Helper()
	target := Target{Topic: "kv"}
	for _, p := range ps {
		target.Ranks = append(target.Ranks, p.rank)
	}
	cfg := zmtp.DefaultConfig()
	cfg.Connect = 2 * time.Second
	s, err := Open(t.Context(), target, from, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, p := range ps {
		for p.Subscribers() != 1 {
			time.Sleep(time.Millisecond)
		}
	}
	return s
}

// numbers are those of the next n batches, by rank.
func numbers(t *testing.T, s *Stream, n int) map[int][]uint64 {
	t.Helper()
	got := map[int][]uint64{}
	for range n {
		b, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]engine.KVEvent{{Removed: []uint64{b.Seq}}}, b.Events); diff != "" {
			t.Fatalf("events of %d (-want +got):\n%s", b.Seq, diff)
		}
		got[b.Rank] = append(got[b.Rank], b.Seq)
	}
	return got
}

func TestStream(t *testing.T) {
	t.Run("what happens next", func(t *testing.T) {
		p, q := publish(t, 0, false), publish(t, 1, false)
		p.say(t, 1) // to nobody
		s := open(t, nil, p, q)
		for i := range uint64(5) {
			p.say(t, 2+i)
			q.say(t, 40+i)
		}
		want := map[int][]uint64{0: {2, 3, 4, 5, 6}, 1: {40, 41, 42, 43, 44}}
		if diff := cmp.Diff(want, numbers(t, s, 10)); diff != "" {
			t.Errorf("numbers (-want +got):\n%s", diff)
		}
	})
	t.Run("behind what was read", func(t *testing.T) {
		p, q := publish(t, 0, true), publish(t, 1, true)
		for i := range uint64(5) {
			p.say(t, i)
			q.say(t, i)
		}
		s := open(t, map[int]uint64{0: 2}, p, q)
		want := map[int][]uint64{0: {3, 4}, 1: {0, 1, 2, 3, 4}}
		if diff := cmp.Diff(want, numbers(t, s, 7)); diff != "" {
			t.Errorf("numbers (-want +got):\n%s", diff)
		}
		p.say(t, 5)
		if diff := cmp.Diff(map[int][]uint64{0: {5}}, numbers(t, s, 1)); diff != "" {
			t.Errorf("numbers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]uint64{3}, p.asked); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
	})
	t.Run("a replay that does not end is left", func(t *testing.T) {
		p := publish(t, 0, true)
		p.broken = true
		p.say(t, 0)
		s := open(t, nil, p)
		p.say(t, 1)
		got := numbers(t, s, 2)[0] // 1 may be in the replay too
		if got[1] == 0 || got[0] != 0 {
			t.Errorf("numbers %v", got)
		}
	})
	t.Run("a replay that is not there", func(t *testing.T) {
		p := publish(t, 0, false)
		p.rank.Replay = "tcp://127.0.0.1:1"
		s := open(t, nil, p)
		p.say(t, 7)
		if got := numbers(t, s, 1)[0]; got[0] != 7 {
			t.Errorf("numbers %v", got)
		}
	})
	t.Run("a message that cannot be read", func(t *testing.T) {
		p := publish(t, 0, false)
		s := open(t, nil, p)
		p.send(t, 1, []byte("nonsense"))
		p.Publish([]byte("kv-events"), []byte("no number"), nil)
		p.say(t, 2)
		for range 2 {
			if _, err := s.Next(t.Context()); !errors.Is(err, ErrData) {
				t.Errorf("error %v", err)
			}
		}
		if got := numbers(t, s, 1)[0]; got[0] != 2 {
			t.Errorf("numbers %v", got)
		}
	})
	t.Run("another process", func(t *testing.T) {
		p := publish(t, 0, false)
		s := open(t, map[int]uint64{0: 40}, p)
		p.say(t, 3)
		if _, err := s.Next(t.Context()); !errors.Is(err, engine.ErrEventsLost) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("an engine that ends", func(t *testing.T) {
		p := publish(t, 0, false)
		q := publish(t, 1, false)
		var stop func()
		q.rank.Live, stop = serve(t, q.Serve)
		s := open(t, nil, p, q)
		stop()
		if _, err := s.Next(t.Context()); err == nil || errors.Is(err, ErrData) || errors.Is(err, engine.ErrEventsLost) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		p := publish(t, 0, true)
		for i := range uint64(50) {
			p.say(t, i)
		}
		s := open(t, nil, p)
		s.Close() // with everything under way
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("not there", func(t *testing.T) {
		p := publish(t, 0, false)
		target := Target{Ranks: []Rank{p.rank, {Number: 1, Live: "tcp://127.0.0.1:1"}}}
		if _, err := Open(t.Context(), target, nil, zmtp.DefaultConfig()); err == nil {
			t.Error("it is open")
		}
		if _, err := Open(t.Context(), Target{}, nil, zmtp.DefaultConfig()); err == nil {
			t.Error("nothing is open")
		}
	})
}
