package ingress

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPace looks at large bodies in stretches of the stall limit.
func TestPace(t *testing.T) {
	const stall = 10 * time.Second
	type step struct {
		at          time.Duration
		n           int
		outstanding int64
		slow        bool
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"fast", []step{{0, 1, 1 << 20, false}, {stall, 10 << 10, 1 << 20, false}, {2 * stall, 10 << 10, 1 << 20, false}}},
		{"a byte now and then", []step{{0, 1, 1 << 20, false}, {stall - 1, 1, 1 << 20, false}, {stall, 1, 1 << 20, true}, {stall + 1, 1 << 20, 1 << 20, true}}},
		{"it becomes slow", []step{{0, 1, 1 << 20, false}, {stall, 1 << 20, 1 << 20, false}, {2 * stall, 10<<10 - 1, 1 << 20, true}}},
		{"little is outstanding", []step{{0, 1, 64 << 10, false}, {stall, 1, 64 << 10, false}, {3 * stall, 1, 1, false}}},
		{"the rest is little", []step{{0, 1, 1 << 20, false}, {stall / 2, 1 << 20, 100, false}, {stall, 1, 99, false}, {2 * stall, 1, 98, false}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wa := &watcher{readStall: stall}
			p, began := &pace{}, time.Unix(1, 0)
			for _, s := range tt.steps {
				p.came(s.n, s.outstanding)
				if got := p.look(wa, began.Add(s.at)); got != s.slow {
					t.Errorf("at %v: slow %v", s.at, got)
				}
			}
		})
	}
}

func TestOwed(t *testing.T) {
	if got := owed(&http.Request{ContentLength: 10}, 4); got != 6 {
		t.Error(got)
	}
	if got := owed(&http.Request{ContentLength: -1}, 4); got != 4 {
		t.Error(got)
	}
}

func TestGatewaySlowBodies(t *testing.T) {
	declares := func(n int) string {
		return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", n)
	}

	// What a client declares and does not send is not held for it.
	t.Run("81_declared_bodies_hold_little", func(t *testing.T) {
		t.Parallel()
		_, url := answers(t, jsonOK)
		g := start(t, []string{url}, withConfig(func(c *Config) { c.MaxBufferedBytes = 4 << 20 }))
		for range 3 {
			g.dial().send(declares(4<<20 - growBy*3))
		}
		within(t, patience, "all have begun", func() bool { return g.active.Load() == 3 && g.budget-g.Server.buffers.left.Load() == 3*growBy })
		if r := g.do(chat(strings.Replace(chatBody, "hi", strings.Repeat("hi", 1<<20), 1))); r.status != 200 {
			t.Errorf("somebody who sends what he declares: %d %s", r.status, r.body)
		}
		c := g.dial()
		c.send(declares(4 << 20)) // for which there is no room now
		c.answer().fails(t, 503, "buffer_budget_exhausted")
		c.closed()
	})

	t.Run("81_large_bodies_come_whole", func(t *testing.T) {
		t.Parallel()
		e, url := answers(t, jsonOK)
		g := start(t, []string{url}, withConfig(func(c *Config) { c.MaxPayloadBytes = 1 << 20 }))
		for _, n := range []int{growBy - 1, growBy, growBy + 1, 4*growBy - 1, 4 * growBy, 4*growBy + 1, 1<<20 - 1, 1 << 20} {
			body := strings.Replace(chatBody, "hi", strings.Repeat("x", n-len(chatBody)+2), 1)
			if r := g.do(chat(body)); r.status != 200 || e.last(t).body != body {
				t.Errorf("%d bytes: %d %.200s", n, r.status, r.body)
			}
			chunked := "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(body) + lastOne
			if r := g.do(chunked); r.status != 200 || e.last(t).body != body {
				t.Errorf("%d bytes in a chunk: %d %.200s", n, r.status, r.body)
			}
		}
		c := g.dial()
		c.send(declares(1<<20 + 1))
		c.answer().fails(t, 413, "request_body_too_large")
		c.closed()
		over := chunk(strings.Repeat(" ", 1<<20+1))
		g.do("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n"+over+lastOne).fails(t, 413, "request_body_too_large")
	})

	t.Run("a_byte_now_and_then", func(t *testing.T) {
		t.Parallel()
		g := start(t, nil, withConfig(func(c *Config) { c.BodyStall = 700 * time.Millisecond }))
		c := g.dial()
		c.send(declares(1 << 20))
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() { // each byte is progress
			defer close(done)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if _, err := c.Write([]byte(" ")); err != nil {
					return
				}
			}
		}()
		c.answer().fails(t, 408, "request_body_stalled")
		close(stop)
		<-done
		if !c.closed() {
			t.Error("the connection stays open")
		}
	})
}
