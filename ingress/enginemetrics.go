package ingress

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"time"
)

// scraping asks engines for their metrics.
var scraping = fanout{method: http.MethodGet, path: "/metrics", parallel: 32, limit: 5 * time.Second, most: 16 << 20}

// maxScrapes is how many such pages may be made at a time.
const maxScrapes = 2

// lineCost is about what a line needs beside its text while the page is made.
const lineCost = 128

// engineMetrics shows the metrics of all engines on one page, each sample with the
// engine that it is of. Engines that do not answer are left out.
func (s *Server) engineMetrics(x *exchange, r *http.Request) error {
	forsake(x.w, r)
	select { // pages are held of the memory for bodies, and anybody may ask
	case s.scrapes <- struct{}{}:
		defer func() { <-s.scrapes }()
	default:
		return &problem{status: http.StatusServiceUnavailable, form: text, message: "The metrics of all engines are being read: try again", retryAfter: time.Second}
	}
	all := x.each(s.engines(), scraping)
	defer s.free(all)
	if x.ctx.Err() != nil {
		return contextProblem(&x.ctx, "engines were asked for their metrics")
	}
	if len(all) == 0 {
		return &problem{status: http.StatusInternalServerError, form: text, message: "No available workers"}
	}
	page, good := metricsPage{}, 0
	for i := range all {
		cost := lineCost * int64(bytes.Count(all[i].body, []byte("\n")))
		if all[i].err == nil && s.buffers.reserve(cost) {
			all[i].held += cost
			page.add(all[i].worker.Base(), all[i].body)
			good++
		}
	}
	if good == 0 {
		return &problem{status: http.StatusInternalServerError, form: text, message: "All backend requests failed"}
	}
	x.w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	x.w.WriteHeader(http.StatusOK)
	x.headSent = true
	out := bufio.NewWriterSize(toClient{x}, 32<<10)
	page.write(out)
	if out.Flush() != nil {
		return errClientGone
	}
	return nil
}

// toClient writes to the client, who must go on taking.
type toClient struct{ x *exchange }

var _ io.Writer = toClient{}

func (c toClient) Write(b []byte) (int, error) {
	if err := c.x.write(b, false); err != nil {
		return 0, err
	}
	return len(b), nil
}
