package ingress

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"smg/engine"
	"smg/ingress/body"
	"smg/wire"
	"smg/worker"
)

// sequential has vLLM's engines work one after the other: encoders first, each
// with one medium, then prefill, whose answer says where its KV is, then decode,
// which fetches it. All get one request id, which differs from plan to plan: the
// engine may still hold what belongs to the last one.
func (x *exchange) sequential(rt *route, r *http.Request, p *Plan) error {
	id := x.id[0] + "-" + strconv.Itoa(p.number)
	if x.named {
		id = strings.TrimPrefix(id, idPrefix(r.URL.Path)) // which the engine puts before it in its answer
	}
	fields := withRequestID(upstreamFields(nil, r.Header), id)
	if err := x.encode(p, fields); err != nil {
		return err
	}
	if len(p.Encode) > 0 {
		x.timing.encoded = x.timing.next(x.elapsed())
	}
	var h handoff
	x.rewrite = nil
	if p.Prefill != nil {
		h = x.handoffFrom(p.Prefill, id)
		if err := x.prefill(rt, p.Prefill, &h, fields); err != nil {
			return err
		}
		x.timing.prefillTook(x.timing.next(x.elapsed()))
		if h.params == nil && h.mode == modeNixl {
			x.srv.metrics.pd.kvFailures.WithLabelValues(x.srv.metrics.pdLabels(p, x.query.model)...).Inc() // decode computes the prompt itself
			x.srv.warnOnce(p.Prefill, "it does not say where its KV is",
				"start its engine with a KV connector, such as NixlConnector")
		}
		if h.params != nil {
			x.rewrite = x.countsCached(rt, p.Prefill.cached)
		}
	}
	edits := ownFields()
	sent := []byte(nil)
	if h.params != nil {
		// A copy even if nothing changes: the call may outlive the request.
		sent = x.query.body.AppendEdit(nil, append(edits, body.Set(fieldKV, h.params))...)
	} else {
		sent = x.query.body.Edit(edits...)
	}
	return x.fetch(p, &h, request{path: rt.engine(), fields: fields, body: sent, bound: true})
}

// fetch has a decode worker fetch what is handed over and answer the client. Where
// the first one was not there, nobody has fetched it, and another one may. KV that
// nobody will fetch is let go of.
func (x *exchange) fetch(p *Plan, h *handoff, q request) error {
	x.handed = &q
	err := x.decode(p.Decode, h, q)
	if err != nil && x.another(p, h) {
		err = x.decode(p.Decode, h, q)
	}
	x.handed = nil
	if err != nil && h.params != nil && !h.taken {
		x.letGo(h, q.fields)
	}
	return err
}

// decode has the decode worker answer the client.
func (x *exchange) decode(c *call, h *handoff, q request) error {
	resp, done, err := c.sendPatiently(h, q)
	defer done()
	if err != nil {
		p, ok := errors.AsType[*problem](err)
		h.heard = ok && p.status == http.StatusBadGateway && !c.unmet
		return err
	}
	defer resp.Close()
	h.taken = true
	if resp.Status >= 300 {
		if h.transfer != "" && resp.Status >= http.StatusInternalServerError {
			x.srv.engineIDs.forget(h.prefill.pick.Worker.ID) // decode may have asked a process that is gone
		}
		return x.refused(c, resp)
	}
	return x.relay(resp, c)
}

// maxGap is how old KV may be that is handed to another decode worker: engines keep it
// for 30 s, and some do not notice when one comes too late.
const maxGap = 20 * time.Second

// another says whether there is one more decode worker for what the plan's could not
// be told of, and has the plan use it.
func (x *exchange) another(p *Plan, h *handoff) bool {
	if h.params == nil || !p.Decode.unmet || x.srv.cfg.Retry.Attempts < 2 || x.elapsed()-h.since > maxGap || x.ctx.Err() != nil {
		return false
	}
	c := x.anew(p.Decode)
	c.fit, c.urgent = worker.Like(h.prefill.class()), true // prefill's KV is not kept for long
	if err := x.choose(c, nil, append(slices.Clone(p.tried), p.Decode.pick.Worker.ID), new(wire.Select)); err != nil {
		return false
	}
	w := c.pick.Worker
	if w.ID == p.Decode.pick.Worker.ID || w.Class() != h.prefill.class() || x.srv.fleet.Overloaded(w.ID) ||
		x.srv.fleet.Outdated(worker.Decode, w.ID, c.pick.Epoch) || x.elapsed()-h.since > maxGap {
		c.end(worker.Neutral, true)
		return false
	}
	p.gone = append(p.gone, p.Decode.pick.Worker.ID)
	p.Decode = c
	return true
}

// prefill computes the prompt's KV, and finds out what decode needs in order to fetch
// it.
func (x *exchange) prefill(rt *route, c *call, h *handoff, fields []engine.Field) error {
	edits := oneToken(rt.engine(), &x.query.body)
	if tag := h.tag(); tag != nil {
		edits = append(edits, body.Set(fieldKV, tag))
	}
	resp, err := c.send(&x.ctx, request{path: rt.engine(), fields: fields, bound: true, body: x.query.body.Edit(edits...)})
	if err != nil {
		return err
	}
	defer resp.Close()
	if resp.Status >= 300 {
		return x.refused(c, resp)
	}
	answer, held, err := x.collect(resp)
	defer x.srv.buffers.release(held)
	if err != nil {
		if x.ctx.Err() != nil {
			c.end(x.givenUp(), false)
			return contextProblem(&x.ctx, "prefill worker "+c.pick.Worker.URL+" was awaited")
		}
		c.end(worker.Failure, false)
		return legProblem(c, http.StatusBadGateway, "read_failed", "the answer of prefill worker "+c.pick.Worker.URL+" broke off: "+reason(err).Error(), true)
	}
	c.end(worker.Success, false)
	c.cached = cachedFieldOf(rt.path).of(answer)
	h.prefilled(answer, x.elapsed())
	return nil
}

// maxHarvest bounds what is read of prefill's answer: of one that is larger nothing
// is handed over.
const maxHarvest = 64 << 20

// collect reads an answer that is small, and counts it among the buffered bytes: held of
// them, to be released. Of an answer for which there is no room it returns nothing.
func (x *exchange) collect(resp *engine.Response) (answer []byte, held int64, err error) {
	limit := min(maxHarvest, x.srv.cfg.MaxPayloadBytes)
	for {
		piece, err := resp.Next()
		if errors.Is(err, io.EOF) {
			return answer, held, nil
		}
		if err != nil {
			return nil, held, err
		}
		n := int64(len(piece))
		if int64(len(answer))+n > limit || !x.srv.buffers.reserve(n) {
			return nil, held, nil
		}
		held += n
		answer = append(answer, piece...)
	}
}

// withRequestID is fields with one request id.
func withRequestID(fields []engine.Field, id string) []engine.Field {
	return append(withoutRequestID(fields), engine.Field{Name: requestIDHeader, Value: id})
}

func withoutRequestID(fields []engine.Field) []engine.Field {
	kept := make([]engine.Field, 0, len(fields)+1)
	for _, f := range fields {
		if f.Name != requestIDHeader {
			kept = append(kept, f)
		}
	}
	return kept
}
