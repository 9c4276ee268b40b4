package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"smg/engine"
	"smg/engine/enginepb/sglangpb"
	"smg/engine/enginepb/vllmpb"
)

func TestStatuses(t *testing.T) {
	want := map[codes.Code]int{
		codes.Canceled: 400, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504, codes.NotFound: 404, codes.AlreadyExists: 409,
		codes.PermissionDenied: 403, codes.ResourceExhausted: 429, codes.FailedPrecondition: 400, codes.Aborted: 409, codes.OutOfRange: 400,
		codes.Unimplemented: 501, codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401,
	}
	code, before := codes.OK, false
	fake := &fakeVLLM{generate: func(_ *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error {
		if !before {
			if err := s.Send(chunkV(0, 5)); err != nil {
				return err
			}
		}
		return status.Error(code, "no")
	}}
	c := client(t)
	tg := target(t, c, serve(t, fake).url)
	for code = codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, before = range []bool{false, true} {
			s, err := c.Generate(t.Context(), tg, engine.RuntimeVLLM, call(1))
			if err != nil {
				t.Fatal(err)
			}
			pieces, err := readAll(s)
			refused, ok := errors.AsType[*engine.Refused](err)
			if !ok || refused.Status != want[code] || refused.Code != code.String() || refused.Message != "no" || (len(pieces) == 0) != before {
				t.Errorf("%v, with pieces %v: %v behind %d pieces, want status %d", code, !before, err, len(pieces), want[code])
			}
		}
	}
	if got := c.Stats().Aborts; got != 0 {
		t.Errorf("%d calls were aborted that their engine had ended", got)
	}
}

func TestConnections(t *testing.T) {
	generate := func(t *testing.T, c *Client, url string) error {
		t.Helper()
		s, err := c.Generate(t.Context(), target(t, c, url), engine.RuntimeVLLM, call(1))
		if err != nil {
			return err
		}
		_, err = readAll(s)
		return err
	}
	well := func() *fakeVLLM { return &fakeVLLM{generate: say[vllmpb.GenerateRequest](endV(0, 5))} }
	t.Run("nobody there", func(t *testing.T) {
		s := serve(t, well())
		s.stop()
		err := generate(t, client(t), s.url)
		if !errors.Is(err, engine.ErrConnect) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v, want a connection that was refused", err)
		}
	})
	t.Run("back at once", func(t *testing.T) {
		c := client(t)
		s := serve(t, well())
		if err := generate(t, c, s.url); err != nil {
			t.Fatal(err)
		}
		s.stop()
		for i := range 5 { // gRPC waits longer and longer by itself
			err := generate(t, c, s.url)
			e, ok := errors.AsType[*engine.Error](err)
			if lost := ok && i == 0 && e.Reused && errors.Is(e.Kind, engine.ErrNoAnswer); !lost && !errors.Is(err, engine.ErrConnect) {
				t.Fatalf("%v, want no connection", err)
			}
		}
		serveAt(t, strings.TrimPrefix(s.url, "grpc://"), well())
		if err := generate(t, c, s.url); err != nil {
			t.Errorf("an engine that is back: %v", err)
		}
	})
	t.Run("no gRPC server", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\n\r\n")
				_ = nc.Close()
			}
		}()
		defer func() { _ = l.Close(); <-done }()
		if err := generate(t, client(t), "grpc://"+l.Addr().String()); !errors.Is(err, engine.ErrConnect) {
			t.Errorf("%v, want no connection", err)
		}
	})
	t.Run("silent", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c := client(t, func(c *Config) { c.ConnectTimeout = 50 * time.Millisecond })
		if err := generate(t, c, "grpc://"+l.Addr().String()); !errors.Is(err, engine.ErrConnect) {
			t.Errorf("%v, want no connection", err)
		}
	})
	for _, spoken := range []bool{false, true} {
		name, want := "lost before a word", engine.ErrNoAnswer
		if spoken {
			name, want = "lost behind a word", engine.ErrBroken
		}
		t.Run(name, func(t *testing.T) {
			came := make(chan struct{})
			s := serve(t, &fakeVLLM{generate: func(_ *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error {
				if spoken {
					if err := s.Send(chunkV(0, 5)); err != nil {
						return err
					}
				}
				close(came)
				<-s.Context().Done()
				return s.Context().Err()
			}})
			c := client(t)
			stream, err := c.Generate(t.Context(), target(t, c, s.url), engine.RuntimeVLLM, call(1))
			if err != nil {
				t.Fatal(err)
			}
			within(t, came, "the call comes")
			if spoken {
				if _, err := stream.Next(); err != nil {
					t.Fatal(err)
				}
			}
			s.stop()
			_, err = readAll(stream)
			if !errors.Is(err, want) || spoken != errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
	t.Run("an answer that is too large", func(t *testing.T) {
		fake := &fakeVLLM{generate: say[vllmpb.GenerateRequest](endV(0, make([]uint32, 2<<20)...))}
		c := client(t, func(c *Config) { c.MaxMessageBytes = 1 << 20 })
		if err := generate(t, c, serve(t, fake).url); !errors.Is(err, engine.ErrProtocol) {
			t.Errorf("%v, want %v", err, engine.ErrProtocol)
		}
		within(t, fake.did, "the engine is told to give up")
	})
}

func TestWhatCannotBeSent(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Request)
	}{
		{"no id", func(r *Request) { r.ID = "" }},
		{"no prompt", func(r *Request) { r.Tokens = nil }},
		{"no choice", func(r *Request) { r.Sampling.N = 0 }},
		{"a negative rank", func(r *Request) { r.Rank = new(-1) }},
		{"negative tokens", func(r *Request) { r.Sampling.MaxTokens = new(-1) }},
		{"a constraint of no kind", func(r *Request) { r.Sampling.Constraint = &Constraint{} }},
		{"text that is none", func(r *Request) { r.Text = "\xff" }},
		{"a line break in a field", func(r *Request) { r.Fields = []engine.Field{{Name: "a", Value: "b\r\nc: d"}} }},
		{"a field of gRPC's", func(r *Request) { r.Fields = []engine.Field{{Name: "Grpc-Timeout", Value: "1S"}} }},
		{"a field with bytes", func(r *Request) { r.Fields = []engine.Field{{Name: "x-bin", Value: "a"}} }},
		{"a field without a name", func(r *Request) { r.Fields = []engine.Field{{Value: "a"}} }},
	}
	fake := &fakeSGLang{generate: say[sglangpb.GenerateRequest](endS(0, 1, 5))}
	c := client(t)
	tg := target(t, c, serve(t, fake).url)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := call(1)
			tt.change(r)
			if _, err := c.Generate(t.Context(), tg, engine.RuntimeSGLang, r); !hasKind(err, engine.ErrRequest) {
				t.Errorf("%v, want %v", err, engine.ErrRequest)
			}
		})
	}
	if _, err := c.Generate(t.Context(), tg, engine.RuntimeGeneric, call(1)); !hasKind(err, engine.ErrRequest) {
		t.Errorf("an engine that speaks no gRPC: %v", err)
	}
	for _, url := range []string{"", "h:1", "http://h:1", "grpc://", "grpc://:80", "grpc://u:p@h", "grpc://h?a", "grpc://h#a", "grpc://h/x", "grpc://h:x"} {
		if _, err := c.Target(url); err == nil {
			t.Errorf("%q is taken for an engine's URL", url)
		}
	}
}

func TestFields(t *testing.T) {
	got := make(chan metadata.MD, 1)
	fake := &fakeSGLang{generate: func(_ *sglangpb.GenerateRequest, s grpc.ServerStreamingServer[sglangpb.GenerateResponse]) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		got <- md
		return s.Send(endS(0, 1, 5))
	}}
	c := client(t)
	r := call(1)
	r.Fields = []engine.Field{{Name: "Authorization", Value: "Bearer k"}, {Name: "traceparent", Value: "00-1"}, {Name: "X-Request-Id", Value: "a"}}
	s, err := c.Generate(t.Context(), target(t, c, serve(t, fake).url), engine.RuntimeSGLang, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(s); err != nil {
		t.Fatal(err)
	}
	md := <-got
	for name, want := range map[string]string{"authorization": "Bearer k", "traceparent": "00-1", "x-request-id": "a"} {
		if v := md.Get(name); len(v) != 1 || v[0] != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
}

func TestClosed(t *testing.T) {
	c := client(t)
	tg := target(t, c, serve(t, &fakeVLLM{}).url)
	c.Close()
	if _, err := c.Generate(t.Context(), tg, engine.RuntimeVLLM, call(1)); !hasKind(err, engine.ErrClosed) {
		t.Errorf("a call of a closed client: %v", err)
	}
	if _, err := c.Target("grpc://h:1"); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a target of a closed client: %v", err)
	}
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{KeepAlive: -1}.Validate()
	for _, want := range []string{"connect timeout", "ping timeout", "patience", "abort timeout", "linger", "keep-alive", "windows", "messages", "one piece ahead"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a client of nothing")
	}
}

// TestLinger: a connection outlives its targets for a while.
func TestLinger(t *testing.T) {
	c := client(t, func(c *Config) { c.Linger = time.Hour })
	tg, err := c.Target("grpc://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	c.Forget(tg)
	c.Forget(tg)
	conns := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.conns)
	}
	c.reap(time.Now())
	if conns() != 1 {
		t.Error("a connection did not linger")
	}
	again, err := c.Target("grpc://127.0.0.1:1/")
	if err != nil || again.conn != tg.conn {
		t.Errorf("the connection is not shared: %v", err)
	}
	c.reap(time.Now().Add(2 * time.Hour))
	if conns() != 1 {
		t.Error("a connection in use was dropped")
	}
	c.Forget(again)
	if !c.enter(again.conn) {
		t.Fatal("the client is closed")
	}
	c.reap(time.Now().Add(2 * time.Hour))
	if conns() != 1 {
		t.Error("a connection was dropped with a call that runs")
	}
	c.exit(again.conn)
	c.reap(time.Now().Add(3 * time.Hour))
	if conns() != 0 {
		t.Error("a connection lingers for ever")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
	}()
	stop()
	within(t, done, "Run ends")
}
