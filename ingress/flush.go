package ingress

import (
	"fmt"
	"net/http"
	"time"
)

// flushing empties the prefix caches of engines. What policies believe of them stays.
var flushing = fanout{method: http.MethodPost, path: "/flush_cache", parallel: 128, limit: 45 * time.Second, most: 4 << 20}

// flushedCard is the answer of POST /flush_cache.
type flushedCard struct {
	Status     string         `json:"status"` // success, partial_success
	Message    string         `json:"message"`
	Flushed    int            `json:"workers_flushed"`
	HTTP       int            `json:"total_http_workers"`
	GRPC       int            `json:"total_grpc_workers"`
	ZMQ        int            `json:"total_zmq_workers_skipped"`
	Total      int            `json:"total_workers"`
	Successful []string       `json:"successful,omitempty"`
	Failed     []failedWorker `json:"failed,omitempty"`
}

type failedWorker struct {
	Worker string `json:"worker"`
	Error  string `json:"error"`
}

// flushCache has every engine of every leg empty its prefix cache.
func (s *Server) flushCache(x *exchange, r *http.Request) error {
	forsake(x.w, r)
	engines := s.engines()
	all := x.each(engines, flushing)
	defer s.free(all)
	if x.ctx.Err() != nil {
		return contextProblem(&x.ctx, "caches were flushed")
	}
	card := flushedCard{Status: "success", HTTP: len(engines), Total: len(engines)}
	for i := range all {
		if url := all[i].worker.Base(); all[i].err != nil {
			card.Failed = append(card.Failed, failedWorker{url, all[i].err.Error()})
		} else {
			card.Successful = append(card.Successful, url)
		}
	}
	card.Flushed = len(card.Successful)
	status := http.StatusOK
	if len(card.Failed) > 0 {
		status, card.Status = http.StatusPartialContent, "partial_success"
		card.Message = fmt.Sprintf("the caches of %d of %d workers were flushed", card.Flushed, card.Total)
	} else {
		card.Message, card.Successful = fmt.Sprintf("the caches of all %d workers were flushed", card.Total), nil
	}
	x.watch.begin(taking)
	writeJSON(x.w, status, card)
	return nil
}
