package simgrpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"smg/engine/enginepb/sglangpb"
	"smg/engine/enginepb/vllmpb"
	"smg/sim/simhttp"
)

// maxMessage bounds a message.
const maxMessage = 256 << 20

// Front serves one engine over gRPC.
type Front struct {
	engine *simhttp.Server
	server *grpc.Server
	conns  *conns
}

var _ simhttp.Front = (*Front)(nil)

// New is the front of an engine: a value for [simhttp.Config]'s Front.
func New(engine *simhttp.Server) simhttp.Front {
	f := &Front{engine: engine, conns: &conns{open: map[string]*conn{}}}
	f.server = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		// As SGLang's server lets its clients ask whether it is there.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(f.unary), grpc.StreamInterceptor(f.stream),
	)
	alive := health.NewServer()
	grpc_health_v1.RegisterHealthServer(f.server, alive)
	name := vllmpb.VllmEngine_ServiceDesc.ServiceName
	if engine.Config().Kind == simhttp.SGLang {
		name = sglangpb.SglangScheduler_ServiceDesc.ServiceName
		sglangpb.RegisterSglangSchedulerServer(f.server, &sglang{engine: engine})
	} else {
		vllmpb.RegisterVllmEngineServer(f.server, &vllm{engine: engine})
	}
	alive.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	return f
}

// Serve implements simhttp.Front.
func (f *Front) Serve(l net.Listener) error { return f.server.Serve(&listener{l, f.conns}) }

// CloseIdle implements simhttp.Front.
func (f *Front) CloseIdle() { f.conns.closeIdle() }

// Close implements simhttp.Front.
func (f *Front) Close() { f.server.Stop() }

// visitKey finds a call's visit in its context.
type visitKey struct{}

func visitOf(ctx context.Context) *simhttp.Visit {
	v, _ := ctx.Value(visitKey{}).(*simhttp.Visit)
	return v
}

// unary has the engine let a question in.
func (f *Front) unary(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
	defer f.conns.busy(ctx)()
	v, fault := f.enter(ctx, info.FullMethod, in, false)
	if fault != nil {
		return nil, f.fail(ctx, fault)
	}
	defer func() { v.Leave(statusOf(err)) }()
	return handle(context.WithValue(ctx, visitKey{}, v), in)
}

// stream does the same for a call whose answers come one after the other. Its handler
// enters it, since it knows the message.
func (f *Front) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	defer f.conns.busy(s.Context())()
	err := handle(srv, &entering{ServerStream: s, front: f, method: info.FullMethod})
	if errors.Is(err, errDropped) {
		f.conns.settle(s.Context())
		f.conns.cut(s.Context())
	}
	return err
}

// entering is a stream that the engine lets in when its message is there.
type entering struct {
	grpc.ServerStream
	front  *Front
	method string
	ctx    context.Context //nolint:containedctx // the stream's, with its visit; nil before
}

// RecvMsg implements grpc.ServerStream.
func (e *entering) RecvMsg(m any) error {
	if err := e.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	ctx := e.ServerStream.Context()
	inference := e.method == sglangpb.SglangScheduler_Generate_FullMethodName || e.method == vllmpb.VllmEngine_Generate_FullMethodName
	v, fault := e.front.enter(ctx, e.method, m, inference)
	if fault != nil {
		return e.front.fail(ctx, fault)
	}
	e.ctx = context.WithValue(ctx, visitKey{}, v)
	return nil
}

// Context implements grpc.ServerStream.
func (e *entering) Context() context.Context {
	if e.ctx != nil {
		return e.ctx
	}
	return e.ServerStream.Context()
}

// enter has the engine let a call in. What rules and records see of it is JSON.
func (f *Front) enter(ctx context.Context, method string, in any, inference bool) (*simhttp.Visit, *simhttp.Fault) {
	header := http.Header{}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		for _, v := range values {
			header.Add(name, v)
		}
	}
	var body []byte
	if m, ok := in.(proto.Message); ok {
		body, _ = protojson.MarshalOptions{UseProtoNames: true}.Marshal(m) // of a message that came
	}
	return f.engine.Enter(ctx, method, header, body, inference)
}

// fail is the end of a call that is not served, or not to its end.
func (f *Front) fail(ctx context.Context, fault *simhttp.Fault) error {
	if fault.Drop {
		f.conns.cut(ctx)
		return errDropped
	}
	return status.Error(codeOf(fault.Status), fault.Message)
}

// codeOf is what engines make of a status of HTTP.
func codeOf(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusConflict:
		return codes.Aborted
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusNotImplemented:
		return codes.Unimplemented
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return codes.DeadlineExceeded
	}
	return codes.Internal
}

// statusOf is how records show the end of a call.
func statusOf(err error) int {
	switch status.Code(err) {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// conns are the connections of an engine, by their callers' addresses.
type conns struct {
	mu   sync.Mutex
	open map[string]*conn
}

type conn struct {
	net.Conn
	from   *conns
	calls  int // in flight; guarded by from.mu
	writes atomic.Int64
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	defer c.writes.Add(1)
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.from.mu.Lock()
	delete(c.from.open, c.RemoteAddr().String())
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// listener knows the connections that it has accepted.
type listener struct {
	net.Listener
	conns *conns
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, from: l.conns}
	l.conns.mu.Lock()
	l.conns.open[nc.RemoteAddr().String()] = c
	l.conns.mu.Unlock()
	return c, nil
}

// of is the connection of a call.
func (cs *conns) of(ctx context.Context) *conn {
	return cs.open[callerOf(ctx)]
}

// busy counts a call of a connection until the function that it returns is called.
func (cs *conns) busy(ctx context.Context) (done func()) {
	count := func(by int) {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if c := cs.of(ctx); c != nil {
			c.calls += by
		}
	}
	count(1)
	return func() { count(-1) }
}

// settle waits until a connection has nothing more to write, as far as can be seen from
// outside: gRPC writes what it is given when it gets to it.
func (cs *conns) settle(ctx context.Context) {
	cs.mu.Lock()
	c := cs.of(ctx)
	cs.mu.Unlock()
	if c == nil {
		return
	}
	const look, enough = 2 * time.Millisecond, 5
	for quiet, before := 0, c.writes.Load(); quiet < enough && ctx.Err() == nil; quiet++ {
		time.Sleep(look)
		if now := c.writes.Load(); now != before {
			quiet, before = 0, now
		}
	}
}

// cut closes the connection of a call, with all its other calls.
func (cs *conns) cut(ctx context.Context) {
	cs.mu.Lock()
	c := cs.of(ctx)
	cs.mu.Unlock()
	if c != nil {
		_ = c.Close() // it is to be gone
	}
}

// closeIdle closes connections without a call.
func (cs *conns) closeIdle() {
	var idle []*conn
	cs.mu.Lock()
	for _, c := range cs.open {
		if c.calls == 0 {
			idle = append(idle, c)
		}
	}
	cs.mu.Unlock()
	for _, c := range idle {
		_ = c.Close() // it is to be gone
	}
}
