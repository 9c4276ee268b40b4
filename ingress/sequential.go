package ingress

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"

	"smg/engine"
	"smg/ingress/body"
	"smg/worker"
)

// sequential has vLLM's engines work one after the other: encoders first, each
// with one medium, then prefill, whose answer says where its KV is, then decode,
// which fetches it. All get one request id, which differs from plan to plan: the
// engine may still hold what belongs to the last one.
func (x *exchange) sequential(rt *route, r *http.Request, p *Plan) error {
	fields := withRequestID(upstreamFields(nil, r.Header), x.requestID(rt, r)+"-"+strconv.Itoa(p.number))
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
			x.srv.metrics.pd.kvFailures.WithLabelValues(x.srv.metrics.pdLabels(p, x.query.model)...).Inc() // decode computes the prompt itself
		} else {
			edits = append(edits, body.Set(fieldKV, params))
		}
	}
	err := x.decode(p.Decode, request{path: rt.engine(), fields: fields, body: x.query.body.Edit(edits...), bound: true})
	if err != nil && p.Prefill != nil && !x.headSent {
		x.srv.metrics.pd.abandoned.Inc() // over HTTP the engine cannot be told
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
		path: rt.engine(), fields: fields, bound: true,
		body: x.query.body.Edit(append(oneToken(rt.engine(), &x.query.body), body.Set(fieldKV, remoteDecode))...),
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
	// A map, since a struct's members take keys in any case.
	var members map[string]json.RawMessage
	if json.Unmarshal(answer, &members) != nil || bytes.Equal(members[fieldKV], []byte("null")) {
		return nil, nil // an answer without them is one that decode does without
	}
	return members[fieldKV], nil
}

// responsesPath has a name of its own for the limit of an answer.
const responsesPath = "/v1/responses"

// oneToken makes a body for a path ask for the prompt's work alone: a single token,
// whole.
func oneToken(path string, b *body.Body) []body.Edit {
	one := []byte("1")
	edits := append(ownFields(), body.Set("stream", []byte("false")), body.Remove("stream_options"), body.Remove("min_tokens"))
	if _, ok := b.N(); ok {
		edits = append(edits, body.Set("n", one))
	}
	if path == responsesPath {
		return append(edits, body.Set("max_output_tokens", one))
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
