package ingress

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"smg/engine"
)

const (
	abortPath = "/abort_requests"
	// letGoWait is how long a prefill engine may take to be told.
	letGoWait = 2 * time.Second
)

// letGo asks the prefill engine to let go of KV that no decode engine has answered for.
// Few vLLM engines can be asked. Where one cannot, its own lease ends it, and the KV
// is counted as abandoned, unless a decode engine may have fetched it.
func (x *exchange) letGo(h *handoff, fields []engine.Field) {
	srv, w, epoch := x.srv, h.prefill.pick.Worker, h.prefill.pick.Epoch
	abandoned := func() {}
	if !h.heard {
		abandoned = srv.metrics.pd.abandoned.Inc
	}
	target, err := srv.target(w)
	if told, ok := srv.deaf.Load(w.ID); err != nil || ok && told == epoch {
		abandoned()
		return
	}
	ids := []string{h.request}
	if h.answer != "" && h.answer != h.request {
		ids = append(ids, h.answer)
	}
	body, err := json.Marshal(map[string][]string{"request_ids": ids})
	if err != nil {
		abandoned()
		return
	}
	if fields, err = srv.authorized(withoutRequestID(fields), w); err != nil {
		abandoned()
		return
	}
	q := engine.Request{Method: http.MethodPost, Path: abortPath, Fields: fields, Body: body}
	srv.trailing.Go(func() {
		ctx, cancel := context.WithTimeout(srv.life, letGoWait)
		defer cancel()
		resp, err := srv.dispatcher.Send(ctx, target, &q)
		if err == nil {
			defer resp.Close()
			switch resp.Status {
			case http.StatusOK:
				return
			case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
				srv.deaf.Store(w.ID, epoch)
			}
		}
		abandoned()
	})
}
