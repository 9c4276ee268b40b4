package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// errStale: a pooled connection had ended or had unasked-for bytes waiting.
// Nothing was sent on it.
var errStale = errors.New("stale connection")

// conn is one connection to an engine. It belongs to the pool or to one
// exchange at a time; only abort may be called by others.
type conn struct {
	pool *pool
	tcp  net.Conn
	tls  *tls.Conn // nil for http
	rd   reader

	reused    bool      // came out of the pool
	answered  bool      // has carried an answer
	idleUntil time.Time // zero: for ever

	// Of the current exchange. The context has to be at hand for as long as
	// the caller reads the answer.
	ctx       context.Context
	stopAbort func() bool
	whole     time.Duration // its limit, 0 for none
	timer     *time.Timer   // of it
	late      atomic.Bool   // it has passed
	writeErr  error
	upload    *upload // nil if the request was written in one go

	flight flight
	abort  func() // cuts the connection; bound once, it is registered per request
}

// dial opens a connection to p within its time.
func (c *Client) dial(ctx context.Context, p *pool) (*conn, error) {
	c.dials.Add(1)
	dialCtx, cancel := context.WithTimeout(ctx, p.rules.connect)
	defer cancel()
	cn, err := c.connect(dialCtx, p)
	if err == nil {
		return cn, nil
	}
	// The dialer has a timer of its own for the same deadline, which can be
	// a moment early.
	if end, _ := dialCtx.Deadline(); isTimeout(err) && !time.Now().Before(end) {
		<-dialCtx.Done()
	}
	e := &Error{Kind: ErrConnect, Target: p.name, Err: err}
	switch {
	case ctx.Err() != nil:
		e.Kind, e.Err = ErrCanceled, canceled(ctx)
	// Timeouts are not wrapped: they match context.DeadlineExceeded, and the
	// caller's deadline has not passed.
	case dialCtx.Err() != nil:
		e.Err = errors.New("no connection to " + p.hostport + " within " + p.rules.connect.String())
	case isTimeout(err):
		e.Err = errors.New(err.Error())
	}
	return nil, e
}

func (c *Client) connect(ctx context.Context, p *pool) (*conn, error) {
	dialer := net.Dialer{KeepAlive: -1}
	if c.cfg.KeepAlive > 0 {
		dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: c.cfg.KeepAlive, Interval: c.cfg.KeepAlive}
	}
	tcp, err := dialer.DialContext(ctx, "tcp", p.hostport)
	if err != nil {
		return nil, err
	}
	cn := &conn{pool: p, tcp: tcp}
	cn.rd.src = tcp
	cn.abort = func() { tcp.Close() }
	if p.tls != nil {
		cn.tls = tls.Client(tcp, p.tls)
		cn.rd.src = cn.tls
		if err := cn.tls.HandshakeContext(ctx); err != nil {
			tcp.Close()
			return nil, err
		}
	}
	if err := cn.open(); err != nil {
		tcp.Close()
		return nil, err
	}
	cn.rd.buf = make([]byte, smallBuffer)
	return cn, nil
}

// send writes the request and waits for the head of the answer. On an error
// the connection is closed.
func (cn *conn) send(ctx context.Context, t *Target, req *Request) (*Response, error) {
	cn.ctx = ctx
	cn.rd.seen = false
	// No answer is due: the buffer is free.
	head := req.appendHead(cn.rd.buf[:0], t)
	body := req.Body
	if len(head)+len(body) <= cap(head) {
		head, body = append(head, body...), nil
	}
	cn.stopAbort = afterFunc(ctx, cn.abort)
	cn.limit(t.rules.whole)
	var resp *Response
	err := cn.begin(head, body, req.Stream)
	if err == nil {
		resp, err = cn.receive(req.Method == http.MethodHead)
	}
	if err == nil {
		return resp, nil
	}
	cn.finish(false, 0)
	if errors.Is(err, errStale) {
		return nil, cn.staleOrFail()
	}
	if !cn.rd.seen && cn.writeErr != nil {
		err = cn.writeErr
	}
	if cn.upload != nil && cn.upload.readErr != nil {
		err = cn.upload.readErr
	}
	return nil, cn.fail(err, cn.rd.seen)
}

// afterFunc is [context.AfterFunc], nil for a context that never ends. A context
// that calls by itself is asked directly: in between, the standard library makes a
// context of its own, five allocations that nobody looks at.
func afterFunc(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(interface{ AfterFunc(f func()) func() bool }); ok {
		return c.AfterFunc(f)
	}
	if ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, f)
}

// staleOrFail: a pooled connection can be replaced without a word, a fresh
// one that is already at its end cannot.
func (cn *conn) staleOrFail() error {
	switch {
	case cn.ctx.Err() != nil:
		return cn.fail(errStale, false)
	case cn.reused:
		return errStale
	case cn.rd.seen:
		return cn.fail(framingError("bytes before the request"), true)
	}
	return cn.fail(io.EOF, false)
}

// begin sends the request, or has it sent.
func (cn *conn) begin(head, body []byte, stream io.ReadCloser) error {
	if stream != nil {
		return cn.exchangeStream(head, stream)
	}
	return cn.exchange(head, body)
}

// receive reads the head of the answer.
func (cn *conn) receive(headOnly bool) (*Response, error) {
	resp := &Response{cn: cn}
	f, err := readHead(&cn.rd, cn.pool.client.cfg.MaxHeadBytes, resp)
	if err != nil {
		return nil, err
	}
	cn.answered = true
	empty := headOnly || resp.Status == http.StatusNoContent || resp.Status == http.StatusNotModified
	resp.start(&f, empty)
	switch {
	case resp.Status == http.StatusNoContent && (f.length > 0 || f.chunked):
		// The engine may send a body all the same.
		resp.persist = false
	case cn.writeErr != nil || cn.upload != nil && !cn.upload.finished():
		// Answered before it read the request.
		resp.persist = false
	}
	return resp, nil
}

// finish ends the exchange: the connection goes back to the pool if clean and
// nothing else speaks against it.
func (cn *conn) finish(clean bool, hint time.Duration) {
	if cn.stopAbort != nil {
		clean = cn.stopAbort() && clean
		cn.stopAbort = nil
	}
	clean = cn.unlimit() && clean
	if cn.upload != nil {
		clean = clean && cn.upload.finished() && cn.upload.err == nil
	}
	if !clean || cn.writeErr != nil || cn.rd.err != nil || cn.rd.buffered() > 0 {
		cn.tcp.Close()
		if cn.upload != nil {
			// The body is the caller's again once we return.
			cn.upload.stop()
			<-cn.upload.done
		}
		return
	}
	cn.upload, cn.ctx = nil, nil
	cn.rd.release()
	cn.pool.put(cn, cn.pool.client.cfg.Now(), hint)
}

// close takes leave of an idle connection.
func (cn *conn) close() {
	if cn.tls != nil {
		cn.tls.Close()
		return
	}
	cn.tcp.Close()
}

func (cn *conn) expired(now time.Time) bool {
	return !cn.idleUntil.IsZero() && now.After(cn.idleUntil)
}

// isTimeout says that an error is somebody's patience and no closed door.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
