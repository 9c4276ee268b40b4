package ingress

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/worker"
)

// retrying is a gateway with so many attempts, and the waits that it would have made.
func retrying(t *testing.T, attempts int, urls ...string) (*gateway, func() []time.Duration) {
	t.Helper()
	g := start(t, urls, withConfig(func(c *Config) { c.Retry.Attempts = attempts }))
	var mu sync.Mutex
	var waits []time.Duration
	g.Server.paused = func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, d)
		return 0
	}
	return g, func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(waits)
	}
}

// says is an answer of a status.
func says(status int) string {
	return fmt.Sprintf("HTTP/1.1 %d Word\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{\"st\":%d}", status, status)
}

func (g *gateway) exhaustions() float64 {
	return testutil.ToFloat64(g.Server.metrics.exhaustion.WithLabelValues("regular", "chat"))
}

func TestGatewayRetries(t *testing.T) {
	// near says whether the waits are those of the defaults, each up to a fifth off.
	near := func(t *testing.T, waits []time.Duration, want ...time.Duration) {
		t.Helper()
		if len(waits) != len(want) {
			t.Fatalf("waited %v, want %v", waits, want)
		}
		for i, w := range want {
			if d := waits[i]; d < w*4/5-time.Millisecond || d > w*6/5+time.Millisecond {
				t.Errorf("wait %d is %v, want %v ± 20 %%", i, d, w)
			}
		}
	}
	const ms = time.Millisecond

	t.Run("30_waits_grow", func(t *testing.T) {
		t.Parallel()
		r := DefaultRetry()
		for n, want := range []time.Duration{50 * ms, 75 * ms, 112 * ms, 168 * ms, 253 * ms} {
			if got := r.delay(n, 0); got != want {
				t.Errorf("wait %d is %v, want %v", n, got, want)
			}
			if least, most := r.delay(n, -1), r.delay(n, 1); least < want*8/10-ms || least >= want || most > want*12/10+ms || most <= want {
				t.Errorf("wait %d varies from %v to %v", n, least, most)
			}
		}
		if got := r.delay(100, 0); got != r.Max {
			t.Errorf("the hundredth is %v", got)
		}
		r.Jitter = 1
		if got := r.delay(0, -1); got != 0 {
			t.Errorf("all of it taken off leaves %v", got)
		}
	})

	t.Run("30_another_worker_serves", func(t *testing.T) {
		t.Parallel()
		_, bad := answers(t, says(500))
		_, good := answers(t, jsonOK)
		g, waits := retrying(t, DefaultRetry().Attempts, bad, good)
		if r := g.do(chat(chatBody)); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		near(t, waits(), 50*ms)
		if g.exhaustions() != 0 {
			t.Error("the attempts count as used up")
		}
	})

	t.Run("31_attempts", func(t *testing.T) {
		t.Parallel()
		for attempts, want := range map[int][]time.Duration{1: nil, 3: {50 * ms, 75 * ms}} {
			e, url := answers(t, says(503))
			g, waits := retrying(t, attempts, url)
			if r := g.do(chat(chatBody)); r.status != 503 || r.body != `{"st":503}` {
				t.Errorf("%d %s, want the worker's own", r.status, r.body)
			}
			if e.requests() != attempts || g.exhaustions() != 1 {
				t.Errorf("%d requests in %d attempts, used up %v times", e.requests(), attempts, g.exhaustions())
			}
			near(t, waits(), want...)
		}
	})

	t.Run("32_statuses", func(t *testing.T) {
		t.Parallel()
		for status, want := range map[int]int{200: 1, 400: 1, 401: 1, 404: 1, 408: 3, 409: 1, 413: 1, 422: 1, 429: 3, 500: 3, 501: 1, 502: 3, 503: 3, 504: 3, 505: 1} {
			e, url := answers(t, says(status))
			g, _ := retrying(t, 3, url)
			if r := g.do(chat(chatBody)); r.status != status {
				t.Errorf("%d became %d", status, r.status)
			}
			if e.requests() != want {
				t.Errorf("%d is asked for %d times, want %d", status, e.requests(), want)
			}
		}
	})

	t.Run("32_a_shed_is_not", func(t *testing.T) {
		t.Parallel()
		_, url := answers(t, jsonOK)
		g, _ := retrying(t, 3, url)
		g.selector.err = worker.ErrOverloaded
		g.do(chat(chatBody)).fails(t, 503, codeShed)
		if n := len(g.selector.asks); n != 1 {
			t.Errorf("%d selections", n)
		}
	})

	t.Run("33_nobody_has_room", func(t *testing.T) {
		t.Parallel()
		_, url := answers(t, jsonOK)
		g, _ := retrying(t, 3, url)
		g.selector.err = worker.ErrUnavailable
		g.do(chat(chatBody)).fails(t, 503, "no_available_workers")
		if n := len(g.selector.asks); n != 3 || g.exhaustions() != 1 {
			t.Errorf("%d selections, used up %v times", n, g.exhaustions())
		}
		g.Server.paused = func(time.Duration) time.Duration {
			g.selector.mu.Lock()
			defer g.selector.mu.Unlock()
			g.selector.err = nil // a report has come
			return 0
		}
		if r := g.do(chat(chatBody)); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})

	t.Run("36_one_failure_a_request", func(t *testing.T) {
		t.Parallel()
		e, url := answers(t, says(500))
		g, _ := retrying(t, 5, url)
		g.do(chat(chatBody))
		if e.requests() != 5 {
			t.Fatalf("%d requests", e.requests())
		}
		if n := g.failures(); n != 1 {
			t.Errorf("the worker is charged with %d failures", n)
		}
		g.do(chat(chatBody))
		if n := g.failures(); n != 2 {
			t.Errorf("two requests charge it with %d", n)
		}
	})

	t.Run("35_no_failures", func(t *testing.T) {
		t.Parallel()
		for _, status := range []int{400, 401, 403, 404, 409, 413, 422, 429, 503} {
			_, url := answers(t, says(status))
			g, _ := retrying(t, 1, url)
			g.do(chat(chatBody))
			if e := g.selector.last(t); e.Outcome != worker.Neutral {
				t.Errorf("%d: %+v", status, e)
			}
		}
		for _, status := range []int{408, 500, 502, 504} {
			_, url := answers(t, says(status))
			g, _ := retrying(t, 1, url)
			g.do(chat(chatBody))
			if n := g.failures(); n != 1 {
				t.Errorf("%d charges %d failures", status, n)
			}
		}
	})

	t.Run("35_clients_that_leave", func(t *testing.T) {
		t.Parallel()
		for _, begin := range [][]string{nil, {sseHead + chunk(event)}} {
			e, url := hangs(t, begin...)
			g, _ := retrying(t, 3, url)
			c := g.dial()
			c.send(chat(streamBody))
			within(t, patience, "the engine has the request", func() bool { return e.requests() == 1 })
			c.Close()
			g.idle()
			if got := g.selector.last(t); got.Outcome != worker.Neutral || e.requests() != 1 {
				t.Errorf("%+v after %d requests", got, e.requests())
			}
		}
	})

	t.Run("46_down", func(t *testing.T) {
		t.Parallel()
		g, _ := retrying(t, 1, "http://127.0.0.1:1")
		g.do(chat(chatBody)).fails(t, 500, "call_upstream_request_error")
		if n := g.failures(); n != 1 {
			t.Errorf("%d failures", n)
		}
	})

	t.Run("49_cut_before_the_first_byte", func(t *testing.T) {
		t.Parallel()
		cut, good := cutsAndServes(t)
		g, _ := retrying(t, 3, cut.url, good.url)
		r := g.do(chat(streamBody))
		if want := event + done; r.status != 200 || r.body != want || r.err != nil {
			t.Errorf("%d %q %v", r.status, r.body, r.err)
		}
		if cut.requests() != 1 || good.requests() != 1 {
			t.Errorf("%d requests to the one that cuts, %d to the other", cut.requests(), good.requests())
		}
	})

	t.Run("49_cut_stream", func(t *testing.T) {
		t.Parallel()
		e, url := closes(t, sseHead+chunk(event)+chunk(event)+chunk(event))
		_, other := answers(t, jsonOK)
		g, _ := retrying(t, 3, url, other)
		cutStream(t, g, e)
	})

	t.Run("50_larger_than_the_limit", func(t *testing.T) {
		t.Parallel()
		body := strings.Repeat("x", 2000)
		for name, answer := range map[string]string{
			"declared": json200(body),
			"chunked":  "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(body[:500]) + chunk(body[500:]) + lastOne,
		} {
			_, url := answers(t, answer)
			g := start(t, []string{url}, withConfig(func(c *Config) { c.MaxPayloadBytes = 1000 }))
			r := g.do(chat(chatBody))
			r.fails(t, 502, "upstream_response_too_large")
			if !strings.Contains(r.body, url) {
				t.Errorf("%s: the worker is not named: %s", name, r.body)
			}
		}
	})
}

// failures is how often workers were charged.
func (g *gateway) failures() (n int) {
	g.selector.mu.Lock()
	defer g.selector.mu.Unlock()
	for _, all := range g.selector.ends {
		for _, e := range all {
			if e.Outcome == worker.Failure {
				n++
			}
		}
	}
	return n
}

// addressed is a scripted engine and where it is.
type addressed struct {
	*script
	url string
}

// cutsAndServes is an engine that cuts its answer behind the head, and one that serves.
func cutsAndServes(t *testing.T) (cut, good addressed) {
	t.Helper()
	c, at := closes(t, sseHead)
	s, url := answers(t, sseHead+chunk(event)+chunk(done)+lastOne)
	return addressed{c, at}, addressed{s, url}
}

// cutStream wants three events, one that tells of the error, and no second call.
func cutStream(t *testing.T, g *gateway, e *script) {
	t.Helper()
	r := g.do(chat(streamBody))
	rest, ok := strings.CutPrefix(r.body, event+event+event)
	if r.status != 200 || r.err != nil || !ok || strings.Count(rest, "data: ") != 1 || !strings.Contains(rest, "upstream_stream_error") || strings.Contains(rest, "[DONE]") {
		t.Errorf("%d %q %v", r.status, r.body, r.err)
	}
	g.idle()
	if e.requests() != 1 || g.selector.begins() != 1 {
		t.Errorf("%d calls, %d selections", e.requests(), g.selector.begins())
	}
	if n := g.failures(); n != 1 {
		t.Errorf("the worker is charged with %d failures", n)
	}
}

func TestFieldStreams(t *testing.T) {
	t.Run("ST-07_cut_after_0_events", func(t *testing.T) {
		t.Parallel()
		cut, good := cutsAndServes(t)
		g, _ := retrying(t, 3, cut.url, good.url)
		if r := g.do(chat(streamBody)); r.status != 200 || r.body != event+done {
			t.Errorf("%d %q", r.status, r.body)
		}
		g.idle()
		if n := g.failures(); n != 1 {
			t.Errorf("%d failures", n)
		}
	})

	t.Run("ST-07_cut_after_3_events", func(t *testing.T) {
		t.Parallel()
		e, url := closes(t, sseHead+chunk(event)+chunk(event)+chunk(event))
		_, other := answers(t, jsonOK)
		g, _ := retrying(t, 3, url, other)
		cutStream(t, g, e)
	})

	t.Run("ST-10_body_limit", func(t *testing.T) {
		t.Parallel()
		const image = 8<<20 + 512<<10
		e, url := answers(t, jsonOK)
		large := func(n int) string {
			return strings.Replace(chatBody, "hi", strings.Repeat("x", n-len(chatBody)+2), 1)
		}
		g := start(t, []string{url}, withConfig(func(c *Config) { c.MaxPayloadBytes = image }))
		if r := g.do(chat(large(image))); r.status != 200 || len(e.last(t).body) != image {
			t.Errorf("%d, %d bytes of %d at the engine", r.status, len(e.last(t).body), image)
		}
		const limit = 100_000
		small := start(t, []string{url}, withConfig(func(c *Config) { c.MaxPayloadBytes = limit }))
		over := large(limit + 1)
		small.do(chat(over)).fails(t, 413, "request_body_too_large")
		small.do("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk(over)+lastOne).fails(t, 413, "request_body_too_large")
		if e.requests() != 1 {
			t.Errorf("%d requests at the engine", e.requests())
		}
		if r := small.do(chat(large(limit))); r.status != 200 || e.requests() != 2 {
			t.Errorf("the limit itself: %d, %d requests at the engine", r.status, e.requests())
		}
		refused := small.counter(t, "smg_http_responses_total", map[string]string{"status_code": "413", "error_code": "request_body_too_large"})
		if refused != 2 {
			t.Errorf("%v refusals are counted, want 2", refused)
		}
	})
}

// counter is the sum of a metric's series with these labels.
func (g *gateway) counter(t *testing.T, name string, labels map[string]string) (sum float64) {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			left := len(labels)
			for _, l := range m.GetLabel() {
				if v, ok := labels[l.GetName()]; ok && v == l.GetValue() {
					left--
				}
			}
			if left == 0 {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
