package zmtp

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listen serves a socket until the test ends, and is its endpoint.
func listen(t *testing.T, serve func(ctx context.Context, ln net.Listener) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return "tcp://" + ln.Addr().String()
}

// await waits until a publisher has so many subscribers.
func await(t *testing.T, p *Publisher, n int) {
	t.Helper()
	for p.Subscribers() != n {
		if t.Context().Err() != nil {
			t.Fatal("the test is over")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestPublisher(t *testing.T) {
	p := NewPublisher(DefaultConfig())
	endpoint := listen(t, p.Serve)
	topics := []string{"", "kv", "other"}
	conns := make([]*Conn, len(topics))
	for i, topic := range topics {
		var err error
		if conns[i], err = Subscribe(t.Context(), endpoint, topic, DefaultConfig()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	await(t, p, len(topics))
	long := strings.Repeat("x", 300<<10)
	for i := range 100 {
		p.Publish([]byte("kv-events"), fmt.Append(nil, i), []byte(long[:i*3000]))
	}
	p.Publish([]byte("other"), []byte("end"), nil)
	for i, c := range conns {
		want := 100
		if topics[i] == "other" {
			want = 0
		}
		for n := range want {
			frames, err := c.Receive()
			if err != nil || len(frames) != 3 || string(frames[1]) != fmt.Sprint(n) || len(frames[2]) != n*3000 {
				t.Fatalf("message %d of topic %q: %d frames, %v", n, topics[i], len(frames), err)
			}
		}
		if topics[i] != "kv" {
			if frames, err := c.Receive(); err != nil || string(frames[1]) != "end" {
				t.Errorf("topic %q: %q, %v", topics[i], frames, err)
			}
		}
	}
	if err := conns[1].write(appendCommand(nil, cancel, []byte("kv"))); err != nil {
		t.Fatal(err)
	}
	await(t, p, 2)
	_ = conns[0].Close()
	await(t, p, 1)
}

// A ROUTER is asked, and answers with several messages.
func TestServe(t *testing.T) {
	endpoint := listen(t, func(ctx context.Context, ln net.Listener) error {
		return Serve(ctx, ln, Router, DefaultConfig(), func(c *Conn) {
			for {
				ask, err := c.Receive()
				if err != nil {
					return
				}
				for _, frame := range ask {
					if c.Send(nil, frame) != nil {
						return
					}
				}
			}
		})
	})
	c, err := Dial(t.Context(), endpoint, Dealer, DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send([]byte("a"), []byte("b")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a", "b"} {
		got, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]byte{{}, []byte(want)}, got); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	}
	if _, err := Subscribe(t.Context(), endpoint, "", DefaultConfig()); err == nil {
		t.Error("a ROUTER is subscribed to")
	}
}

// Subscribers that come, go and read slowly do not hold up the publisher.
func TestPublisherUnderLoad(t *testing.T) {
	p := NewPublisher(DefaultConfig())
	endpoint := listen(t, p.Serve)
	slow, err := Subscribe(t.Context(), endpoint, "", DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	await(t, p, 1)
	ctx, stop := context.WithCancel(t.Context())
	var coming sync.WaitGroup
	for range 4 {
		coming.Go(func() {
			for ctx.Err() == nil {
				c, err := Subscribe(ctx, endpoint, "", DefaultConfig())
				if err != nil {
					continue
				}
				end := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, _ = c.Receive()
				end()
				_ = c.Close()
			}
		})
	}
	payload := make([]byte, 4096)
	for range 3 * highWater {
		p.Publish([]byte("t"), payload)
	}
	stop()
	coming.Wait()
	if _, err := slow.Receive(); err != nil {
		t.Errorf("the slow one: %v", err)
	}
}
