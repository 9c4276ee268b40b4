package ingress

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"smg/engine"
	"smg/sim/simhttp"
	"smg/worker"
)

// moved is every series of the metrics whose names have a prefix that is not 0: counters
// and gauges by their values, histograms and summaries by how often they were told.
func (g *gateway) moved(prefix string) map[string]float64 {
	g.tb.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		g.tb.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), prefix)
		if !ok {
			continue
		}
		for _, m := range f.GetMetric() {
			var v float64
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				v = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				v = m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				v = float64(m.GetHistogram().GetSampleCount())
			case dto.MetricType_SUMMARY:
				v = float64(m.GetSummary().GetSampleCount())
			default:
				g.tb.Fatalf("%s is of type %s", f.GetName(), f.GetType())
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if v != 0 {
				all[strings.TrimSpace(name+" "+strings.Join(labels, " "))] = v
			}
		}
	}
	return all
}

// TestHTTPMetricsMove holds what is counted of requests as clients send them.
func TestHTTPMetricsMove(t *testing.T) {
	_, url := answers(t, jsonOK)
	g := start(t, []string{url})
	g.do(post(chatPath, chatBody))
	g.do(post(chatPath, chatBody))
	g.do(post(chatPath, `{`))
	g.do(post("/generate", `{"model":"other","text":"a"}`))
	g.do("GET /workers/x HTTP/1.1\r\nHost: g\r\n\r\n")
	g.do("GET /no/such/path HTTP/1.1\r\nHost: g\r\n\r\n")
	g.do("BREW /health HTTP/1.1\r\nHost: g\r\n\r\n")
	// Labels are in alphabetical order: error_code, path, status_code; method, path.
	want := map[string]float64{
		"requests_total POST /v1/chat/completions": 3, "request_duration_seconds POST /v1/chat/completions": 3,
		"requests_total POST /generate": 1, "request_duration_seconds POST /generate": 1,
		"requests_total GET /workers/{worker_id}": 1, "request_duration_seconds GET /workers/{worker_id}": 1,
		"requests_total GET other": 1, "request_duration_seconds GET other": 1,
		"requests_total OTHER /health": 1, "request_duration_seconds OTHER /health": 1,
		"responses_total  /v1/chat/completions 200": 2, "responses_total  /v1/chat/completions 400": 1,
		"responses_total model_not_found /generate 404": 1, "responses_total  /workers/{worker_id} 400": 1,
		"responses_total  other 404": 1, "responses_total  /health 405": 1,
	}
	got := g.moved("smg_http_")
	maps.DeleteFunc(got, func(name string, _ float64) bool {
		return strings.HasPrefix(name, "inflight_request_age") || strings.HasPrefix(name, "connections_active")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRequestsInFlightAreShown sees a request counted until the last byte of its answer,
// while the duration is that of its head.
func TestRequestsInFlightAreShown(t *testing.T) {
	e := &script{pieces: []string{sseHead + chunk(event), chunk(done) + lastOne}, step: make(chan struct{})}
	g := start(t, []string{engineAt(t, e.serve)})
	c := g.dial()
	c.send(chat(streamBody))
	resp := c.head()
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	got := g.moved("smg_http_")
	if got["connections_active"] != 1 || got["request_duration_seconds POST /v1/chat/completions"] != 1 {
		t.Errorf("in the middle of a stream: %v", got)
	}
	e.step <- struct{}{}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	within(t, time.Second, "nothing is in flight", func() bool { return g.moved("smg_http_")["connections_active"] == 0 })
}

// TestAgesOfRequests counts running requests by age, each in one bin, every 20 s.
func TestAgesOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.RequestTimeout = 30 * time.Hour
		m := newHTTPMetrics(nil, nil)
		wa := newWatcher(cfg, time.Now)
		wa.aged = m.aged
		for _, age := range []time.Duration{0, 25 * time.Second, 30 * time.Second, 20 * time.Minute, 25 * time.Hour} {
			w := &watch{ctx: &life{request: t.Context(), deadline: time.Now().Add(cfg.RequestTimeout - age)}}
			wa.add(w)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); wa.run(ctx) }()
		shown := func() map[string]int {
			all := map[string]int{}
			for i, bin := range ageBins() {
				var out dto.Metric
				if err := m.binned[i].Write(&out); err != nil {
					t.Fatal(err)
				}
				if v := int(out.GetGauge().GetValue()); v > 0 {
					all[bin[0]+"-"+bin[1]] = v
				}
			}
			return all
		}
		time.Sleep(time.Second) // the first look
		if diff := cmp.Diff(map[string]int{"0-30": 2, "30-60": 1, "1200-3600": 1, "86400-+Inf": 1}, shown()); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		time.Sleep(ageEvery - 2*time.Second)
		if diff := cmp.Diff(map[string]int{"0-30": 2, "30-60": 1, "1200-3600": 1, "86400-+Inf": 1}, shown()); diff != "" {
			t.Errorf("before 20 s (-want +got):\n%s", diff)
		}
		time.Sleep(3 * time.Second)
		if diff := cmp.Diff(map[string]int{"0-30": 1, "30-60": 2, "1200-3600": 1, "86400-+Inf": 1}, shown()); diff != "" {
			t.Errorf("after 20 s (-want +got):\n%s", diff)
		}
		stop()
		<-done
	})
}

// TestAgeBins puts ages on a bound into the bin that ends there.
func TestAgeBins(t *testing.T) {
	for age, want := range map[time.Duration]int{0: 0, time.Nanosecond: 0, 30 * time.Second: 0, 30*time.Second + 1: 1, 24 * time.Hour: 10, 24*time.Hour + 1: 11, -time.Second: 0} {
		if got := ageBin(age); got != want {
			t.Errorf("%v is in bin %d, not %d", age, got, want)
		}
	}
}

// TestRouterMetricsMove holds what is counted of requests to workers: those of clients
// once each, with what was tried for them beside it.
func TestRouterMetricsMove(t *testing.T) {
	withRetries := withConfig(func(c *Config) {
		c.Retry = Retry{Attempts: 3, Initial: time.Millisecond, Max: time.Millisecond, Multiplier: 1}
	})
	status := func(code int) string { return fmt.Sprintf("HTTP/1.1 %d Any\r\nContent-Length: 2\r\n\r\n{}", code) }
	// Labels in alphabetical order: backend_type, connection_mode, endpoint, [error_type,] model, router_type, [streaming].
	const chat, chatEnd = "requests_total regular http chat m http false", "request_duration_seconds regular http chat m http"
	tests := []struct {
		name   string
		engine string // what it answers; "": there is none
		send   string
		opts   []option
		want   map[string]float64
		worker map[string]float64 // of smg_worker_
	}{
		{
			"served", status(200), post(chatPath, chatBody), nil,
			map[string]float64{chat: 1, chatEnd: 1, "upstream_responses_total  http 200": 1},
			nil,
		},
		{
			"streamed", sseHead + chunk(event) + chunk(done) + lastOne, post(chatPath, streamBody), nil,
			map[string]float64{"requests_total regular http chat m http true": 1, chatEnd: 1, "upstream_responses_total  http 200": 1},
			nil,
		},
		{
			"a bad body", status(200), post(chatPath, `{"model":"made-up"}`), nil,
			map[string]float64{"requests_total regular http chat unknown http false": 1, "request_errors_total regular http chat validation_error unknown http": 1},
			nil,
		},
		{
			"an unknown model", status(200), post(chatPath, strings.Replace(chatBody, `"m"`, `"made-up"`, 1)), nil,
			map[string]float64{"requests_total regular http chat unknown http false": 1, "request_errors_total regular http chat no_workers unknown http": 1},
			nil,
		},
		{
			"the worker refuses", status(422), post(chatPath, chatBody), nil,
			map[string]float64{chat: 1, "request_errors_total regular http chat internal_error m http": 1, "upstream_responses_total  http 422": 1},
			nil,
		},
		{
			"an error that is not tried again", status(501), post(chatPath, chatBody),
			[]option{withRetries},
			map[string]float64{chat: 1, "request_errors_total regular http chat backend_error m http": 1, "upstream_responses_total  http 501": 1},
			map[string]float64{"errors_total http backend_error regular": 1},
		},
		{
			"every attempt fails", status(504), post(chatPath, chatBody),
			[]option{withRetries},
			map[string]float64{chat: 1, "upstream_responses_total  http 504": 3},
			map[string]float64{
				"errors_total http timeout regular": 3, "retry_backoff_seconds 1": 1, "retry_backoff_seconds 2": 1,
				"retries_total chat regular": 2, "retries_exhausted_total chat regular": 1,
			},
		},
		{
			"nobody is there", "", post(chatPath, chatBody), nil,
			map[string]float64{chat: 1, "upstream_responses_total call_upstream_request_error http 500": 1},
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := "http://127.0.0.1:1"
			if tt.engine != "" {
				_, url = answers(t, tt.engine)
			}
			g := start(t, []string{url}, tt.opts...)
			g.do(tt.send)
			within(t, time.Second, "it is counted", func() bool {
				return slices.ContainsFunc(slices.Collect(maps.Keys(g.moved("smg_router_"))), func(s string) bool { return strings.HasPrefix(s, "requests_total") })
			})
			moved := g.moved("smg_router_")
			maps.DeleteFunc(moved, func(name string, _ float64) bool { return strings.HasPrefix(name, "request_body_path_total") }) // TestGatewayBodies has them
			if diff := cmp.Diff(tt.want, moved); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			got := g.moved("smg_worker_")
			maps.DeleteFunc(got, func(name string, _ float64) bool {
				return strings.HasPrefix(name, "selection_total") || tt.worker == nil && strings.HasPrefix(name, "retries_exhausted")
			})
			if len(got)+len(tt.worker) > 0 {
				if diff := cmp.Diff(tt.worker, got); diff != "" {
					t.Errorf("of workers (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// resent is a Dispatcher that says how often it has sent something once more.
type resent struct{ Dispatcher }

func (resent) Stats() engine.Stats { return engine.Stats{Resends: 7} }

// TestResendsAreShown adds up what the engines' client has sent once more and what was
// planned anew instead.
func TestResendsAreShown(t *testing.T) {
	_, url := answers(t, jsonOK)
	g := start(t, []string{url}, withDeps(func(d *Deps) { d.Dispatcher = resent{d.Dispatcher} }))
	g.metrics.router.replanned.Add(2)
	if got := g.moved("smg_router_upstream_send_retries_total")["http"]; got != 9 {
		t.Errorf("%v re-sends", got)
	}
}

// TestSeriesAreFoundWithoutAllocation holds the usual path to its price.
func TestSeriesAreFoundWithoutAllocation(t *testing.T) {
	_, url := answers(t, jsonOK)
	g := start(t, []string{url})
	g.do(post(chatPath, chatBody))
	m, rt := g.metrics, g.routes[chatPath]
	if n := testing.AllocsPerRun(100, func() {
		m.http.arrivals.of(arrivalKey{rt, http.MethodPost}).requests.Inc()
		m.http.answers.of(answerKey{rt, 200, ""}).Inc()
		m.router.heardOf.of(heardKey{200, ""}).Inc()
		m.router.served.of(servedKey{Regular, "m", rt, false}).requests.Inc()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestGatewaySelections(t *testing.T) {
	t.Run("61_every_pick_counts", func(t *testing.T) {
		count := func(g *gateway) map[string]float64 {
			all := g.moved("smg_worker_selection")
			g.idle()
			return all
		}
		_, url := answers(t, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
		g := start(t, []string{url}, withConfig(func(c *Config) {
			c.Retry = Retry{Attempts: 3, Initial: time.Millisecond, Max: time.Millisecond, Multiplier: 1}
		}))
		g.do(chat(chatBody))
		g.do(chat(strings.Replace(chatBody, `"m"`, `"none"`, 1))) // no pick
		// Labels: connection_mode, model, policy, worker_type.
		if diff := cmp.Diff(map[string]float64{"_total http m round_robin regular": 3}, count(g)); diff != "" {
			t.Errorf("with retries (-want +got):\n%s", diff)
		}
		d := startPD(t, simhttp.SGLang)
		d.do(chat(chatBody))
		if diff := cmp.Diff(map[string]float64{"_total http m round_robin prefill": 1, "_total http m round_robin decode": 1}, count(d.gateway)); diff != "" {
			t.Errorf("of both legs (-want +got):\n%s", diff)
		}
		// Who was picked counts, whatever becomes of the other leg (ruling 22).
		d.selector.mu.Lock()
		d.selector.workers = slices.DeleteFunc(d.selector.workers, func(w *worker.Spec) bool { return w.Leg == worker.Decode })
		d.selector.mu.Unlock()
		d.do(chat(chatBody))
		if diff := cmp.Diff(map[string]float64{"_total http m round_robin prefill": 2, "_total http m round_robin decode": 1}, count(d.gateway)); diff != "" {
			t.Errorf("with decode down (-want +got):\n%s", diff)
		}
		d.quiet(t)
	})
}

// TestNoSeriesForNamesOfClients: a client that leaves before its plan is made must not
// leave the name of a model behind that it made up, nor one that would fill pages.
func TestNoSeriesForNamesOfClients(t *testing.T) {
	_, url := answers(t, jsonOK)
	g := start(t, []string{url})
	rt := g.Server.routes[chatPath]
	for _, err := range []error{errClientGone, nil} {
		x := &exchange{srv: g.Server, route: rt, routed: true, err: err, mode: Regular}
		x.query.model = "made-up"
		if err == nil { // served by workers that do not say what they serve
			x.planned, x.query.model = 1, strings.Repeat("x", maxModelLabel+1)
		}
		x.countServed()
	}
	for name := range g.moved("smg_router_requests_total") {
		if strings.Contains(name, "made-up") || strings.Contains(name, "xxx") {
			t.Errorf("there is a series %s", name)
		}
	}
	if got := len(g.moved("smg_router_requests_total")); got != 2 {
		t.Errorf("%d series, want those of unknown and of other", got)
	}
}
