package ingress

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"

	"smg/engine"
	"smg/ingress/body"
	"smg/worker"
)

// sequential has vLLM's engines work one after the other: encoders first, each
// with one medium, then prefill, whose answer says where its KV is, then decode,
// which fetches it. All get one request id, which differs from attempt to attempt:
// the engine may still hold what belongs to the last one.
func (x *exchange) sequential(rt *route, r *http.Request, p *Plan, attempt int) error {
	fields := withRequestID(upstreamFields(nil, r.Header), x.requestID(rt, r)+"-"+strconv.Itoa(attempt))
	if err := x.encode(p, fields); err != nil {
		return err
	}
	if len(p.Encode) > 0 {
		x.timing.encoded = x.timing.next(x.elapsed())
	}
	edits := ownFields()
	if p.Prefill != nil {
		params, err := x.prefill(rt, p.Prefill, fields)
		if err != nil {
			return err
		}
		x.timing.prefillTook(x.timing.next(x.elapsed()))
		if params == nil {
			x.srv.metrics.kvFailures.Inc() // decode computes the prompt itself
		} else {
			edits = append(edits, body.Set(fieldKV, params))
		}
	}
	err := x.decode(p.Decode, request{path: rt.path, fields: fields, body: x.query.body.Edit(edits...), bound: true})
	if err != nil && p.Prefill != nil && !x.headSent {
		x.srv.metrics.abandoned.Inc() // over HTTP the engine cannot be told
	}
	return err
}

// decode has the decode worker answer the client.
func (x *exchange) decode(c *call, q request) error {
	resp, err := c.send(&x.ctx, q)
	if err != nil {
		return err
	}
	defer resp.Close()
	if resp.Status >= 300 {
		return x.refused(c, resp)
	}
	return x.relay(resp, c)
}

// fieldKV is where vLLM's engines are told of KV that is to be handed over.
const fieldKV = "kv_transfer_params"

// remoteDecode asks a prefill engine to keep the KV for a decode engine.
var remoteDecode = []byte(`{"do_remote_decode":true,"do_remote_prefill":false}`)

// prefill computes the prompt's KV and returns what decode needs in order to fetch
// it, or nil when the engine did not say.
func (x *exchange) prefill(rt *route, c *call, fields []engine.Field) ([]byte, error) {
	resp, err := c.send(&x.ctx, request{
		path: rt.path, fields: fields, bound: true,
		body: x.query.body.Edit(append(oneToken(&x.query.body), body.Set(fieldKV, remoteDecode))...),
	})
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	if resp.Status >= 300 {
		return nil, x.refused(c, resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp, x.srv.cfg.MaxPayloadBytes))
	if err != nil {
		if x.ctx.Err() != nil {
			c.end(x.givenUp(), false)
			return nil, contextProblem(&x.ctx, "prefill worker "+c.pick.Worker.URL+" was awaited")
		}
		c.end(worker.Failure, false)
		return nil, legProblem(c, http.StatusBadGateway, "read_failed", "the answer of prefill worker "+c.pick.Worker.URL+" broke off: "+reason(err).Error(), true)
	}
	c.end(worker.Success, false)
	var kept struct {
		Params json.RawMessage `json:"kv_transfer_params"`
	}
	if json.Unmarshal(answer, &kept) != nil || bytes.Equal(kept.Params, []byte("null")) {
		return nil, nil // an answer without them is one that decode does without
	}
	return kept.Params, nil
}

// several says whether a request has more than one thing to generate, which vLLM
// hands nothing over for: KV can be fetched once, so it is no use to several answers,
// and of several prompts prefill says only where the first one's is. A decode engine
// that looks there for the others dies of it (seen with 0.32, docs/engines.md).
func (x *exchange) several(rt *route) bool {
	n, ok := x.query.body.N()
	return ok && n > 1 || rt.prompts(&x.query.body) > 1
}

// encode has every medium encoded, all at the same time. The first failure ends
// the others.
func (x *exchange) encode(p *Plan, fields []engine.Field) error {
	if len(p.Encode) == 0 {
		return nil
	}
	ctx, drop := context.WithCancelCause(&x.ctx)
	defer drop(nil)
	var all sync.WaitGroup
	for i, c := range p.Encode {
		all.Go(func() {
			if err := x.contained(func() error { return x.encodeOne(ctx, c, p.items[i], fields) }); err != nil {
				drop(err)
			}
		})
	}
	all.Wait()
	err := context.Cause(ctx)
	switch {
	case err == nil:
		return nil
	case x.ctx.Err() != nil:
		return contextProblem(&x.ctx, "media were encoded")
	}
	return err
}

// encodeOne primes an encoder with one medium. What it answers does not matter.
func (x *exchange) encodeOne(ctx context.Context, c *call, item body.Item, fields []engine.Field) error {
	messages := append([]byte(`[{"role":"user","content":[`), item.Part...)
	messages = append(messages, `]}]`...)
	resp, err := c.send(ctx, request{
		path: chatPath, fields: fields, bound: true,
		body: x.query.body.Edit(append(oneToken(&x.query.body), body.Set("messages", messages))...),
	})
	if err != nil {
		return err
	}
	defer resp.Close()
	if resp.Status >= 300 {
		return x.refused(c, resp)
	}
	if _, err := io.Copy(io.Discard, resp); err != nil {
		if ctx.Err() != nil {
			c.end(worker.Neutral, false)
			return errLegDropped
		}
		c.end(worker.Failure, false)
		return legProblem(c, http.StatusBadGateway, "request_failed", "the answer of encode worker "+c.pick.Worker.URL+" broke off: "+reason(err).Error(), true)
	}
	c.end(worker.Success, false)
	return nil
}

// oneToken makes a body ask for the prompt's work alone: a single token, whole.
func oneToken(b *body.Body) []body.Edit {
	one := []byte("1")
	edits := append(ownFields(), body.Set("stream", []byte("false")), body.Remove("stream_options"), body.Remove("min_tokens"))
	if _, ok := b.N(); ok {
		edits = append(edits, body.Set("n", one))
	}
	if b.Field(body.KeyMaxCompletionTokens).Present() {
		return append(edits, body.Set("max_completion_tokens", one), body.Remove("max_tokens"))
	}
	return append(edits, body.Set("max_tokens", one))
}

// withRequestID is fields with one request id.
func withRequestID(fields []engine.Field, id string) []engine.Field {
	kept := make([]engine.Field, 0, len(fields)+1)
	for _, f := range fields {
		if f.Name != requestIDHeader {
			kept = append(kept, f)
		}
	}
	return append(kept, engine.Field{Name: requestIDHeader, Value: id})
}

const requestIDHeader = "X-Request-Id"

// requestID is the client's id of the request, or one that the gateway makes up
// once.
func (x *exchange) requestID(rt *route, r *http.Request) string {
	if x.id == "" {
		if x.id = r.Header.Get(requestIDHeader); x.id == "" {
			x.id = rt.idPrefix + newID()
		}
	}
	return x.id
}

// newID is 24 letters and digits, which differ from request to request.
func newID() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	var id [24]byte
	for i := range id {
		id[i] = alphabet[rand.IntN(len(alphabet))]
	}
	return string(id[:])
}
