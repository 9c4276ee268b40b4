package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"smg/engine"
	"smg/engine/enginepb/commonpb"
	"smg/engine/enginepb/sglangpb"
	"smg/engine/enginepb/vllmpb"
)

// fakeSGLang and fakeVLLM are engines that do what a test says. What it says nothing of
// they have not.
type fakeSGLang struct {
	sglangpb.UnimplementedSglangSchedulerServer
	generate func(*sglangpb.GenerateRequest, grpc.ServerStreamingServer[sglangpb.GenerateResponse]) error
	events   func(*commonpb.SubscribeKvEventsRequest, grpc.ServerStreamingServer[commonpb.KvEventBatch]) error
	health   *sglangpb.HealthCheckResponse
	model    *sglangpb.GetModelInfoResponse
	server   *sglangpb.GetServerInfoResponse
	loads    *sglangpb.GetLoadsResponse
	flush    *commonpb.FlushCacheResponse
	aborts
}

type fakeVLLM struct {
	vllmpb.UnimplementedVllmEngineServer
	generate func(*vllmpb.GenerateRequest, grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error
	health   *vllmpb.HealthCheckResponse
	model    *vllmpb.GetModelInfoResponse
	server   *vllmpb.GetServerInfoResponse
	loads    *vllmpb.GetLoadsResponse
	aborts
}

// aborts are the ids that an engine was told to give up.
type aborts struct {
	mu  sync.Mutex
	ids []string
	did chan struct{} // one for each
}

func newAborts() aborts { return aborts{did: make(chan struct{}, 1000)} }

func (a *aborts) add(ids ...string) {
	a.mu.Lock()
	a.ids = append(a.ids, ids...)
	a.mu.Unlock()
	a.did <- struct{}{}
}

func (a *aborts) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.ids...)
}

var errNone = status.Error(codes.Unimplemented, "there is no such call")

func answer[T any](v *T) (*T, error) {
	if v == nil {
		return nil, errNone
	}
	return v, nil
}

func (f *fakeSGLang) Generate(r *sglangpb.GenerateRequest, s grpc.ServerStreamingServer[sglangpb.GenerateResponse]) error {
	return f.generate(r, s)
}

func (f *fakeSGLang) Abort(_ context.Context, r *sglangpb.AbortRequest) (*sglangpb.AbortResponse, error) {
	f.add(r.RequestId)
	return &sglangpb.AbortResponse{Success: true}, nil
}

func (f *fakeSGLang) HealthCheck(context.Context, *sglangpb.HealthCheckRequest) (*sglangpb.HealthCheckResponse, error) {
	return answer(f.health)
}

func (f *fakeSGLang) GetModelInfo(context.Context, *sglangpb.GetModelInfoRequest) (*sglangpb.GetModelInfoResponse, error) {
	return answer(f.model)
}

func (f *fakeSGLang) GetServerInfo(context.Context, *sglangpb.GetServerInfoRequest) (*sglangpb.GetServerInfoResponse, error) {
	return answer(f.server)
}

func (f *fakeSGLang) GetLoads(_ context.Context, r *sglangpb.GetLoadsRequest) (*sglangpb.GetLoadsResponse, error) {
	if len(r.Include) != 4 || r.DpRank != nil {
		return nil, status.Error(codes.InvalidArgument, "not what is asked for")
	}
	return answer(f.loads)
}

func (f *fakeSGLang) FlushCache(context.Context, *commonpb.FlushCacheRequest) (*commonpb.FlushCacheResponse, error) {
	return answer(f.flush)
}

func (f *fakeSGLang) SubscribeKvEvents(r *commonpb.SubscribeKvEventsRequest, s grpc.ServerStreamingServer[commonpb.KvEventBatch]) error {
	if f.events == nil {
		return errNone
	}
	return f.events(r, s)
}

func (f *fakeVLLM) Generate(r *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error {
	return f.generate(r, s)
}

func (f *fakeVLLM) Abort(_ context.Context, r *vllmpb.AbortRequest) (*vllmpb.AbortResponse, error) {
	f.add(r.RequestIds...)
	return &vllmpb.AbortResponse{}, nil
}

func (f *fakeVLLM) HealthCheck(context.Context, *vllmpb.HealthCheckRequest) (*vllmpb.HealthCheckResponse, error) {
	return answer(f.health)
}

func (f *fakeVLLM) GetModelInfo(context.Context, *vllmpb.GetModelInfoRequest) (*vllmpb.GetModelInfoResponse, error) {
	return answer(f.model)
}

func (f *fakeVLLM) GetServerInfo(context.Context, *vllmpb.GetServerInfoRequest) (*vllmpb.GetServerInfoResponse, error) {
	return answer(f.server)
}

func (f *fakeVLLM) GetLoads(context.Context, *vllmpb.GetLoadsRequest) (*vllmpb.GetLoadsResponse, error) {
	return answer(f.loads)
}

// server serves a fake engine until it is stopped, or the test ends.
type server struct {
	url  string
	stop func() // at once, cutting all connections
}

func serve(t testing.TB, fake any) *server {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", fake)
}

func serveAt(t testing.TB, addr string, fake any) *server {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	switch f := fake.(type) {
	case *fakeSGLang:
		f.aborts = newAborts()
		sglangpb.RegisterSglangSchedulerServer(s, f)
	case *fakeVLLM:
		f.aborts = newAborts()
		vllmpb.RegisterVllmEngineServer(s, f)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	stop := sync.OnceFunc(func() {
		s.Stop()
		wg.Wait()
	})
	t.Cleanup(stop)
	return &server{"grpc://" + l.Addr().String(), stop}
}

// client is one with short limits, closed when the test ends.
func client(t testing.TB, change ...func(*Config)) *Client {
	t.Helper()
	cfg := DefaultConfig()
	cfg.ConnectTimeout, cfg.AbortTimeout = 5*time.Second, 5*time.Second
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func target(t testing.TB, c *Client, url string) *Target {
	t.Helper()
	tg, err := c.Target(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Forget(tg) })
	return tg
}

// call is a request for n choices.
func call(n int) *Request {
	r := &Request{ID: "r-1", Tokens: []uint32{1, 2, 3}, Sampling: DefaultSampling(), Stream: true}
	r.Sampling.N = n
	return r
}

// readAll reads an answer to its end.
func readAll(s *Stream) (all []Piece, err error) {
	defer s.Close()
	for {
		p, err := s.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
}

// hasKind says whether an error is of one of package engine's kinds; nil is no error of
// the package's.
func hasKind(err, kind error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	if !ok {
		return kind == nil
	}
	return kind != nil && errors.Is(e.Kind, kind)
}

// within fails the test unless done is closed or sent to soon.
func within(t testing.TB, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("not within 10 s: %s", what)
	}
}
