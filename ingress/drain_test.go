package ingress

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"smg/wire"
	"smg/worker"
)

func TestDrain(t *testing.T) {
	t.Run("streams_finish", func(t *testing.T) {
		s := &script{pieces: []string{sseHead + chunk(event), chunk(done) + lastOne}, step: make(chan struct{})}
		g := start(t, []string{engineAt(t, s.serve)}, withConfig(func(c *Config) { c.Grace = 4 * time.Second }))
		c := g.dial()
		c.send(chat(streamBody))
		resp := c.head()
		old := g.dial() // idle, from before
		old.send(get("/health"))
		old.answer()
		g.stop()
		within(t, patience, "draining shows", func() bool {
			return strings.Contains(g.do(get("/readiness")).body, "draining")
		})
		r := g.do(get("/readiness"))
		if r.status != 503 || r.body != `{"status":"not ready","reason":"draining"}` {
			t.Errorf("%d %s", r.status, r.body)
		}
		if r := g.do(get("/health")); r.status != 200 {
			t.Errorf("health: %d", r.status)
		}
		old.send(get("/v1/models")) // new requests are served while it settles
		if r := old.answer(); r.status != 200 {
			t.Errorf("models: %d", r.status)
		}
		within(t, patience, "the listener closes", func() bool {
			nc, err := net.Dial("tcp", g.addr)
			if err == nil {
				nc.Close()
			}
			return err != nil
		})
		s.step <- struct{}{}
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != event+done {
			t.Errorf("%q %v", b, err)
		}
		g.awaitEnd()
		if strings.Contains(g.log.String(), "level=WARN") {
			t.Errorf("log:\n%s", g.log)
		}
	})

	for _, hurry := range []bool{false, true} {
		name, grace := "endless_stream_is_cut", time.Second
		if hurry {
			name, grace = "hurry", time.Hour
		}
		t.Run(name, func(t *testing.T) {
			e, url := hangs(t, sseHead+chunk(event))
			g := start(t, []string{url}, withConfig(func(c *Config) { c.Grace = grace }))
			c := g.dial()
			c.send(chat(streamBody))
			resp := c.head()
			up := g.dial() // and a body that never comes
			up.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\n{\"model")
			within(t, patience, "both run", func() bool { return g.active.Load() == 2 })
			g.stop()
			if hurry {
				g.Hurry()
				g.Hurry()
			}
			g.awaitEnd()
			if b, err := io.ReadAll(resp.Body); err == nil || string(b) != event {
				t.Errorf("%q %v", b, err)
			}
			within(t, patience, "the engine is left", func() bool { return e.gone.Load() == 1 })
			if !strings.Contains(g.log.String(), "level=WARN") || !strings.Contains(g.log.String(), "requests=2") {
				t.Errorf("log:\n%s", g.log)
			}
		})
	}

	t.Run("http2_streams_finish", func(t *testing.T) {
		s := &script{pieces: []string{sseHead + chunk(event), chunk(done) + lastOne}, step: make(chan struct{})}
		g := start(t, []string{engineAt(t, s.serve)})
		resp, err := g.http2().post(t.Context(), g.url+"/v1/chat/completions", streamBody)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		g.stop()
		within(t, patience, "draining shows", func() bool { return g.draining.Load() })
		s.step <- struct{}{}
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != event+done {
			t.Errorf("%q %v", b, err)
		}
		g.awaitEnd()
	})
}

// awaitEnd waits for Run, and leaves its result for the cleanup.
func (g *gateway) awaitEnd() {
	g.tb.Helper()
	select {
	case err := <-g.done:
		if err != nil {
			g.tb.Errorf("Run: %v", err)
		}
		g.done <- nil
	case <-time.After(patience):
		g.tb.Fatal("Run does not return")
	}
}

// failingListener breaks once asked.
type failingListener struct {
	net.Listener
}

func (failingListener) Accept() (net.Conn, error) { return nil, io.ErrClosedPipe }

func TestListenerFails(t *testing.T) {
	g := start(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(DefaultConfig(), Deps{
		Selector: g.selector, Dispatcher: g.engines, Fleet: g.fleet, Registerer: newRegistry(), Now: time.Now, Log: g.Server.log,
		Reads: func(worker.Leg) wire.Reads { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background(), failingListener{l}); err == nil || !strings.Contains(err.Error(), "serving the API") {
		t.Errorf("%v", err)
	}
}
