package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// watched is a gateway that logs its decisions, in front of engines that record what
// reaches them.
type watched struct {
	*gateway
	workers fleet
	usual   []simctl.Rule // of the engines
	split   bool
	seen    map[string]int // decisions that were looked at, by leg and message
}

// fleet is engines by the name of their leg.
type fleet map[string][]*simtest.Engine

// startWatched starts smg launch at level debug in front of engines: regular ones,
// or prefill and decode, which obey rules. It does not wait for them.
func startWatched(t *testing.T, workers fleet, rules []simctl.Rule, args ...string) *watched {
	t.Helper()
	all := append([]string{
		"launch", "--host", "127.0.0.1", "--log-level", "debug", "--shutdown-grace-period-secs", "0",
		"--plan-timeout-ms", strconv.FormatInt(patience.Milliseconds(), 10), // a busy machine is no reason to do without a selector
	}, gatewayArgs(t, "")...)
	all = append(all, args...)
	w := &watched{gateway: &gateway{}, workers: workers, usual: rules, seen: map[string]int{}}
	w.rules(t, rules...)
	for _, leg := range w.legs() {
		for _, e := range workers[leg] {
			w.engines = append(w.engines, e.URL)
			switch leg {
			case "prefill":
				all = append(all, "--prefill", e.URL, strconv.Itoa(e.PeerPort))
			case "decode":
				all = append(all, "--decode", e.URL)
			}
		}
	}
	if regular := workers["regular"]; regular != nil {
		all = append(append(all, "--worker-urls"), urls(regular)...)
	} else if len(workers) > 0 {
		all = append(all, "--pd-disaggregation")
	}
	w.process = start(t, "smg", all...)
	m := w.says(`^api +(http://\S+) +metrics +(http://\S+)`)
	w.url, w.metrics = m[1], m[2]
	return w
}

// legs are those that have workers, in order.
func (w *watched) legs() []string { return slices.Sorted(maps.Keys(w.workers)) }

// rules has every engine record what reaches it, and obey these rules and no others.
func (w *watched) rules(t *testing.T, rules ...simctl.Rule) {
	t.Helper()
	for _, engines := range w.workers {
		for _, e := range engines {
			if err := e.SetRules(t.Context(), rules...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// regular is a fleet without legs.
func regular(t *testing.T, n int) fleet {
	t.Helper()
	return fleet{"regular": simtest.StartN(t, n, simtest.Config())}
}

// prefillDecode is a fleet of SGLang engines like cfg with roles.
func prefillDecode(t *testing.T, prefills, decodes int, cfg simhttp.Config) fleet {
	t.Helper()
	pd := simtest.StartPD(t, prefills, decodes, cfg)
	return fleet{"prefill": pd.Prefill, "decode": pd.Decode}
}

// inBoth runs a test with a gateway of each topology. Both start at the same time,
// since split spends most of its start waiting.
func inBoth(t *testing.T, start func(t *testing.T, topology ...string) *watched, run func(t *testing.T, w *watched)) {
	t.Helper()
	split, single := start(t, "--topology", "split"), start(t, "--topology", "single")
	split.split = true
	for _, c := range []struct {
		name string
		w    *watched
	}{{"single", single}, {"split", split}} {
		t.Run(c.name, func(t *testing.T) {
			c.w.t = t // says and the like fail the test in which they are called
			if n := len(c.w.engines); n > 0 {
				c.w.says(`^ready +` + strconv.Itoa(n) + ` of `)
			}
			run(t, c.w)
			c.w.stop(0)
		})
	}
}

// request is one to be sent.
type request struct {
	path, body string
	header     []string // pairs of name and value
}

// chatOf asks about a text. fields are more members, each behind a comma.
func chatOf(text, fields string) request {
	return request{path: "/v1/chat/completions", body: fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":%q}],"max_tokens":3%s}`, text, fields)}
}

// with is the request with another header.
func (r request) with(name, value string) request {
	r.header = append(slices.Clone(r.header), name, value)
	return r
}

// post sends a request under an id, reads the answer to its end and returns it with
// the worker who gave it.
func (w *watched) post(ctx context.Context, id string, r request) (worker, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+r.path, strings.NewReader(r.body))
	if err != nil {
		return "", "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	for i := 0; i < len(r.header); i += 2 {
		req.Header.Set(r.header[i], r.header[i+1])
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err == nil && resp.StatusCode != http.StatusOK:
		err = fmt.Errorf("status %d: %s", resp.StatusCode, b)
	case err == nil && resp.Header.Get("X-Smg-Degraded") != "":
		err = errors.New("chosen without a selector: " + resp.Header.Get("X-Smg-Degraded"))
	}
	return resp.Header.Get("X-Smg-Routed-Worker-Id"), string(b), err
}

// asks sends a request that must be answered, and returns who answered.
func (w *watched) asks(id string, r request) (worker, body string) {
	w.t.Helper()
	worker, body, err := w.post(w.t.Context(), id, r)
	if err != nil {
		w.t.Fatalf("request %s: %v", id, err)
	}
	return worker, body
}

// clients is how many clients may ask at the same time and be sure of the policy's
// choice. In split topology those that wait for a selector that is late, as it is on a
// busy machine, are two; for others a worker is taken without it.
func (w *watched) clients(n int) int {
	if w.split {
		return min(n, 2)
	}
	return n
}

// atOnce has clients send n requests, by ids that begin with prefix. wait waits for
// the answers and returns who gave each.
func (w *watched) atOnce(prefix string, n, clients int, r func(i int) request) (wait func() map[string]string) {
	w.t.Helper()
	type sent struct {
		id string
		request
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	by, failed := map[string]string{}, []error(nil)
	ctx, t, send := w.t.Context(), w.t, make(chan sent)
	for range clients {
		wg.Go(func() {
			for s := range send {
				worker, _, err := w.post(ctx, s.id, s.request)
				mu.Lock()
				by[s.id] = worker
				if err != nil {
					failed = append(failed, fmt.Errorf("request %s: %w", s.id, err))
				}
				mu.Unlock()
			}
		})
	}
	t.Cleanup(wg.Wait)
	defer close(send)
	for i := range n {
		send <- sent{prefix + strconv.Itoa(i), r(i)}
	}
	return func() map[string]string {
		t.Helper()
		wg.Wait()
		if err := errors.Join(failed...); err != nil {
			t.Fatal(err)
		}
		return by
	}
}
