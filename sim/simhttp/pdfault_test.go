package simhttp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// started is a request under way.
type started struct {
	cancel context.CancelFunc
	done   chan answered // status 0 if there was no answer
}

func (s *started) wait(t *testing.T) answered {
	t.Helper()
	select {
	case a := <-s.done:
		return a
	case <-ctxFor(t).Done():
		t.Fatal("no answer")
		return answered{}
	}
}

const sea = `{"rid":"sea","messages":[{"role":"user","content":"Tell me about the sea, its tides, its storms and its ships"}]}`

// whatever is the status of a leg that may hear of the other's end before its own.
const whatever = -1

// TestBlocksAreHeldForTransfer looks at both ledgers while computed KV is held
// back, and ends the requests in every way.
func TestBlocksAreHeldForTransfer(t *testing.T) {
	tests := []struct {
		name string
		end  func(t *testing.T, p, d *simtest.Engine, prefill, decode *started)
		// what the legs say; status 0 is no answer
		prefill, decode int
	}{
		{"it goes on", func(t *testing.T, p, _ *simtest.Engine, _, _ *started) { setFaults(t, p, simctl.Faults{}) }, 200, 200},
		{"prefill aborted", func(t *testing.T, p, _ *simtest.Engine, _, _ *started) { abort(t, p, "sea") }, 200, 500},
		{"decode aborted", func(t *testing.T, _, d *simtest.Engine, _, _ *started) { abort(t, d, "sea") }, 500, 200},
		{"the caller leaves prefill", func(_ *testing.T, _, _ *simtest.Engine, prefill, _ *started) { prefill.cancel() }, 0, 500},
		{"the caller leaves decode", func(_ *testing.T, _, _ *simtest.Engine, _, decode *started) { decode.cancel() }, 500, 0},
		{"the caller leaves both", func(_ *testing.T, _, _ *simtest.Engine, prefill, decode *started) {
			prefill.cancel()
			decode.cancel()
		}, 0, whatever},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pd := simtest.StartPD(t, 1, 1, config(simhttp.SGLang))
			p, d := pd.Prefill[0], pd.Decode[0]
			hold(t, p, simctl.TransferFault{Hold: true})
			body := with(t, sea, bootstrap(p, 1))
			decode := startIn(d, body)
			await(t, d, "decode has set blocks aside", func(l simctl.Ledger) bool {
				return l.Transferring == 1 && l.BlocksHeld > 0 && l.Requests[0].State == "receiving"
			})
			prefill := startIn(p, body)
			await(t, p, "prefill holds blocks", func(l simctl.Ledger) bool {
				return l.Transferring == 1 && l.BlocksHeld > 0 && l.Rooms == 1 && l.Requests[0].State == "sending" && !l.Idle()
			})
			tc.end(t, p, d, prefill, decode)
			if got := prefill.wait(t); got.status != tc.prefill {
				t.Errorf("prefill says %+v", got)
			}
			if got := decode.wait(t); got.status != tc.decode && tc.decode != whatever {
				t.Errorf("decode says %+v", got)
			}
			atRest(t, p, d)
		})
	}
}

func abort(t *testing.T, e *simtest.Engine, rid string) {
	t.Helper()
	if status, body := callerOf(t, e).post("/abort_request", `{"rid":"`+rid+`"}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
}

// TestWaitingForTheOtherSide ends requests before they have met.
func TestWaitingForTheOtherSide(t *testing.T) {
	pd := simtest.StartPD(t, 1, 1, config(simhttp.SGLang))
	p, d := pd.Prefill[0], pd.Decode[0]
	body := with(t, sea, bootstrap(p, 1))
	t.Run("prefill computes nothing and can be aborted", func(t *testing.T) {
		prefill := startIn(p, body)
		await(t, p, "its room is open", func(l simctl.Ledger) bool { return l.Rooms == 1 && l.BlocksHeld == 0 && l.Waiting == 0 })
		load := loadOf(t, p)
		if load["num_waiting_reqs"] != 1.0 || load["prefill_queue_reqs"] != 1.0 || load["disagg_mode"] != "prefill" {
			t.Errorf("load %v", load)
		}
		other := strings.Replace(body, `"sea"`, `"another"`, 1)
		if _, dup := callerOf(t, p).post("/v1/chat/completions", other); !strings.Contains(dup, "Duplicate bootstrap room") {
			t.Errorf("a room that is in use is opened again: %s", dup)
		}
		abort(t, p, "sea")
		if got := prefill.wait(t); got.status != 500 || !strings.Contains(got.body, "Aborted by AbortReq") {
			t.Errorf("%+v", got)
		}
		atRest(t, p)
	})
	t.Run("decode can be left", func(t *testing.T) {
		decode := startIn(d, body)
		await(t, p, "the peer is there", func(l simctl.Ledger) bool { return l.Rooms == 1 })
		if load := loadOf(t, d); load["decode_queue_reqs"] != 1.0 || load["disagg_mode"] != "decode" {
			t.Errorf("load %v", load)
		}
		other := strings.Replace(body, `"sea"`, `"another"`, 1)
		if _, dup := callerOf(t, d).post("/v1/chat/completions", other); !strings.Contains(dup, "somebody fetches from the room already") {
			t.Errorf("two fetch from one room: %s", dup)
		}
		decode.cancel()
		atRest(t, p, d)
	})
	t.Run("PD-10 decode admits one at a time", func(t *testing.T) {
		one := 1
		setFaults(t, d, simctl.Faults{Window: &one})
		hosts := map[string]any{"bootstrap_host": p.PeerHost, "bootstrap_port": p.PeerPort, "bootstrap_room": []int{1, 2, 3}}
		prefill, decode := both(t, p, d, "/generate", with(t, `{"text":["a","b","c"]}`, hosts))
		if prefill.status != 200 || decode.status != 200 {
			t.Errorf("%+v %+v", prefill, decode)
		}
		atRest(t, p, d)
	})
}

func loadOf(t *testing.T, e *simtest.Engine) map[string]any {
	t.Helper()
	_, body := callerOf(t, e).do(http.MethodGet, "/v1/loads?include=core,disagg,queues,memory", "")
	return decode[struct {
		Loads []map[string]any `json:"loads"`
	}](t, body).Loads[0]
}

func TestTransferFaults(t *testing.T) {
	tests := []struct {
		name            string
		fault           simctl.TransferFault
		prefill, decode string // part of the error
	}{
		{"refuse", simctl.TransferFault{Refuse: true}, "KVPoll.Bootstrapping", "connection refused"},
		{"drop", simctl.TransferFault{Drop: true}, "", "Failed to get kvcache from prefill instance, it might be dead"},
		{"wrong room", simctl.TransferFault{WrongRoom: true}, "KVPoll.Bootstrapping", "KVPoll.WaitingForInput"},
		{"hold", simctl.TransferFault{Hold: true}, "Decode instance could be dead", "KVPoll.WaitingForInput"},
		{"a long delay", simctl.TransferFault{Delay: simctl.Duration(time.Hour)}, "Decode instance could be dead", "KVPoll.WaitingForInput"},
		{"a short delay", simctl.TransferFault{Delay: simctl.Duration(time.Millisecond)}, "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pd := simtest.StartPD(t, 1, 1, impatient(simhttp.SGLang))
			p, d := pd.Prefill[0], pd.Decode[0]
			check := func(leg string, got answered, want string) {
				t.Helper()
				if (got.status == 200) != (want == "") || !strings.Contains(got.body, want) {
					t.Errorf("%s says %+v, want %q", leg, got, want)
				}
			}
			// So that a connection is there already.
			prefill, decode := both(t, p, d, "/v1/chat/completions", with(t, sea, bootstrap(p, 1)))
			check("prefill, healthy,", prefill, "")
			check("decode, healthy,", decode, "")
			hold(t, p, tc.fault)
			prefill, decode = both(t, p, d, "/v1/chat/completions", with(t, sea, bootstrap(p, 1)))
			check("prefill", prefill, tc.prefill)
			check("decode", decode, tc.decode)
			atRest(t, p, d)
			setFaults(t, p, simctl.Faults{})
			prefill, decode = both(t, p, d, "/v1/chat/completions", with(t, sea, bootstrap(p, 1)))
			check("prefill, healthy again,", prefill, "")
			check("decode, healthy again,", decode, "")
		})
	}
	t.Run("frozen", func(t *testing.T) {
		pd := simtest.StartPD(t, 1, 1, impatient(simhttp.SGLang))
		p, d := pd.Prefill[0], pd.Decode[0]
		setFaults(t, p, simctl.Faults{Freeze: true})
		status, body := callerOf(t, d).post("/v1/chat/completions", with(t, sea, bootstrap(p, 1)))
		if status != 500 || !strings.Contains(body, "Could not fetch prefill parallel info") || !strings.Contains(body, "timed out") {
			t.Errorf("%d %s", status, body)
		}
		setFaults(t, p, simctl.Faults{})
		atRest(t, p, d)
	})
}

// TestPrefillDies closes a prefill engine while a decode engine waits for it.
func TestPrefillDies(t *testing.T) {
	d := simtest.StartPD(t, 0, 1, config(simhttp.SGLang)).Decode[0]
	var decode *started
	t.Run("prefill", func(t *testing.T) {
		p := simtest.StartPD(t, 1, 0, config(simhttp.SGLang)).Prefill[0]
		decode = startIn(d, with(t, sea, bootstrap(p, 1)))
		await(t, p, "decode waits", func(l simctl.Ledger) bool { return l.Rooms == 1 })
	})
	// The room is open a moment before decode hears so.
	if got := decode.wait(t); got.status != 500 ||
		!strings.Contains(got.body, "it might be dead") && !strings.Contains(got.body, "Could not fetch prefill parallel info") {
		t.Errorf("%+v", got)
	}
	atRest(t, d)
}

func TestInfoOfRoles(t *testing.T) {
	pd := simtest.StartPD(t, 1, 1, config(simhttp.SGLang))
	p, d := pd.Prefill[0], pd.Decode[0]
	if pre, dec := both(t, p, d, "/v1/chat/completions", with(t, sea, bootstrap(p, 1))); pre.status+dec.status != 400 {
		t.Fatalf("%+v %+v", pre, dec)
	}
	for _, tc := range []struct {
		engine *simtest.Engine
		mode   string
		port   int
	}{{p, "prefill", p.PeerPort}, {d, "decode", p.PeerPort}} {
		_, body := callerOf(t, tc.engine).do(http.MethodGet, "/server_info", "")
		info := decode[map[string]any](t, body)
		if info["disaggregation_mode"] != tc.mode || info["disaggregation_bootstrap_port"] != float64(tc.port) {
			t.Errorf("%s", body)
		}
		if status, _ := callerOf(t, tc.engine).do(http.MethodGet, "/health_generate", ""); status != 200 {
			t.Errorf("/health_generate of %s: %d", tc.mode, status)
		}
		_, metrics := callerOf(t, tc.engine).do(http.MethodGet, "/metrics", "")
		for _, want := range []string{`engine_type="` + tc.mode + `"`, "sglang:num_decode_transfer_queue_reqs{", "sglang:kv_transfer_latency_ms{", "sglang:num_bootstrap_failed_reqs_total{"} {
			if !strings.Contains(metrics, want) {
				t.Errorf("/metrics of %s lacks %s", tc.mode, want)
			}
		}
	}
	if load := loadOf(t, p); load["kv_transfer_latency_ms"] == nil || load["disaggregation"].(map[string]any)["mode"] != "prefill" {
		t.Errorf("load %v", load)
	}
	infos, err := p.Engines(ctxFor(t))
	if err == nil {
		t.Errorf("one engine lists engines: %+v", infos)
	}
}

// TestRandomAborts ends a third of many requests at random moments on either
// leg, and wants nothing to be left.
func TestRandomAborts(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			cfg := config(kind)
			cfg.TimeScale = 0.05
			cfg.Core.KVBlocks = 400
			cfg.Disagg.Lease = 3 * time.Second // a busy machine must not make it expire
			pd := simtest.StartPD(t, 2, 2, cfg)
			random := rand.New(rand.NewPCG(1, 2))
			limit := make(chan struct{}, 32)
			var wg sync.WaitGroup
			for i := range 200 {
				p, d := pd.Prefill[random.IntN(2)], pd.Decode[random.IntN(2)]
				wait, victim := time.Duration(random.IntN(30))*time.Millisecond, random.IntN(6)
				body := fmt.Sprintf(`{"stream":%t,"prompt":"%s","max_tokens":%d}`, random.IntN(2) == 0, strings.Repeat("word ", 1+random.IntN(300)), 1+random.IntN(60))
				limit <- struct{}{}
				wg.Go(func() {
					defer func() { <-limit }()
					if kind == simhttp.VLLM {
						sequential(t, p, d, body, wait, victim)
						return
					}
					parallel(t, p, d, with(t, body, bootstrap(p, i+1)), wait, victim)
				})
			}
			wg.Wait()
			atRest(t, pd.All()...)
		})
	}
}

// parallel asks both legs and leaves one or both early if victim is 0 or 1.
func parallel(t *testing.T, p, d *simtest.Engine, body string, wait time.Duration, victim int) {
	legs := []*started{startIn(p, body), startIn(d, body)}
	if victim < 2 {
		time.Sleep(wait)
		for _, l := range legs {
			l.cancel()
		}
	}
	for i, l := range legs {
		if got := l.wait(t); victim >= 2 && (got.status != 200 || strings.Contains(got.body, "KVTransferError")) {
			t.Errorf("leg %d: %+v", i, got)
		}
	}
}
