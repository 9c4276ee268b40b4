package simhttp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// slow is an engine in real time that would take minutes for a request.
func slow(kind simhttp.Kind) simhttp.Config {
	cfg := config(kind)
	cfg.TimeScale = 1
	cfg.Core.PrefillTokensPerSecond = 10_000
	cfg.Core.DecodeStep = 20 * time.Millisecond
	return cfg
}

// leaver sends a raw request and can close its connection at any moment.
func leaver(t *testing.T, e *simtest.Engine, path, body string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", e.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	req, err := http.NewRequest(http.MethodPost, "http://"+e.Addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := req.Write(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func await(t *testing.T, e *simtest.Engine, what string, ok func(simctl.Ledger) bool) {
	t.Helper()
	if l, err := e.WaitLedger(ctxFor(t), ok); err != nil {
		t.Fatalf("waiting until %s: %v (%+v)", what, err, l)
	}
}

// TestCallerLeaves closes the connection at every stage of a request and wants
// its work gone.
func TestCallerLeaves(t *testing.T) {
	const endless = `{"max_tokens":5000,"ignore_eos":true,"messages":[{"role":"user","content":"Hi"}]}`
	stages := []struct {
		name   string
		faults simctl.Faults
		cfg    func(*simhttp.Config)
		body   string
		ready  func(simctl.Ledger) bool
	}{
		{
			name:   "in a hold",
			faults: simctl.Faults{Rules: []simctl.Rule{{Hold: true}}},
			body:   endless,
			ready:  func(l simctl.Ledger) bool { return l.Held == 1 },
		},
		{
			name:   "in a delay",
			faults: simctl.Faults{Rules: []simctl.Rule{{Delay: simctl.Duration(time.Hour)}}},
			body:   endless,
			ready:  func(l simctl.Ledger) bool { return l.InFlight == 1 },
		},
		{
			name:   "in the queue",
			faults: simctl.Faults{Window: new(int)},
			body:   endless,
			ready:  func(l simctl.Ledger) bool { return l.Waiting == 1 },
		},
		{
			name:  "in prefill",
			cfg:   func(c *simhttp.Config) { c.Core.PrefillTokensPerSecond = 0.01 },
			body:  endless,
			ready: func(l simctl.Ledger) bool { return l.Running == 1 && l.BlocksHeld > 0 },
		},
		{
			name:  "in decode",
			body:  endless,
			ready: func(l simctl.Ledger) bool { return l.Running == 1 && l.Requests[0].Tokens > 0 },
		},
		{
			name:  "in a stream",
			body:  strings.Replace(endless, "{", `{"stream":true,`, 1),
			ready: func(l simctl.Ledger) bool { return l.Running == 1 && l.Requests[0].Tokens > 1 },
		},
		{
			name:   "in a stalled stream",
			faults: simctl.Faults{Rules: []simctl.Rule{{Stream: &simctl.StreamFault{StallAfter: new(int)}}}},
			body:   strings.Replace(endless, "{", `{"stream":true,`, 1),
			ready:  func(l simctl.Ledger) bool { return l.Running == 1 && l.Requests[0].Tokens > 1 },
		},
		{
			name:   "while frozen",
			faults: simctl.Faults{Freeze: true},
			body:   endless,
			ready:  func(l simctl.Ledger) bool { return l.InFlight == 1 },
		},
	}
	for _, kind := range kinds() {
		for _, tc := range stages {
			t.Run(string(kind)+"/"+tc.name, func(t *testing.T) {
				cfg := slow(kind)
				if tc.cfg != nil {
					tc.cfg(&cfg)
				}
				e := simtest.Start(t, cfg)
				tc.faults.Record = true
				setFaults(t, e, tc.faults)
				conn := leaver(t, e, "/v1/chat/completions", tc.body)
				await(t, e, "the request is there", tc.ready)
				left := time.Now()
				conn.Close()
				l := idle(t, e)
				if len(l.Requests) != 0 {
					t.Errorf("left behind: %+v", l)
				}
				await(t, e, "the connection is closed", func(l simctl.Ledger) bool { return l.Connections == 0 })
				r := records(t, e, "/v1/chat/completions")
				if len(r) != 1 || r[0].CallerClosed.Before(left) || r[0].ConnClosed.IsZero() {
					t.Errorf("records %+v", r)
				}
			})
		}
	}
}

func TestAbortRequest(t *testing.T) {
	e := simtest.Start(t, slow(simhttp.SGLang))
	c := callerOf(t, e)
	var wg sync.WaitGroup
	answers := make([]generated, 2)
	for i, rid := range []string{"job-1", "other"} {
		wg.Go(func() {
			status, text := c.post("/generate", `{"text":"hi","rid":"`+rid+`","sampling_params":{"max_new_tokens":3000,"ignore_eos":true}}`)
			if status == http.StatusOK {
				answers[i] = decode[generated](t, text)
			}
		})
	}
	await(t, e, "both run", func(l simctl.Ledger) bool {
		return l.Running == 2 && l.Requests[0].Tokens > 2 && l.Requests[1].Tokens > 2
	})
	if status, text := c.post("/abort_request", `{"rid":"job"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	await(t, e, "one is left", func(l simctl.Ledger) bool { return l.Running == 1 && l.Requests[0].RID == "other" })
	c.post("/abort_request", `{"abort_all":true}`)
	wg.Wait()
	for _, a := range answers {
		if a.Meta.Finish == nil || a.Meta.Finish.Type != "abort" || a.Text == "" {
			t.Errorf("aborted answer %+v", a)
		}
	}
	idle(t, e)
}

// TestManyLeave mixes patient callers with ones that leave at random moments.
func TestManyLeave(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			cfg := slow(kind)
			cfg.Core.DecodeStep = time.Millisecond
			cfg.Core.MaxRunning = 8
			e := simtest.Start(t, cfg)
			c := callerOf(t, e)
			var wg sync.WaitGroup
			for i := range 120 {
				wg.Go(func() {
					ctx, cancel := ctxFor(t), context.CancelFunc(func() {})
					if i%3 == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
					}
					defer cancel()
					body := `{"max_tokens":12,"ignore_eos":true,` + hello + `}`
					if i%2 == 0 {
						body = strings.Replace(body, "{", `{"stream":true,`, 1)
					}
					resp, err := c.try(ctx, http.MethodPost, "/v1/chat/completions", body)
					if err != nil {
						if i%3 != 0 {
							t.Errorf("request %d: %v", i, err)
						}
						return
					}
					defer resp.Body.Close()
					if _, err := io.Copy(io.Discard, resp.Body); err != nil && i%3 != 0 {
						t.Errorf("request %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			idle(t, e)
		})
	}
}

func TestHeadersOfAStream(t *testing.T) {
	tests := []struct {
		kind  simhttp.Kind
		early bool
	}{{simhttp.SGLang, false}, {simhttp.VLLM, true}}
	for _, tc := range tests {
		t.Run(string(tc.kind), func(t *testing.T) {
			e := simtest.Start(t, slow(tc.kind))
			setFaults(t, e, simctl.Faults{Window: new(int)})
			conn := leaver(t, e, "/v1/completions", `{"stream":true,"prompt":"x"}`)
			await(t, e, "it waits", func(l simctl.Ledger) bool { return l.Waiting == 1 })
			got := make(chan error, 1)
			go func() {
				_, err := bufio.NewReader(conn).ReadString('\n')
				got <- err
			}()
			if tc.early {
				if err := <-got; err != nil {
					t.Errorf("no headers before the first token: %v", err)
				}
				return
			}
			select {
			case err := <-got:
				t.Errorf("headers before the first token (%v)", err)
			case <-time.After(50 * time.Millisecond):
			}
			setFaults(t, e, simctl.Faults{})
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestQueueFull(t *testing.T) {
	cfg := slow(simhttp.SGLang)
	cfg.Core.MaxQueue = 1
	e := simtest.Start(t, cfg)
	setFaults(t, e, simctl.Faults{Window: new(int)})
	leaver(t, e, "/generate", `{"text":"x"}`)
	await(t, e, "one waits", func(l simctl.Ledger) bool { return l.Waiting == 1 })
	c := callerOf(t, e)
	if status, text := c.post("/generate", `{"text":"x"}`); status != http.StatusServiceUnavailable || !strings.Contains(text, "queue is full") {
		t.Errorf("%d %s", status, text)
	}
	// A batch is taken as a whole or not at all.
	if status, _ := c.post("/generate", `{"text":["x","y"]}`); status != http.StatusServiceUnavailable {
		t.Errorf("batch: %d", status)
	}
	if l, err := e.Ledger(ctxFor(t)); err != nil || l.Waiting != 1 {
		t.Errorf("%+v %v", l, err)
	}
}
