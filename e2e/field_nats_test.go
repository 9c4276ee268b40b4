package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

// TestFieldNATS holds the reports of the field that concern NATS and what services
// know by it.
func TestFieldNATS(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"NC-01_services_start_in_any_order":   anyOrder,
		"NC-02_no_JetStream":                  noJetStream,
		"NC-04_the_server_is_gone_under_load": natsGone,
		"NC-05_bodies_stay_where_they_are":    smallMessages,
		"NC-05_a_server_that_takes_less":      smallPayload,
	})
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"NC-07_three_workers_of_ten_are_frozen": amongTheFrozen,
		"NC-08_after_more_than_can_be_served":   afterTooMuch,
	})
}

// anyOrder starts what there is in every order, on a server that has never run.
func anyOrder(t *testing.T) {
	engine := simtest.Start(t, simtest.Config()).URL
	for _, order := range []string{
		"NATS selector ingress", "NATS ingress selector", "selector NATS ingress",
		"selector ingress NATS", "ingress NATS selector", "ingress selector NATS",
	} {
		n := newNATS(t)
		var all []*process
		var g *gateway
		for name := range strings.FieldsSeq(order) {
			switch name {
			case "NATS":
				n.start()
			case "selector":
				p, _ := selectorOn(t, n.url(), "regular")
				all = append(all, p)
			case "ingress":
				g = ingressOn(t, n.url(), "--worker-urls", engine)
				all = append(all, g.process)
			}
		}
		await(t, "readiness", func() bool { return status(t, g.url+"/readiness") == http.StatusOK })
		if a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat); a.status != http.StatusOK {
			t.Errorf("%s: the first request: status %d: %s", order, a.status, a.body)
		}
		whole(t, g, 5)
		for _, p := range all {
			p.silent("level=ERROR")
			p.signal(syscall.SIGTERM)
			p.ends(0)
		}
		n.stop()
	}
}

// noJetStream has the services meet a server without it.
func noJetStream(t *testing.T) {
	ns := startServer(t, &server.Options{Username: "smg", Password: natsPassword}, nil)
	willNotDo(t, []string{"--nats-url", "nats://smg:" + natsPassword + "@" + ns.Addr().String()}, "start nats-server with -js", false)
}

// smallMessages listens to all that is said while large requests are answered.
func smallMessages(t *testing.T) {
	const size, less, most = 5 << 20, 1 << 20, 320 << 10
	n := startNATS(t)
	selectorOn(t, n.url(), "regular", "--policy", "cache_aware")
	cfg := simtest.Config()
	cfg.Core.ContextLength, cfg.Core.KVBlocks = 8<<20, 1<<20
	engines := simtest.StartN(t, 2, cfg)
	g := ingressOn(t, n.url(), append([]string{"--worker-urls"}, urls(engines)...)...)
	whole(t, g, 1)

	nc, err := nats.Connect(n.url())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var largest atomic.Int64
	if _, err := nc.Subscribe(">", func(m *nats.Msg) {
		largest.Store(max(largest.Load(), int64(m.Size())))
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("All work and no play. ", size/22)
	image := map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + strings.Repeat("QUJD", size/4)}}
	tokens := make([]int, less/5)
	for i := range tokens {
		tokens[i] = 1000 + i%5000
	}
	chatOf := func(content any) map[string]any {
		return map[string]any{"model": "sim", "max_tokens": 2, "messages": []any{map[string]any{"role": "user", "content": content}}}
	}
	for _, tt := range []struct {
		name  string
		path  string
		body  map[string]any
		least int64 // of the largest message: the policy does read it
	}{
		{"an image", "/v1/chat/completions", chatOf([]any{map[string]any{"type": "text", "text": "What is it?"}, image}), 1},
		{"a text", "/v1/chat/completions", chatOf(text), 64 << 10},
		{"a text of other letters", "/v1/chat/completions", chatOf(strings.Repeat("Übermäßig lange Überschrift. ", less/32)), 64 << 10},
		{"tokens", "/generate", map[string]any{"input_ids": tokens, "sampling_params": map[string]any{"max_new_tokens": 2}}, 64 << 10},
	} {
		body, err := json.Marshal(tt.body)
		if err != nil {
			t.Fatal(err)
		}
		largest.Store(0)
		var by []string
		for range 2 {
			a := do(t, http.MethodPost, g.url+tt.path, string(body))
			if a.status != http.StatusOK || a.header.Get("X-Smg-Degraded") != "" {
				t.Fatalf("%s: status %d, degraded %q: %.300s", tt.name, a.status, a.header.Get("X-Smg-Degraded"), a.body)
			}
			by = append(by, a.header.Get("X-Smg-Routed-Worker-Id"))
		}
		if err := nc.Flush(); err != nil { // what was published before it is on its way
			t.Fatal(err)
		}
		await(t, "the messages of "+tt.name, func() bool { return largest.Load() >= tt.least })
		if got := largest.Load(); got >= most {
			t.Errorf("%s: a message of %d bytes, want less than %d", tt.name, got, most)
		}
		if tt.least > 1 && len(slices.Compact(by)) != 1 {
			t.Errorf("%s: the same prompt was answered by %v, want one worker", tt.name, by)
		}
		t.Logf("%s: %d bytes of a body, %d of the largest message", tt.name, len(body), largest.Load())
	}
}

// smallPayload has a long prompt meet a server that takes no such message: the request
// is answered, and the log says why no selector chose.
func smallPayload(t *testing.T) {
	ns := startServer(t, &server.Options{JetStream: true, Username: "smg", Password: natsPassword, MaxPayload: 16 << 10}, nil)
	at := "nats://smg:" + natsPassword + "@" + ns.Addr().String()
	selectorOn(t, at, "regular", "--policy", "cache_aware")
	g := ingressOn(t, at, "--worker-urls", simtest.Start(t, simtest.Config()).URL)
	whole(t, g, 1)
	long := `{"model":"sim","messages":[{"role":"user","content":"` + strings.Repeat("Hello ", 10_000) + `"}],"max_tokens":2}`
	for range 2 {
		a := do(t, http.MethodPost, g.url+"/v1/chat/completions", long)
		if a.status != http.StatusOK || a.header.Get("X-Smg-Degraded") != "regular" {
			t.Errorf("status %d, degraded %q: %.300s", a.status, a.header.Get("X-Smg-Degraded"), a.body)
		}
	}
	whole(t, g, 1)
	g.says(`level=ERROR msg="a selector could not be asked; .*maximum payload`)
	if n := g.count("could not be asked"); n != 1 {
		t.Errorf("said %d times, want once", n)
	}
	if n := gauges(t, g.metrics, "smg_selection_degraded_total")[`{leg="regular",reason="unsendable"}`]; n != 2 {
		t.Errorf("%v selections count as not to be sent, want 2", n)
	}
}

// amongTheFrozen starts a gateway whose workers are registered, but for three of ten
// are stopped, and then a new selector.
func amongTheFrozen(t *testing.T, topology ...string) {
	const deadline = 10 * time.Second // of a worker's answer to a probe
	engines := simtest.StartN(t, 10, simtest.Config())
	alive := map[string]bool{}
	freeze := func(on bool) {
		for _, e := range engines[:3] {
			if err := e.SetFaults(t.Context(), simctl.Faults{Freeze: on}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, e := range engines[3:] {
		alive[e.URL] = true
	}
	freeze(true)
	inTime := func(what string, began time.Time) {
		t.Helper()
		if d := time.Since(began); d >= deadline+time.Second {
			t.Errorf("%s after %s, want less than the deadline of a probe and a second", what, d)
		}
	}
	began := time.Now()
	g := launch(t, urls(engines), append(topology, "--health-check-timeout-secs", "10", "--health-check-interval-secs", "1",
		"--policy", "round_robin", "--shutdown-grace-period-secs", "0")...)
	seven := func() bool { return total(t, g.metrics, "smg_worker_health") >= 7 }
	await(t, "seven ready workers", func() bool { return status(t, g.url+"/readiness") == http.StatusOK && seven() })
	inTime("ready", began)
	whole(t, g, 0)
	answers := func() {
		t.Helper()
		for by, n := range g.routed(14) {
			if !alive[by] || n != 2 {
				t.Errorf("%s answered %d times of 14, want twice each of those that run", by, n)
			}
		}
	}
	answers()
	if slices.Contains(topology, "split") {
		began = time.Now()
		g.kill("selector regular", syscall.SIGKILL)
		await(t, "another selector", func() bool { return len(g.pidsOf("selector regular")) == 2 })
		whole(t, g, 0)
		inTime("a new selector chose", began)
		await(t, "seven ready workers", seven)
		answers()
	}
	freeze(false)
	await(t, "all workers", func() bool { return total(t, g.metrics, "smg_worker_health") == 10 })
	g.signal(syscall.SIGTERM)
	g.ends(0)
}

// afterTooMuch has three times as many clients as the engines can serve at a time,
// for 1,500 requests, and then none: nothing is left, and all is as fast as before.
func afterTooMuch(t *testing.T, topology ...string) {
	const running, requests = 4, 1500
	cfg := simtest.Config()
	cfg.TimeScale, cfg.Core.MaxRunning = 0.3, running
	engines := simtest.StartN(t, 2, cfg)
	g := launched(t, urls(engines), append(topology, "--shutdown-grace-period-secs", "0")...)
	whole(t, g, 10)
	idle := func() float64 {
		http.DefaultClient.CloseIdleConnections()
		return total(t, g.metrics, "go_goroutines")
	}
	latency := func() time.Duration {
		var all []time.Duration
		for range 21 {
			began := time.Now()
			askChat(t, g.url)
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	quick := latency()
	before := 0.0 // at most: three processes are never quite still
	for range 20 {
		before = max(before, idle())
	}

	clients := 3 * len(engines) * running
	l := startLoad(t, g.url, clients, patience)
	l.more(t, requests/2)
	if total(t, g.metrics, "smg_worker_requests_active") <= float64(len(engines)*running) {
		t.Error("the engines have no more than they can serve")
	}
	l.more(t, requests/2)
	l.stop()

	for _, name := range []string{"smg_worker_requests_active", "smg_selector_requests_active"} {
		await(t, name+" to fall to 0", func() bool {
			return len(gauges(t, g.metrics, name)) == len(engines) && total(t, g.metrics, name) == 0
		})
	}
	for _, e := range engines {
		if h := e.Server.Ledger(); h.Held != 0 || h.InFlight != 0 {
			t.Errorf("an engine still has %+v", h)
		}
	}
	// The clients' connections stay open, and those to the engines for a while.
	await(t, "goroutines as before", func() bool { return idle() <= before+2*float64(clients) })
	slow := latency()
	await(t, "answers as fast as before", func() bool {
		slow = min(slow, latency())
		return slow <= quick+quick/10
	})
	whole(t, g, 5)
	t.Logf("%d answers, %d of them chosen without a selector; an answer took %s before and %s after; %v goroutines before and %v after", l.answered.Load(), l.degraded.Load(), quick, slow, before, idle())
	g.signal(syscall.SIGTERM)
	g.ends(0)
}
