package ingress

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// arrivals are the series of requests of one method and route.
type arrivals struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

// arrivalKey and answerKey tell requests and answers apart; no route is any path that
// there is not.
type (
	arrivalKey struct {
		route  *route
		method string
	}
	answerKey struct {
		route  *route
		status int
		code   string
	}
)

// methodLabel is a method as a value of the label method: clients choose it.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
		http.MethodTrace, http.MethodConnect:
		return method
	}
	return "OTHER"
}

// countArrival counts a request that has come.
func (x *exchange) countArrival(r *http.Request) {
	x.came = x.srv.metrics.http.arrivals.of(arrivalKey{x.route, methodLabel(r.Method)})
	x.came.requests.Inc()
}

// headOut counts an answer whose head goes out now.
func (x *exchange) headOut() {
	if x.came == nil {
		return // an answer to a question about the API, and not of it
	}
	x.came.duration.Observe(x.out.headed.Seconds())
	x.srv.metrics.http.answers.of(answerKey{x.route, x.out.status, x.out.code}).Inc()
}

// ageEvery is how often the ages of running requests are counted.
const ageEvery = 20 * time.Second

// ageBin is the bin of an age.
func ageBin(age time.Duration) int {
	bounds := ageBounds()
	for i := len(bounds) - 1; i > 0; i-- {
		if age > time.Duration(bounds[i])*time.Second {
			return i
		}
	}
	return 0
}

// aged shows how many running requests each bin has.
func (m *httpMetrics) aged(bins []int) {
	for i, n := range bins {
		m.binned[i].Set(float64(n))
	}
}

// count counts running requests by their age.
func (wa *watcher) count(all []*watch, now time.Time) {
	bins := make([]int, len(ageBounds()))
	for _, w := range all {
		bins[ageBin(wa.requestTimeout-w.ctx.deadline.Sub(now))]++
	}
	wa.aged(bins)
}
