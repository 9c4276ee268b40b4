package simhttp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"smg/sim"
)

// format renders a task in the words of one API. Frames are complete events,
// from "data: " to the empty line.
type format interface {
	// whole renders the answer that is no stream.
	whole(t *task, states []progress) []byte
	// opening appends what a choice begins with, before its first token.
	opening(dst []byte, choice int) []byte
	// delta appends the event of a choice's newest token, of p.tokens.
	delta(dst []byte, choice int, p progress) []byte
	// last appends the final event of a choice. With merged it carries the
	// last token too.
	last(dst []byte, choice int, p progress, merged bool) []byte
	// failed appends the event of an error, after which only the closing mark
	// follows.
	failed(dst []byte, e *apiError) []byte
	// closing appends what follows when all choices are done.
	closing(dst []byte, states []progress) []byte
}

// perform runs t on the engine and answers. The work ends with the request: a
// caller that leaves takes its blocks with it at once.
func (s *Server) perform(a *answer, t *task, f format) {
	var exact *int
	if t.stream && a.rule != nil && a.rule.Stream != nil {
		exact = a.rule.Stream.Tokens
	}
	requests := s.compose(t, exact)
	defer s.knows(t)()
	arrived := s.clock()
	ctx := a.req.Context()
	h := s.handoffOf(t)
	if !t.receives(s.cfg.Disagg) {
		// Who gets the KV of a prompt has no use for its media.
		if fault := s.see(ctx, t); fault != nil {
			s.writeError(a, fault)
			return
		}
	}
	// Only what is decoded here comes token by token.
	_, prefills := h.(*prefillLeg)
	open := s.driver.open
	if s.cfg.Kind == SGLang {
		open = s.driver.openAlone
	}
	j := open(t.rids, len(requests), t.stream && !prefills)
	// Not left to this goroutine, which may be stuck in a write.
	stop := context.AfterFunc(ctx, func() { s.driver.abort(j) })
	defer func() {
		// Also when a rule breaks the answer off.
		s.driver.close(j)
		stop()
	}()
	if j.failure() == nil {
		end, fault := s.start(ctx, h, j, requests)
		defer end()
		if fault != nil {
			s.writeError(a, fault)
			return
		}
	}
	if t.stream {
		s.stream(a, t, f, j, arrived)
		return
	}
	if j.wait(ctx) != nil {
		return
	}
	if fault := j.failure(); fault != nil {
		s.refuse(a, f, fault)
		return
	}
	states := j.progress(nil)
	s.stats.observe(t, states, arrived, s.clock())
	a.Header().Set("Content-Type", "application/json")
	a.whole(http.StatusOK, f.whole(t, states))
}

// refuse answers with a fault, in the words of the API if it is the caller's.
func (s *Server) refuse(a *answer, f format, fault *apiError) {
	if _, own := f.(*generateFormat); own && fault.status == http.StatusBadRequest {
		s.stats.refused.Add(1)
		writeJSON(a, fault.status, generateError(fault))
		return
	}
	s.writeError(a, fault)
}

// start queues the sequences of j and lets h move their KV. The function that it
// returns ends all that.
func (s *Server) start(ctx context.Context, h handoff, j *job, requests []sim.Request) (end func(), fault *apiError) {
	if h == nil {
		if err := s.driver.queueAll(j, requests); err != nil {
			return func() {}, submitFault(err)
		}
		return func() {}, nil
	}
	if fault := h.begin(j, requests); fault != nil {
		return h.end, fault
	}
	ctx, cancel := context.WithCancel(ctx)
	var moving sync.WaitGroup
	for i := range requests {
		moving.Go(func() {
			if fault := h.move(ctx, j, i); fault != nil {
				s.driver.fail(j, fault)
			}
		})
	}
	return func() {
		cancel()
		moving.Wait()
		h.end()
	}, nil
}

func submitFault(err error) *apiError {
	switch {
	case errors.Is(err, sim.ErrQueueFull):
		return &apiError{status: http.StatusServiceUnavailable, message: "The request queue is full."}
	default:
		return badRequest("", "%v", err)
	}
}

// stream sends one event per token as the engine produces them.
func (s *Server) stream(a *answer, t *task, f format, j *job, arrived time.Time) {
	ev := a.events()
	ev.failure = func() []byte {
		return f.failed(nil, &apiError{status: http.StatusInternalServerError, message: "The engine has failed, as it was told to."})
	}
	if s.dialect.headersFirst {
		ev.begin()
	}
	sent := make([]int, t.choices())
	ended := make([]bool, t.choices())
	var states []progress
	var frame []byte
	for left := t.choices(); left > 0; {
		select {
		case <-a.req.Context().Done():
			return
		case <-j.changed:
		}
		if fault := j.failure(); fault != nil {
			s.stats.refused.Add(1)
			if ev.send(f.failed(frame[:0], fault)) == nil {
				ev.done()
			}
			return
		}
		states = j.progress(states)
		for i := range states {
			if ev.fault.Backwards {
				i = len(states) - 1 - i
			}
			if ended[i] {
				continue
			}
			p := states[i]
			frames := choiceFrames{events: ev, format: f, task: t, buf: frame[:0]}
			if frames.send(i, p, &sent[i]) != nil {
				return
			}
			frame = frames.buf
			if p.done {
				ended[i] = true
				left--
			}
		}
		if ev.open { // flushing before would send a head without its fields
			ev.flush()
		}
	}
	s.stats.observe(t, states, arrived, s.clock())
	if frame = f.closing(frame[:0], states); len(frame) > 0 && ev.send(frame) != nil {
		return
	}
	ev.done()
}

// choiceFrames sends the events of one choice.
type choiceFrames struct {
	events *events
	format format
	task   *task
	buf    []byte
}

// send brings choice i from sent tokens to p.
func (c *choiceFrames) send(i int, p progress, sent *int) error {
	if *sent == 0 && (p.tokens > 0 || p.done) {
		if err := c.put(c.format.opening(c.buf[:0], i)); err != nil {
			return err
		}
	}
	merged := p.done && c.task.mergeLast && p.tokens > *sent
	upto := p.tokens
	if merged {
		upto--
	}
	for ; *sent < upto; *sent++ {
		if c.task.answers[i].Deltas[*sent] == "" {
			continue // swallowed by a stop string
		}
		if err := c.put(c.format.delta(c.buf[:0], i, progress{tokens: *sent + 1, cached: p.cached})); err != nil {
			return err
		}
	}
	if !p.done {
		return nil
	}
	*sent = p.tokens
	return c.put(c.format.last(c.buf[:0], i, p, merged))
}

func (c *choiceFrames) put(frame []byte) error {
	c.buf = frame
	if len(frame) == 0 {
		return nil
	}
	return c.events.send(frame)
}
