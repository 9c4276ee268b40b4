package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// Items 12 and 13 of the conformance list at their full size: -aborts 10000, and
// -latencies 2000 without the race detector.
var (
	aborts    = flag.Int("aborts", 1500, "requests of prefill/decode that are aborted, of which nothing may be left")
	latencies = flag.Int("latencies", 192, "requests that are timed with each number of clients")
)

// TestDisaggSite is prefill/decode with services that meet on a NATS server outside.
func TestDisaggSite(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"12.12_nats_and_a_selector_are_killed": legsWithoutNATS,
		"12.12_nothing_is_left_of_aborts":      legsAborted,
		"12.13_1_8_and_64_clients":             legsTimed,
	})
}

// onNATS starts a gateway for SGLang's prefill and decode engines.
func onNATS(t *testing.T, pd *simtest.PD, args ...string) (*gateway, *natsServer) {
	t.Helper()
	n := startNATS(t)
	g := inFront(t, append([]string{"--pd-disaggregation", "--policy", "round_robin", "--nats-url", n.url()}, args...)...)
	for _, e := range pd.Prefill {
		g.add(e.URL, fmt.Sprintf(`,"worker_type":"prefill","bootstrap_port":%d`, e.PeerPort))
	}
	for _, e := range pd.Decode {
		g.add(e.URL, `,"worker_type":"decode"`)
	}
	for _, e := range pd.All() {
		await(t, "the worker", func() bool { w, _ := g.worker(e.URL); return w.Healthy })
	}
	await(t, "answers that selectors choose", func() bool {
		a := do(t, http.MethodPost, g.url+chatPath, chat)
		return a.status == http.StatusOK && a.header.Get("X-Smg-Degraded") == ""
	})
	return g, n
}

// legsWithoutNATS kills a selector and the NATS server under load, and starts both again:
// no request fails, and then the counts are right.
func legsWithoutNATS(t *testing.T, topology ...string) {
	pd := simtest.StartPD(t, 2, 2, simtest.Config())
	stall := 3
	for _, e := range pd.Decode {
		if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Contains: `"stream":true`}, Stream: &simctl.StreamFault{StallAfter: &stall}}); err != nil {
			t.Fatal(err)
		}
	}
	g, n := onNATS(t, pd, append(topology, "--degraded-selection", "local")...)
	l := startLoad(t, g.url, 4, patience)
	l.more(t, 20)
	split := slices.Contains(topology, "split")
	if split {
		g.kill("selector prefill", syscall.SIGKILL)
		l.more(t, 20)
	}
	n.stop()
	if split {
		await(t, "an answer chosen without NATS", func() bool { return l.degraded.Load() > 0 })
	}
	l.more(t, 40)
	s := openStream(t, g.url, 50) // begun while nobody else hears of it; it never ends
	n.start()
	if split {
		await(t, "another selector", func() bool { return len(g.pidsOf("selector prefill")) >= 2 })
	}
	l.healthy(t)
	l.stop()
	// Prefill has done its part of the stream.
	for _, name := range []string{"smg_worker_requests_active", "smg_selector_requests_active"} {
		await(t, name+" to be that of the one call in flight", func() bool { return total(t, g.metrics, name) == 1 })
	}
	if err := s.resp.Body.Close(); err != nil {
		t.Error(err)
	}
	restful(t, g, pd)
	t.Logf("%d answers, %d of them degraded", l.answered.Load(), l.degraded.Load())
	g.stop(0)
}

// restful waits until nothing is counted and no engine holds anything.
func restful(t *testing.T, g *gateway, pd *simtest.PD) {
	t.Helper()
	for _, name := range []string{"smg_worker_requests_active", "smg_selector_requests_active", "smg_bootstrap_rooms_active"} {
		await(t, name+" to fall to 0", func() bool {
			values := gauges(t, g.metrics, name)
			for _, v := range values {
				if v != 0 {
					return false
				}
			}
			return len(values) > 0
		})
	}
	for _, e := range pd.All() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if l, err := e.WaitIdle(ctx); err != nil {
			t.Errorf("engine %s still holds %+v: %v", e.URL, l, err)
		}
		cancel()
	}
}

// legsAborted aborts every request at a random moment, until so many were: others were
// answered before.
func legsAborted(t *testing.T, topology ...string) {
	const clients = 16
	cfg := simtest.Config()
	cfg.TimeScale = 0.02
	pd := simtest.StartPD(t, 2, 2, cfg)
	g, _ := onNATS(t, pd, topology...)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var aborted, whole atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(12, uint64(c)))
			for aborted.Load() < int64(*aborts) {
				limit := []time.Duration{20 * time.Millisecond, 300 * time.Millisecond}[rnd.IntN(2)]
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.Int64N(int64(limit))))
				body := fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"question %d"}],"stream":%v,"max_tokens":20,"ignore_eos":true}`, rnd.IntN(1000), rnd.IntN(2) == 0)
				switch err := drainBody(ctx, client, g.url, body); {
				case err == nil:
					whole.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					aborted.Add(1)
				default:
					t.Errorf("request: %v", err)
					aborted.Add(1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	client.CloseIdleConnections()
	restful(t, g, pd)
	t.Logf("%d requests were aborted, %d answered before", aborted.Load(), whole.Load())
	g.stop(0)
}

// legsTimed compares requests through the gateway with those that ask both engines by
// themselves. Times are told and not judged: the machine has other things to do.
func legsTimed(t *testing.T, topology ...string) {
	cfg := simtest.Config()
	cfg.Kind = simhttp.SGLang
	pd := simtest.StartPD(t, 1, 1, cfg)
	g, _ := onNATS(t, pd, append(topology, "--plan-timeout-ms", "5000")...)
	p, d := pd.Prefill[0], pd.Decode[0]
	var room atomic.Int64
	for _, clients := range []int{1, 8, 64} {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}, Timeout: patience}
		post := func(url, body string) error {
			resp, err := client.Post(url+chatPath, "application/json", strings.NewReader(body))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err == nil && (resp.StatusCode != http.StatusOK || resp.Header.Get("X-Smg-Degraded") != "") {
				err = fmt.Errorf("status %d, degraded %q: %s", resp.StatusCode, resp.Header.Get("X-Smg-Degraded"), b)
			}
			return err
		}
		direct := timed(t, clients, func() error {
			body := chatWith(fmt.Sprintf(`,"bootstrap_host":%q,"bootstrap_port":%d,"bootstrap_room":%d`, p.PeerHost, p.PeerPort, room.Add(1)))
			prefill := make(chan error, 1)
			go func() { prefill <- post(p.URL, body) }()
			return errors.Join(post(d.URL, body), <-prefill)
		})
		through := timed(t, clients, func() error { return post(g.url, chat) })
		client.CloseIdleConnections()
		for i, name := range []string{"p50", "p99"} {
			at := len(direct) * []int{50, 99}[i] / 100
			t.Logf("%d clients, %s: %v by themselves, %v through the gateway, %v added", clients, name, direct[at], through[at], through[at]-direct[at])
		}
	}
	restful(t, g, pd)
	g.stop(0)
}

// timed has some clients ask one after another, and returns how long each request took,
// the shortest first. A request that fails fails the test.
func timed(t *testing.T, clients int, ask func() error) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var next atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			if err := ask(); err != nil { // which makes its connections
				t.Errorf("a request failed: %v", err)
			}
			for next.Add(1) <= int64(*latencies) {
				began := time.Now()
				err := ask()
				took := time.Since(began)
				if err != nil {
					t.Errorf("a request failed: %v", err)
				}
				mu.Lock()
				all = append(all, took)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all
}
