package ingress

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"

	"smg/engine"
	"smg/ingress/body"
	"smg/worker"
)

// encode has every medium encoded, all at the same time. The first failure ends
// the others, and the plan: nobody else of it has been asked for anything. The last of
// fields is the request id.
func (x *exchange) encode(p *Plan, fields []engine.Field) error {
	if len(p.Encode) == 0 {
		return nil
	}
	ctx, drop := context.WithCancelCause(&x.ctx)
	defer drop(nil)
	var all sync.WaitGroup
	for i, c := range p.Encode {
		// Several may go to one encoder, and some refuse an id that is running.
		own := withRequestID(fields, fields[len(fields)-1].Value+"-enc-"+strconv.Itoa(i))
		all.Go(func() {
			if err := x.contained(func() error { return x.encodeOne(ctx, c, p.items[i], own) }); err != nil {
				drop(err)
			}
		})
	}
	all.Wait()
	err := context.Cause(ctx)
	if err == nil {
		return nil
	}
	for _, c := range [...]*call{p.Prefill, p.Decode} {
		if c != nil {
			c.end(worker.Neutral, true)
		}
	}
	if x.ctx.Err() != nil {
		return contextProblem(&x.ctx, "media were encoded")
	}
	return err
}

// encodeOne primes an encoder with one medium. What it answers does not matter.
func (x *exchange) encodeOne(ctx context.Context, c *call, item body.Item, fields []engine.Field) error {
	resp, err := c.send(ctx, request{path: chatPath, fields: fields, body: primer(&x.query.body, item), bound: true})
	if err != nil {
		return err
	}
	defer resp.Close()
	if resp.Status >= 300 {
		return x.refused(c, resp)
	}
	if _, err := io.Copy(io.Discard, resp); err != nil {
		if ctx.Err() != nil {
			c.end(x.givenUp(), false)
			return errLegDropped
		}
		c.why = "its answer broke off: " + reason(err).Error()
		c.end(worker.Failure, false)
		return legProblem(c, http.StatusBadGateway, "request_failed", "the answer of encode worker "+c.pick.Worker.URL+" broke off: "+reason(err).Error(), true)
	}
	c.end(worker.Success, false)
	return nil
}

// primer is the chat that makes an encoder compute one medium's embedding: that medium,
// one token, and what the client says that makes the embedding another one. Whatever
// else the request holds could only make the encoder refuse.
func primer(b *body.Body, item body.Item) []byte {
	out := append([]byte(nil), `{"model":`...)
	out = append(out, b.Value(body.KeyModel)...)
	out = append(out, `,"messages":[{"role":"user","content":[`...)
	out = append(out, item.Part...)
	out = append(out, `]}],"max_tokens":1,"stream":false`...)
	for _, name := range [...]string{"mm_processor_kwargs", "media_io_kwargs", "cache_salt"} {
		if v := b.Member(name); v != nil {
			out = append(body.AppendString(append(out, ','), name), ':')
			out = append(out, v...)
		}
	}
	return append(out, '}')
}
