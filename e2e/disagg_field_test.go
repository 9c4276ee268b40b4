package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// TestFieldLegs has what others report of legs that fail, or whose client leaves. Each
// request is tried once.
func TestFieldLegs(t *testing.T) {
	kinds(t, func(t *testing.T, kind simhttp.Kind) {
		fleet := legs{kind: kind, roles: roles{prefill: 1, decode: 1}, args: once, charging: true}
		fleet.rows(t,
			row{"PD-01_prefill_refuses_while_decode_waits", func(t *testing.T, f *legFleet) {
				f.faults(t, "prefill", simctl.Faults{Rules: []simctl.Rule{{
					Match: simctl.Match{Path: chatPath}, Delay: simctl.Duration(100 * time.Millisecond), Status: 400, Body: json.RawMessage(`{"error":{"message":"too long"}}`),
				}}})
				for _, fields := range []string{"", `,"stream":true`} {
					began := time.Now()
					f.fails(t, f.asks(t, fields), http.StatusBadRequest, "prefill_bad_request", "too long")
					if took := time.Since(began); took > 2*time.Second {
						t.Errorf("it took %v", took)
					}
				}
				if n := f.got(t, "decode"); n != 2 && kind == simhttp.SGLang {
					t.Errorf("%d requests at decode, want 2", n)
				}
				f.closedWithin(t, "decode", chatPath, time.Second)
				f.charges(t)
			}},
			row{"KV-06_prefill_dies_while_decode_waits_for_its_KV", prefillDies},
			row{"KV-07_the_client_leaves_a_stream", func(t *testing.T, f *legFleet) {
				f.abandons(t, `,"stream":true`)
				f.charges(t)
			}},
			row{"KV-07_the_client_leaves_before_an_answer", func(t *testing.T, f *legFleet) {
				if kind == simhttp.VLLM {
					t.Skip("what vLLM has handed over, decode takes before it is left: F13")
				}
				f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Hold: true}}})
				gone := f.leaves(t, "decode")
				// More than one request comes where a connection had died unused.
				for _, leg := range []string{"prefill", "decode"} {
					f.abandoned(t, leg, chatPath)
					for _, r := range f.seen(t, leg, chatPath) {
						if took := r.CallerClosed.Sub(gone); took > time.Second {
							t.Errorf("%s was left %v after the client had gone", leg, took)
						}
					}
				}
				f.charges(t)
			}},
			// The last one: connections of its engines may close at any time later.
			row{"PD-11_connections_have_died_of_idleness", func(t *testing.T, f *legFleet) {
				const idle = time.Second
				for _, leg := range []string{"prefill", "decode"} {
					f.faults(t, leg, simctl.Faults{KeepAlive: simctl.Duration(idle)})
				}
				f.answers(t, 1)
				time.Sleep(idle * 3 / 2) // the time is what the test is about
				f.answers(t, 20)
				f.charges(t)
			}},
		)
	})
}

// answers wants n answers one after the other.
func (f *legFleet) answers(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if a := f.asks(t, ""); a.status != http.StatusOK {
			t.Errorf("request %d: status %d: %s", i, a.status, a.body)
		}
	}
}

// leaves asks, and leaves without an answer once a leg has the request. It says when.
func (f *legFleet) leaves(t *testing.T, leg string) (gone time.Time) {
	t.Helper()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	body := chatWith("")
	_, err = fmt.Fprintf(client, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the request at "+leg, func() bool { return f.got(t, leg) > 0 })
	gone = time.Now()
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	return gone
}

// prefillDies kills a prefill engine that has ten requests' KV, which decode waits for.
func prefillDies(t *testing.T, f *legFleet) {
	const requests = 10
	at, peer := port(t), port(t)
	args := []string{"--engine", string(f.kind), "--port", strconv.Itoa(at), "--time-scale", "0"}
	if f.kind == simhttp.SGLang {
		args = append(args, "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", strconv.Itoa(peer))
	} else {
		args = append(args, "--kv-role", "kv_producer", "--kv-side-channel-port", strconv.Itoa(peer))
	}
	engine := start(t, "smg-sim", args...)
	url := fmt.Sprintf("http://127.0.0.1:%d", at)
	await(t, "the engine", func() bool { return !refused(t, url) })
	f.without(t, "prefill")
	f.join("prefill", &simtest.Engine{URL: url, PeerPort: peer})
	await(t, "the prefill worker", func() bool {
		return gauges(t, f.metrics, "smg_worker_health")[fmt.Sprintf(`{worker=%q}`, url)] == 1
	})
	prefill := simctl.NewClient(url, nil)
	if f.kind == simhttp.SGLang {
		// It does not notice by itself.
		f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Hold: true}}})
	} else if err := prefill.SetFaults(t.Context(), simctl.Faults{Transfer: &simctl.TransferFault{Hold: true}}); err != nil {
		t.Fatal(err)
	}
	answers := make(chan answer, requests)
	for range requests {
		go func() { answers <- f.asks(t, "") }()
	}
	await(t, "decode to wait for all", func() bool {
		l, err := f.pd.Decode[0].Ledger(t.Context())
		p, perr := prefill.Ledger(t.Context())
		return err == nil && perr == nil && l.InFlight == requests && (p.InFlight == requests || f.kind == simhttp.VLLM)
	})
	engine.signal(syscall.SIGKILL)
	killed := time.Now()
	for range requests {
		if a := <-answers; a.status < 500 || !strings.Contains(a.body, `"error"`) {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	}
	if took := time.Since(killed); took > 5*time.Second {
		t.Errorf("the last heard of it after %v", took)
	}
	if f.kind == simhttp.SGLang {
		await(t, "decode to be left", func() bool {
			left := 0
			for _, r := range f.seen(t, "decode", chatPath) {
				if !r.CallerClosed.IsZero() {
					left++
				}
			}
			return left == requests
		})
	}
	f.remove(url)
	await(t, "the worker's end", func() bool {
		_, status := f.worker(url)
		return status == http.StatusNotFound
	})
}

// TestFieldLegsAnswers is what the statuses and failures of engines become.
func TestFieldLegsAnswers(t *testing.T) {
	const deadline = 3 * time.Second
	kinds(t, func(t *testing.T, kind simhttp.Kind) {
		fleet := legs{kind: kind, roles: roles{prefill: 1, decode: 2}, args: []string{
			"--disable-retries", "--disable-circuit-breaker", "--request-timeout-secs", strconv.Itoa(int(deadline.Seconds())),
		}}
		fleet.rows(t,
			row{"PD-19_12.5_what_a_leg_answers", legAnswers},
			row{"PD-20_the_first_burst_sticks", func(t *testing.T, f *legFleet) {
				f.faults(t, "prefill", simctl.Faults{Transfer: &simctl.TransferFault{Hold: true}})
				var calls []func()
				for range 8 {
					calls = append(calls, func() {
						began := time.Now()
						f.fails(t, f.asks(t, ""), http.StatusGatewayTimeout, "request_timeout")
						if took := time.Since(began); took > deadline+2*time.Second {
							t.Errorf("it took %v, want %v", took, deadline)
						}
					})
				}
				atOnce(calls)
				f.faults(t, "prefill", simctl.Faults{})
				f.answers(t, 1)
			}},
		)
	})
}

// legAnswers has each leg answer with each status, break off, drop the request, not
// answer, and be gone. What a request meets is in its own text, so that many run at a
// time.
func legAnswers(t *testing.T, f *legFleet) {
	ends := map[int]string{
		400: "bad_request", 404: "not_found", 408: "upstream_error", 413: "upstream_error", 422: "upstream_error", 429: "upstream_error",
		500: "internal_error", 502: "bad_gateway", 503: "unavailable", 504: "upstream_error",
	}
	var calls []func()
	expect := func(leg, what string, stream bool, status int, code string, words ...string) {
		body := strings.Replace(chatWith(""), "Hello", leg+"/"+what+"/", 1)
		if stream {
			body = strings.Replace(body, `"max_tokens"`, `"stream":true,"max_tokens"`, 1)
		}
		calls = append(calls, func() {
			a := do(t, http.MethodPost, f.url+chatPath, body)
			if stream && leg == "decode" && words[0] == "no, thanks" {
				f.failsStream(t, a, status, code, words...)
				return
			}
			f.fails(t, a, status, code, words...)
		})
	}
	urls := map[string]string{"prefill": f.pd.Prefill[0].URL, "decode": "http://127.0.0.1:"}
	for _, leg := range []string{"prefill", "decode"} {
		var rules []simctl.Rule
		meets := func(what string, r simctl.Rule) {
			r.Match = simctl.Match{Path: chatPath, Contains: leg + "/" + what + "/"}
			rules = append(rules, r)
		}
		who := leg + " worker " + urls[leg]
		for status, end := range ends {
			what := strconv.Itoa(status)
			meets(what, simctl.Rule{Status: status, Body: no})
			for _, stream := range []bool{false, true} {
				expect(leg, what, stream, status, leg+"_"+end, "no, thanks", who)
			}
		}
		meets("reset", simctl.Rule{Drop: true})
		meets("late", simctl.Rule{Hold: true})
		for _, stream := range []bool{false, true} {
			expect(leg, "reset", stream, http.StatusBadGateway, leg+"_request_failed", who)
			expect(leg, "late", stream, http.StatusGatewayTimeout, "request_timeout", "time was up")
		}
		cut := 0
		meets("cut", simctl.Rule{CutBody: &cut})
		if leg == "decode" || f.kind == simhttp.VLLM { // SGLang's decode has the KV by then
			expect(leg, "cut", false, http.StatusBadGateway, leg+"_read_failed", "broke off")
		}
		f.faults(t, leg, simctl.Faults{Rules: rules})
	}
	atOnce(calls)
	for _, leg := range []string{"prefill", "decode"} {
		f.faults(t, leg, simctl.Faults{Refuse: true})
		calls = nil
		for _, stream := range []bool{false, true} {
			expect(leg, "refused", stream, http.StatusBadGateway, leg+"_request_failed", leg+" worker "+urls[leg], "refused")
		}
		atOnce(calls)
		f.faults(t, leg, simctl.Faults{})
	}
}

// TestFieldLegsTriedAgain is what others report of requests that are tried again, and
// of breakers.
func TestFieldLegsTriedAgain(t *testing.T) {
	kinds(t, func(t *testing.T, kind simhttp.Kind) {
		fleet := legs{kind: kind, roles: roles{prefill: 1, decode: 1}, args: []string{
			"--retry-max-retries", "2", "--retry-initial-backoff-ms", "10", "--cb-failure-threshold", "3", "--cb-timeout-duration-secs", "3",
		}}
		fleet.rows(t,
			row{"PD-02_decode_drops_a_request", func(t *testing.T, f *legFleet) {
				f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{
					Match: simctl.Match{Path: chatPath, First: 1}, Delay: simctl.Duration(100 * time.Millisecond), Drop: true,
				}}})
				began := time.Now()
				f.answers(t, 1)
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				records := f.seen(t, "prefill", chatPath)
				if len(records) != 2 || f.got(t, "decode") != 2 {
					t.Fatalf("%d requests at prefill, %d at decode, want 2", len(records), f.got(t, "decode"))
				}
				names := map[string]bool{}
				for _, r := range records {
					var b struct {
						Room json.Number `json:"bootstrap_room"`
					}
					if err := json.Unmarshal(r.Body, &b); err != nil {
						t.Fatal(err)
					}
					if kind == simhttp.SGLang {
						names[b.Room.String()] = true
					} else {
						names[r.Header.Get("X-Request-Id")] = true
					}
				}
				if len(names) != 2 || names[""] {
					t.Errorf("the plans met as %v, want two names", names)
				}
				if kind == simhttp.SGLang {
					if r := records[0]; r.CallerClosed.IsZero() || r.CallerClosed.Sub(r.Arrived) > time.Second {
						t.Errorf("the first prefill was left at %v, and had come at %v", r.CallerClosed, r.Arrived)
					}
				}
			}},
			row{"PD-09_prefills_breaker_opens_and_closes", func(t *testing.T, f *legFleet) {
				f.refuses(t, "prefill", chatPath, http.StatusInternalServerError)
				breaker := func() float64 {
					return gauges(t, f.metrics, "smg_worker_cb_state")[fmt.Sprintf(`{worker=%q}`, f.pd.Prefill[0].URL)]
				}
				await(t, "the breaker to open", func() bool {
					f.asks(t, "")
					return breaker() == 1
				})
				// It may be tried again at any time: a refusal is what shows that it is not.
				refused := false
				for range 3 {
					before := f.got(t, "decode")
					if a := f.asks(t, ""); a.status == http.StatusServiceUnavailable {
						f.fails(t, a, http.StatusServiceUnavailable, "no_available_workers", "prefill")
						if n := f.got(t, "decode") - before; n != 0 {
							t.Errorf("%d requests at decode without a prefill worker", n)
						}
						refused = true
					}
				}
				if !refused {
					t.Error("nothing was refused while the breaker was open")
				}
				f.faults(t, "prefill", simctl.Faults{})
				await(t, "an answer", func() bool { return f.asks(t, "").status == http.StatusOK })
				f.answers(t, 2)
				awaitSame(t, "the breaker", 0, breaker)
			}},
		)
	})
}
