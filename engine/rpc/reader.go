package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"smg/engine"
)

// reader reads an answer for its stream, and tells the engine if nobody wants it any
// more. It is one goroutine.
type reader struct {
	client  *Client
	stream  *Stream
	dialect dialect
	id      string
	next    messages
	seen    *seen
	call    context.Context //nolint:containedctx // the call's
	choices []choice
	done    int // of choices
}

// choice is how far one answer is.
type choice struct {
	tokens int
	came   bool // some of them, in pieces of their own
	told   bool // what was asked of the prompt
	done   bool
}

// run reads to the end of the answer, or until nobody wants it.
func (r *reader) run() {
	abort, err := r.read()
	r.stream.err = err
	gone := r.stream.ended()
	close(r.stream.pieces)
	if errors.Is(err, io.EOF) {
		r.seeOut()
		return
	}
	r.stream.cut()
	if abort || gone && !r.seen.decided.Load() {
		r.abort()
	}
}

// seeOut lets the engine end a call that has said everything. Whatever else it does is no
// matter any more.
func (r *reader) seeOut() {
	defer r.stream.cut()
	limit := time.AfterFunc(r.client.cfg.AbortTimeout, r.stream.cut)
	defer limit.Stop()
	for {
		if _, err := r.next(); err != nil && !errors.Is(err, errEmptyMessage) {
			return
		}
	}
}

// read returns whether the engine may still be at work, and why there is nothing more:
// io.EOF behind a whole answer.
func (r *reader) read() (abort bool, err error) {
	s := r.stream
	for {
		m, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return false, s.target.broken("the engine has ended the call before the answer")
		case errors.Is(err, errEmptyMessage):
			return true, s.target.malformed(err)
		case err != nil:
			err = s.target.failure(s.ctx, r.seen, err)
			return errors.Is(err, engine.ErrProtocol) || errors.Is(err, engine.ErrCanceled), err
		case s.spoke():
			return true, s.given()
		}
		p, err := r.piece(&m)
		if err != nil {
			return true, s.target.malformed(err)
		}
		select {
		case s.pieces <- p:
		case <-s.left:
			return true, s.given()
		}
		if r.done == len(r.choices) {
			return false, io.EOF
		}
	}
}

// piece is what a message says that was not said before. Behind pieces the end repeats
// the last one; without any it has all.
func (r *reader) piece(m *message) (Piece, error) {
	if int64(m.index) >= int64(len(r.choices)) {
		return Piece{}, fmt.Errorf("choice %d of %d", m.index, len(r.choices))
	}
	c := &r.choices[m.index]
	if c.done {
		return Piece{}, fmt.Errorf("choice %d goes on behind its end", m.index)
	}
	p := Piece{
		Index: int(m.index), Tokens: m.tokens, Prompt: int(m.prompt), Cached: int(m.cached), Output: m.output,
		Done: m.done, Finish: m.finish, StopToken: m.stopToken, StopText: m.stopText, KV: m.kv,
	}
	if m.done && c.came {
		p.Tokens, p.Output = nil, nil
		if missing := int(m.completion) - c.tokens; m.totals && missing > 0 && missing <= len(m.tokens) {
			p.Tokens = m.tokens[len(m.tokens)-missing:]
			p.Output = m.output.last(missing)
		}
	}
	if m.input != nil && !c.told {
		p.Input, c.told = m.input, true
	}
	c.tokens += len(p.Tokens)
	c.came = c.came || !m.done
	p.Completion = c.tokens
	if m.done {
		c.done = true
		r.done++
	}
	return p, nil
}

// last is what is told of the last n tokens, nil if that is not known.
func (l *Logprobs) last(n int) *Logprobs {
	if l == nil || len(l.Tokens) < n || len(l.Values) != len(l.Tokens) {
		return nil
	}
	from := len(l.Tokens) - n
	part := &Logprobs{Tokens: l.Tokens[from:], Values: l.Values[from:]}
	if len(l.Top) == len(l.Tokens) {
		part.Top = l.Top[from:]
	}
	if len(l.Asked) == len(l.Tokens) {
		part.Asked = l.Asked[from:]
	}
	return part
}

// abort tells the engine that nobody wants the answer.
func (r *reader) abort() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.call), r.client.cfg.AbortTimeout)
	defer cancel()
	defer context.AfterFunc(r.client.base, cancel)()
	r.client.aborts.Add(1)
	if err := r.dialect.abort(ctx, r.stream.target.conn.cc, r.id); err != nil {
		r.client.abortsFailed.Add(1)
	}
}

// malformed is the error of an answer that does not keep to the protocol.
func (t *Target) malformed(err error) error {
	return &engine.Error{Kind: engine.ErrProtocol, Target: t.url, Err: err}
}

// broken is the error of an answer that ended before its end.
func (t *Target) broken(what string) error {
	return &engine.Error{Kind: engine.ErrBroken, Target: t.url, Err: fmt.Errorf("%w: %s", io.ErrUnexpectedEOF, what)}
}

// isStatus says whether an error is gRPC's.
func isStatus(err error) bool {
	_, ok := status.FromError(err)
	return ok
}

// unimplemented says whether an engine has no such call.
func unimplemented(err error) bool { return status.Code(err) == codes.Unimplemented }
