package ingress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"smg/bootstrap"
	"smg/engine"
	"smg/ingress/body"
	"smg/worker"
)

// maxSplit bounds how many answers a chat can have asked for one by one: as many as
// OpenAI's API gives at most, so that no number in a body makes thousands of requests.
const maxSplit = 128

// splits says whether a chat's answers are each asked for by themselves: for engines that
// refuse lists of rooms.
func (x *exchange) splits(rt *route) (n int, ok bool) {
	if !x.srv.cfg.PD.SplitAnswers || rt.path != chatPath {
		return 0, false
	}
	n = rt.prompts(&x.query.body)
	return n, n > 1
}

// share is a lease that several calls of one worker have together: it ends with the last
// of them, with the worst of their outcomes.
type share struct {
	whole *call

	mu        sync.Mutex
	left      int
	outcome   worker.Outcome
	unreached bool
}

// shares are n calls of the worker of one.
func (c *call) shares(n int) []*call {
	s := &share{whole: c, left: n, outcome: worker.Success, unreached: true}
	parts := make([]*call, n)
	for i := range parts {
		parts[i] = &call{x: c.x, lease: c.lease, pick: c.pick, share: s}
	}
	return parts
}

func (s *share) end(part *call, o worker.Outcome, unreached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o == worker.Failure || s.outcome == worker.Success {
		s.outcome = o
	}
	if o == worker.Failure {
		s.whole.why = part.why
	}
	s.unreached = s.unreached && unreached
	if s.left--; s.left == 0 {
		s.whole.end(s.outcome, s.unreached)
	}
}

// split has each of a chat's n answers computed as a request of its own, all of the same
// two workers and at the same time, and joins them to what one request would have had.
// The first failure ends them all.
func (x *exchange) split(rt *route, r *http.Request, p *Plan, n int) error {
	if n > maxSplit {
		return gatewayProblem(http.StatusBadRequest, "invalid_request", `"n" must be between 1 and %d: each answer is a request of its own (--pd-n-mode split)`, maxSplit)
	}
	fields := upstreamFields(nil, r.Header)
	rooms := x.srv.rooms.Draw(n)
	legs := x.newLegs(func() { x.srv.rooms.Release(rooms) })
	j := &joiner{n: n, url: p.Decode.pick.Worker.URL, whole: make([]body.Doc, n), heads: make([]*engine.Response, n), events: make(chan splitEvent)}
	var wg sync.WaitGroup
	run := func(call func() error) {
		wg.Go(func() {
			if err := x.contained(call); err != nil {
				legs.drop(err)
			}
		})
	}
	prefills, decodes, begun := p.Prefill.shares(n), p.Decode.shares(n), x.timing.step
	for i := range n {
		join := bootstrap.Bootstrap{Host: p.Prefill.pick.Worker.BootstrapHost, Port: p.Prefill.pick.Worker.BootstrapPort, Rooms: rooms[i : i+1]}
		q := request{path: rt.path, fields: fields, bound: true, body: x.part(join, p.number, i)}
		run(func() error { return x.watchPrefill(legs.ctx, prefills[i], q, begun, nil) })
		run(func() error { return x.gatherPart(legs.ctx, decodes[i], q, j, i) })
	}
	legs.watch(func(context.Context) error { wg.Wait(); return nil })
	err := x.joinParts(legs, j)
	legs.end() // all have ended, or are ended by it
	x.srv.buffers.release(j.held.Load())
	if err != nil && !x.headSent {
		return x.first(legs.ctx, err)
	}
	return err
}

// part is the body that asks for answer i alone, of a plan.
func (x *exchange) part(join bootstrap.Bootstrap, plan, i int) []byte {
	b := &x.query.body
	host, port, room := join.Values(body.AppendString)
	edits := append(ownFields(), body.Remove("n"),
		body.Set(bootstrap.FieldHost, host), body.Set(bootstrap.FieldPort, port), body.Set(bootstrap.FieldRoom, room))
	// Answers of one seed would be the same, and engines refuse an id that runs.
	if seed, err := strconv.ParseInt(string(b.Member("seed")), 10, 64); err == nil {
		edits = append(edits, body.Set("seed", strconv.AppendInt(nil, seed+int64(i), 10)))
	}
	if rid := b.RID(); rid != "" {
		if plan > 0 {
			rid += "-" + strconv.Itoa(plan)
		}
		edits = append(edits, body.Set(fieldRID, body.AppendString(nil, rid+"_"+strconv.Itoa(i))))
	}
	return b.Edit(edits...)
}

// joiner makes one answer of several.
type joiner struct {
	n      int
	url    string             // of the worker that decodes
	heads  []*engine.Response // of which the fields stay
	whole  []body.Doc
	events chan splitEvent
	held   atomic.Int64 // of the budget

	id        []byte // that all events get
	completed int64  // tokens
	usage     body.Doc
}

// splitEvent is an event of answer i.
type splitEvent struct {
	i     int
	head  *engine.Response
	event []byte
}

// gatherPart has decode compute one of the answers.
func (x *exchange) gatherPart(ctx context.Context, c *call, q request, j *joiner, i int) error {
	defer c.end(worker.Neutral, false) // if nothing else has
	resp, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Close()
	if resp.Status >= http.StatusMultipleChoices {
		return x.refused(c, resp)
	}
	if j.heads[i] = resp; x.answersEvents(resp) {
		return x.gatherEvents(ctx, c, resp, j, i)
	}
	answer, held, err := x.srv.whole(resp, x.srv.cfg.MaxPayloadBytes/int64(j.n))
	j.held.Add(held)
	if errors.Is(err, errNoRoom) {
		c.end(worker.Neutral, false)
		return exhaustedBudget("answers")
	}
	if err != nil && !errors.Is(err, errAnswerTooLarge) {
		return x.broken(c, false, err)
	}
	d, ok := body.CheckDoc(answer)
	if !ok {
		c.end(worker.Neutral, false)
		return gatewayProblem(http.StatusBadGateway, "decode_read_failed", "the answer of worker %s is no JSON, or too large to be joined with others", c.pick.Worker.URL)
	}
	j.whole[i] = d
	c.end(c.outcome(resp.Status), false)
	return nil
}

func (x *exchange) gatherEvents(ctx context.Context, c *call, resp *engine.Response, j *joiner, i int) error {
	stream := framer{budget: &x.srv.buffers}
	defer stream.release()
	for first := true; ; {
		piece, err := resp.Next()
		if errors.Is(err, io.EOF) {
			c.end(c.outcome(resp.Status), false)
			return nil
		}
		if err != nil {
			return x.broken(c, !first, err)
		}
		stream.add(piece)
		for event, ok := stream.next(); ok; event, ok = stream.next() {
			if f, ok := streamFault(event); ok {
				c.failed(f)
				return x.streamed(legAnswer(c, f.status, f.message))
			}
			first = false
			select {
			case j.events <- splitEvent{i, resp, bytes.Clone(event)}:
			case <-ctx.Done():
				return x.broken(c, true, engine.ErrCanceled)
			}
		}
	}
}

// joinParts sends the client what the calls gather.
func (x *exchange) joinParts(legs *legs, j *joiner) error {
	for {
		select {
		case e := <-j.events:
			if !x.headSent {
				x.writeHead(e.head, j.url, true, -1)
			}
			if out := j.event(e); len(out) > 0 && x.write(out, true) != nil {
				return errClientGone
			}
			continue
		case <-legs.done:
		}
		break
	}
	switch {
	case legs.ctx.Err() == nil && x.headSent:
		return x.writeAll(append(j.lastUsage(nil), "data: [DONE]\n\n"...))
	case legs.ctx.Err() == nil:
		answer := j.answer()
		x.writeHead(j.heads[0], j.url, false, int64(len(answer)))
		return x.writeAll(answer)
	case x.ctx.Err() != nil:
		return contextProblem(&x.ctx, "the answers of several calls were awaited")
	case !x.headSent:
		return errLegDropped
	}
	p := gatewayProblem(http.StatusBadGateway, "decode_stream_error", "one of the answers has failed: %v", context.Cause(legs.ctx))
	return x.writeAll(x.errorEvent(p, tail{'\n', '\n'}))
}

// writeAll ends an answer with b.
func (x *exchange) writeAll(b []byte) error {
	if x.write(b, false) != nil {
		return errClientGone
	}
	return x.finish()
}

// event is what the client gets of an event: its answer's index in it, and neither the
// end nor the usage of a part.
func (j *joiner) event(e splitEvent) []byte {
	data := eventData(e.event)
	d, ok := body.CheckDoc(data)
	if !ok {
		if string(data) == "[DONE]" {
			return nil
		}
		return e.event
	}
	if j.id == nil {
		j.id = d.At("id")
	}
	if j.id != nil && d.At("id") != nil {
		d, _ = d.Set(nil, j.id, "id")
	}
	choices := d.At("choices").Elements()
	if u := d.At("usage"); choices == nil && len(u) > 0 && u[0] == '{' {
		j.count(d)
		return nil
	}
	if choices != nil {
		d, _ = d.Set(nil, numbered(nil, choices, e.i), "choices")
	}
	return appendEvent(nil, e.event, data, d)
}

// numbered appends a list of choices that are answer i.
func numbered(dst []byte, choices []body.Doc, i int) []byte {
	dst = append(dst, '[')
	for k, c := range choices {
		if k > 0 {
			dst = append(dst, ',')
		}
		changed, ok := c.Set(nil, strconv.AppendInt(nil, int64(i+k), 10), "index")
		if !ok {
			changed = c
		}
		dst = append(dst, changed...)
	}
	return append(dst, ']')
}

// count adds what a part has used. The prompt is that of all of them.
func (j *joiner) count(d body.Doc) {
	if n, err := strconv.ParseInt(string(d.At("usage", "completion_tokens")), 10, 64); err == nil {
		j.completed += n
	}
	if j.usage == nil {
		j.usage = d
	}
}

// used is a document with the usage of all parts.
func (j *joiner) used(d body.Doc) body.Doc {
	prompt, err := strconv.ParseInt(string(d.At("usage", "prompt_tokens")), 10, 64)
	if err != nil {
		return d
	}
	d, _ = d.Set(nil, strconv.AppendInt(nil, j.completed, 10), "usage", "completion_tokens")
	d, _ = d.Set(nil, strconv.AppendInt(nil, prompt+j.completed, 10), "usage", "total_tokens")
	return d
}

// lastUsage appends the event of the usage of all parts, if they told of it.
func (j *joiner) lastUsage(dst []byte) []byte {
	if j.usage == nil {
		return dst
	}
	return append(append(append(dst, "data: "...), j.used(j.usage)...), "\n\n"...)
}

// answer is one of all parts: the first one with the choices of all.
func (j *joiner) answer() []byte {
	choices := []byte{'['}
	for i, d := range j.whole {
		j.count(d)
		list := numbered(nil, d.At("choices").Elements(), i)
		if inner := list[1 : len(list)-1]; len(inner) > 0 {
			if len(choices) > 1 {
				choices = append(choices, ',')
			}
			choices = append(choices, inner...)
		}
	}
	d, _ := j.used(j.whole[0]).Set(nil, append(choices, ']'), "choices")
	return d
}
