package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"smg/sim/simctl"
)

// TestNothingIsLeftAfterAborts sends 2,000 requests of which a third are aborted
// at random moments. Then nothing may be left: no count, no KV block, no
// goroutine.
func TestNothingIsLeftAfterAborts(t *testing.T) {
	const requests, clients = 2000, 40
	g := serve(t, 4, "--", "--time-scale", "0.02")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	idle := func() float64 {
		client.CloseIdleConnections()
		return gauges(t, g.metrics, "go_goroutines")[""]
	}
	// The first requests bring what stays: connections to engines, for one.
	if _, err := ask(t.Context(), g.url+"/generate", `{"text":"warm"}`); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	before := settled(t, idle)

	var next, aborted, completed atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(c)))
			for next.Add(1) <= requests {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if rnd.IntN(3) == 0 {
					aborted.Add(1)
					time.AfterFunc(time.Duration(rnd.Int64N(int64(30*time.Millisecond))), cancel)
				} else {
					completed.Add(1)
				}
				err := drain(ctx, client, g.url, rnd.IntN(2) == 0, rnd.IntN(1000))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("request: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests to be completed, %d to be aborted", completed.Load(), aborted.Load())

	for _, name := range []string{"smg_worker_requests_active", "smg_selector_requests_active"} {
		await(t, name+" to fall to 0", func() bool {
			values := gauges(t, g.metrics, name)
			for _, v := range values {
				if v != 0 {
					return false
				}
			}
			return len(values) == len(g.engines)
		})
	}
	for _, e := range g.engines {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if l, err := simctl.NewClient(e, nil).WaitIdle(ctx); err != nil {
			t.Errorf("engine %s still holds %d blocks for %d requests: %v", e, l.BlocksHeld, l.InFlight, err)
		}
		cancel()
	}
	http.DefaultClient.CloseIdleConnections()
	await(t, fmt.Sprintf("the goroutines to be %v again", before), func() bool { return idle() <= before })
	g.stop(143)
}

// drain posts a question and reads its answer to the end.
func drain(ctx context.Context, client *http.Client, url string, stream bool, seed int) error {
	return drainBody(ctx, client, url, fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"question %d"}],"stream":%v,"max_tokens":60,"ignore_eos":true}`, seed, stream))
}

// drainBody posts a chat and reads its answer to the end.
func drainBody(ctx context.Context, client *http.Client, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, b)
	}
	return err
}

// settled is a value once it has been the same for ten readings.
func settled(t *testing.T, read func() float64) float64 {
	t.Helper()
	last, same := read(), 0
	await(t, "a value to settle", func() bool {
		if v := read(); v == last {
			same++
		} else {
			last, same = v, 0
		}
		return same >= 10
	})
	return last
}
