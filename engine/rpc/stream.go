package rpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"smg/engine"
)

// Piece is what an engine has said of one choice since the piece before.
type Piece struct {
	Index  int
	Tokens []uint32 // new ones
	// Prompt and Cached are how many tokens the prompt has, and how many of them were in
	// the cache; Completion is how many the choice has so far.
	Prompt, Cached, Completion int
	// Output is of Tokens; Input of the prompt, once for a choice. Both are nil where they
	// were not asked for.
	Output, Input *Logprobs

	// Of the last piece of a choice: why it ended (stop, length, abort or what the engine
	// calls it), and at what, if it was stopped.
	Done      bool
	Finish    string
	StopToken *uint32
	StopText  string
	// KV is what another engine has to know to fetch the KV: JSON, "" for nothing.
	KV string
}

// Stream is an answer that comes. It belongs to one goroutine, but for Close, and must be
// closed.
type Stream struct {
	target *Target
	ctx    context.Context //nolint:containedctx // the caller's: its end ends the stream
	pieces chan Piece      // Config.Ahead of them, so that a reader knows whether more has come
	err    error           // why pieces was closed, io.EOF after a whole answer
	detach func() bool
	cut    func() // ends the call

	mu      sync.Mutex // guards what follows
	gone    bool       // nobody reads on
	patient time.Duration
	spoken  bool          // the engine has said something
	over    bool          // it has said everything
	limit   *time.Timer   // of patience, nil before
	left    chan struct{} // closed when gone is set
}

// Generate calls an engine of runtime, and returns once the call is on its way. What the
// engine thinks of it is the first thing that [Stream.Next] says. The end of ctx ends the
// stream; its deadline goes along with a call that is not patient. Errors are those of
// the package.
func (c *Client) Generate(ctx context.Context, t *Target, runtime string, r *Request) (*Stream, error) {
	d, err := dialectOf(runtime)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return nil, &engine.Error{Kind: engine.ErrRequest, Target: t.url, Err: err}
	}
	if !c.enter(t.conn) {
		return nil, &engine.Error{Kind: engine.ErrClosed, Target: t.url}
	}
	s, err := c.open(ctx, t, d, r)
	if err != nil {
		c.exit(t.conn)
	}
	return s, err
}

// open opens a stream that is counted in.
func (c *Client) open(ctx context.Context, t *Target, d dialect, r *Request) (*Stream, error) {
	if ctx.Err() != nil {
		return nil, &engine.Error{Kind: engine.ErrCanceled, Target: t.url, Err: canceled(ctx)}
	}
	reused, err := t.conn.ready(ctx, c.cfg.ConnectTimeout)
	if err != nil {
		return nil, t.unconnected(ctx, err)
	}
	call, what, cut := c.callOf(ctx, r)
	what.reused = reused
	call, err = withFields(call, r.Fields)
	if err != nil {
		cut()
		return nil, &engine.Error{Kind: engine.ErrRequest, Target: t.url, Err: err}
	}
	next, err := d.generate(call, t.conn.cc, r)
	switch {
	case err == nil:
	case isStatus(err):
		cut()
		return nil, t.failure(ctx, what, err)
	default:
		cut()
		return nil, &engine.Error{Kind: engine.ErrRequest, Target: t.url, Err: err}
	}
	s := &Stream{target: t, ctx: ctx, pieces: make(chan Piece, c.cfg.Ahead), left: make(chan struct{}), cut: cut}
	if r.Patient {
		s.patient = c.cfg.Patience
	}
	rd := &reader{client: c, stream: s, dialect: d, id: r.ID, next: next, seen: what, call: call, choices: make([]choice, r.Sampling.N)}
	s.detach = context.AfterFunc(ctx, s.leave)
	go func() {
		defer c.exit(t.conn)
		rd.run()
	}()
	return s, nil
}

// callOf is the call's own context, which outlives the caller's for what is left to do
// then. It ends with cut, or with the client.
func (c *Client) callOf(ctx context.Context, r *Request) (call context.Context, what *seen, cut func()) {
	call, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.base, end)
	timed := context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok && !r.Patient {
		call, timed = context.WithDeadline(call, deadline)
	}
	call, what = watched(call)
	return call, what, func() {
		stop()
		timed()
		end()
	}
}

// Next is the next piece. io.EOF follows the last piece of the last choice, whether or not
// the engine has ended the call; any other error is one of the package, and final.
func (s *Stream) Next() (Piece, error) {
	select {
	case <-s.left:
		return Piece{}, s.given()
	default:
	}
	select {
	case p, ok := <-s.pieces:
		if ok {
			return p, nil
		}
		if !errors.Is(s.err, io.EOF) && s.ctx.Err() != nil {
			return Piece{}, s.given()
		}
		return Piece{}, s.err
	case <-s.left:
		return Piece{}, s.given()
	}
}

// given is the error of a stream that was given up.
func (s *Stream) given() error {
	if s.ctx.Err() != nil {
		return &engine.Error{Kind: engine.ErrCanceled, Target: s.target.url, Err: canceled(s.ctx)}
	}
	return &engine.Error{Kind: engine.ErrClosed, Target: s.target.url}
}

// Buffered is how many pieces have come that were not read yet.
func (s *Stream) Buffered() int { return len(s.pieces) }

// Close gives the answer up, unless it has ended: the call is cut, a patient one once it
// has said something, and the engine told. It does not wait for that. Closing twice does
// nothing.
func (s *Stream) Close() {
	s.detach()
	s.leave()
}

func (s *Stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	close(s.left)
	if s.over {
		return // the engine ends the call any moment
	}
	if s.patient > 0 && !s.spoken {
		s.limit = time.AfterFunc(s.patient, s.cut)
		return
	}
	s.cut()
}

// spoke notes that the engine has said something, and says whether nobody listens.
func (s *Stream) spoke() (gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoken = true
	return s.gone
}

// ended notes that nothing more comes, and says whether nobody listened.
func (s *Stream) ended() (gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoken, s.over = true, true
	if s.limit != nil {
		s.limit.Stop()
	}
	return s.gone
}
