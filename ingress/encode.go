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
// the others. The last of fields is the request id.
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
		body: x.query.body.Edit(append(oneToken(chatPath, &x.query.body), body.Set("messages", messages))...),
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
			c.end(x.givenUp(), false)
			return errLegDropped
		}
		c.end(worker.Failure, false)
		return legProblem(c, http.StatusBadGateway, "request_failed", "the answer of encode worker "+c.pick.Worker.URL+" broke off: "+reason(err).Error(), true)
	}
	c.end(worker.Success, false)
	return nil
}
