package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"smg/engine"
	"smg/worker"
)

// fanout is a question to many engines.
type fanout struct {
	method, path string
	parallel     int           // calls at the same time
	limit        time.Duration // of one call
	most         int64         // bytes of one answer
}

// heard is what one engine answered. Its body is a part of the budget for bodies until
// free.
type heard struct {
	worker *worker.Spec
	body   []byte
	err    error // in words for whoever asked
	held   int64
}

// each asks engines and returns what they answered, in their order. It returns after
// every call, at the latest when the exchange ends; its answers are to be freed.
func (x *exchange) each(engines []*worker.Spec, f fanout) []heard {
	all := make([]heard, len(engines))
	var calls sync.WaitGroup
	defer calls.Wait()
	places := make(chan struct{}, f.parallel)
	for i, spec := range engines {
		all[i].worker = spec
		select {
		case places <- struct{}{}:
		case <-x.ctx.Done():
			all[i].err = errors.New("the request ended before it was asked")
			continue
		}
		calls.Go(func() {
			defer func() { <-places }()
			one := &all[i]
			if err := x.contained(func() error { return x.asksOne(one, f) }); err != nil {
				one.err = err
			}
		})
	}
	return all
}

// asksOne asks one engine.
func (x *exchange) asksOne(one *heard, f fanout) error {
	ctx, cancel := context.WithTimeout(&x.ctx, f.limit)
	defer cancel()
	req := engine.Request{Method: f.method, Path: f.path}
	resp, err := x.srv.question(ctx, one.worker, &req)
	if err != nil {
		return inTime(ctx, f.limit, err)
	}
	defer resp.Close()
	most := f.most
	if resp.Status >= http.StatusMultipleChoices {
		most = maxQuote
	}
	one.body, one.held, err = x.srv.whole(resp, most)
	if resp.Status >= http.StatusMultipleChoices {
		return fmt.Errorf("it answered %d %s: %s", resp.Status, http.StatusText(resp.Status), quote(one.body))
	}
	return inTime(ctx, f.limit, err)
}

// inTime words an error that is that of a call's time.
func inTime(ctx context.Context, limit time.Duration, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it did not answer within %v", limit)
	}
	if err != nil {
		return reason(err)
	}
	return nil
}

// question sends a request to an engine by the address that all its ranks have, with the
// worker's own key unless the client has sent one.
func (s *Server) question(ctx context.Context, spec *worker.Spec, req *engine.Request) (*engine.Response, error) {
	target, err := s.target(spec)
	if err == nil {
		req.Fields, err = s.authorized(req.Fields, spec)
	}
	if err != nil {
		return nil, err
	}
	return s.dispatcher.Send(ctx, target, req)
}

var (
	errAnswerTooLarge = errors.New("its answer is too large")
	errNoRoom         = errors.New("the gateway holds too many bodies at the moment (--max-buffered-bytes-total)")
)

// readStep is by how much the room for an answer of unknown length grows.
const readStep = 64 << 10

// whole reads an answer of at most so many bytes. What is read is held of the budget
// for bodies, also on error. An answer beyond is returned as far as it may be, with an
// error.
func (s *Server) whole(resp *engine.Response, most int64) (body []byte, held int64, err error) {
	for {
		piece, err := resp.Next()
		if need := int64(len(body) + len(piece)); need > held {
			more := max(need-held, readStep)
			if !s.buffers.reserve(more) {
				return body, held, errNoRoom
			}
			held += more
		}
		if room := most - int64(len(body)); int64(len(piece)) > room {
			return append(body, piece[:room]...), held, errAnswerTooLarge
		}
		body = append(body, piece...)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return body, held, err
		}
	}
}

// free gives back what answers hold.
func (s *Server) free(all []heard) {
	for i := range all {
		s.buffers.release(all[i].held)
		all[i].body, all[i].held = nil, 0
	}
}

// maxQuote is how much of an engine's error is repeated.
const maxQuote = 256

// quote is an engine's error in one line.
func quote(b []byte) string {
	return clip(strings.ToValidUTF8(strings.Join(strings.Fields(string(b)), " "), ""))
}

// engines are the workers that are asked by HTTP, in the order of their registration,
// each engine once, however many of its ranks are workers.
func (s *Server) engines() []*worker.Spec {
	var all []*worker.Spec
	seen := map[string]bool{}
	for _, m := range s.fleet.Workers() {
		if base := m.Spec.Base(); m.Spec.Mode == worker.HTTP && !seen[base] {
			seen[base] = true
			all = append(all, m.Spec)
		}
	}
	return all
}
