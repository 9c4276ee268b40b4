package simhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

const completionsPath = "/v1/completions"

// kept is a config whose KV nobody fetches is kept long enough for a busy machine.
func kept() simhttp.Config {
	cfg := impatient(simhttp.VLLM)
	cfg.Disagg.Lease = time.Second
	return cfg
}

// shortOf is a completion of some tokens, with more members.
func shortOf(tokens int, members string) string {
	return fmt.Sprintf(`{"prompt":"Once upon a time in the west","temperature":0,"max_tokens":%d%s}`, tokens, members)
}

func TestMooncake(t *testing.T) {
	cfg := kept()
	cfg.Disagg.Connector, cfg.Disagg.EngineID = simhttp.MooncakeConnector, "engine-7"
	pd := simtest.StartPD(t, 1, 1, cfg)
	p, d := pd.Prefill[0], pd.Decode[0]
	addr := fmt.Sprintf("http://%s:%d", p.PeerHost, p.PeerPort)

	status, answer := (&caller{t: t, url: addr, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}).do("GET", "/query", "")
	ranks := decode[map[string]struct {
		EngineID string `json:"engine_id"`
	}](t, answer)
	if status != 200 || len(ranks) != 1 || ranks["0"].EngineID != "engine-7" {
		t.Errorf("/query: %d %s", status, answer)
	}
	keep := func(t *testing.T, id string) {
		t.Helper()
		status, answer := callerOf(t, p).post(completionsPath, shortOf(1, `,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"`+id+`"}`))
		if status != 200 || paramsOf(t, answer) != nil {
			t.Fatalf("prefill: %d %s", status, answer)
		}
	}
	told := func(id, engine, addr, more string) string {
		return fmt.Sprintf(`,"kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":%q,"remote_engine_id":%q,"remote_bootstrap_addr":%q%s}`, id, engine, addr, more)
	}
	t.Run("handed over", func(t *testing.T) {
		keep(t, "xfer-1")
		if status, answer := callerOf(t, d).post(completionsPath, shortOf(9, told("xfer-1", "engine-7", addr, ""))); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
		if tr, err := d.Transfers(ctxFor(t)); err != nil || tr.Received != 1 || tr.Recomputed != 0 {
			t.Errorf("%+v, %v", tr, err)
		}
		atRest(t, p, d)
	})
	for _, c := range []struct{ name, params, want string }{
		{"another transfer", told("xfer-9", "engine-7", addr, ""), "no KV is held"},
		{"another engine", told("xfer-2", "engine-8", addr, ""), "not engine-8"},
		{"another address", told("xfer-2", "engine-7", p.URL, ""), "status 404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			keep(t, "xfer-2")
			if status, answer := callerOf(t, d).post(completionsPath, shortOf(9, c.params)); status != 500 || !strings.Contains(answer, c.want) {
				t.Errorf("%d %s", status, answer)
			}
			atRest(t, p, d)
		})
	}
	t.Run("strict", func(t *testing.T) {
		setFaults(t, p, simctl.Faults{Strict: true})
		setFaults(t, d, simctl.Faults{Strict: true})
		for _, c := range []struct {
			name, members string
			e             *simtest.Engine
		}{
			{"NIXL's tag", `,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false}`, p},
			{"more keys", told("x", "engine-7", addr, `,"remote_host":"h"`), d},
			{"no engine", told("x", "", addr, ""), d},
			{"an address without a scheme", told("x", "engine-7", "127.0.0.1:1", ""), d},
		} {
			if status, answer := callerOf(t, c.e).post(completionsPath, shortOf(1, c.members)); status != 400 || !strings.Contains(answer, "kv_transfer_params") {
				t.Errorf("%s: %d %s", c.name, status, answer)
			}
		}
		atRest(t, p, d)
	})
}

func TestPassthroughConnector(t *testing.T) {
	cfg := kept()
	cfg.Disagg.Connector = "LMCacheConnectorV1"
	pd := simtest.StartPD(t, 1, 1, cfg)
	p, d := pd.Prefill[0], pd.Decode[0]
	setFaults(t, p, simctl.Faults{Strict: true})
	status, answer := callerOf(t, p).post(completionsPath, shortOf(1, ""))
	params := paramsOf(t, answer)
	if status != 200 || params == nil {
		t.Fatalf("%d %s", status, answer)
	}
	if status, answer = callerOf(t, d).post(completionsPath, consume(t, shortOf(9, ""), params)); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if tr, err := d.Transfers(ctxFor(t)); err != nil || tr.Received != 1 {
		t.Errorf("%+v, %v", tr, err)
	}
	if status, answer = callerOf(t, p).post(completionsPath, shortOf(1, `,"kv_transfer_params":{"do_remote_decode":true}`)); status != 400 {
		t.Errorf("a tag: %d %s", status, answer)
	}
	atRest(t, p, d)
}

func TestKVOfSeveralPrompts(t *testing.T) {
	pd := simtest.StartPD(t, 1, 1, kept())
	p, d := pd.Prefill[0], pd.Decode[0]
	const two = `{"prompt":["Once upon a time","in the west of the east"],"max_tokens":%d,"kv_transfer_params":%s}`
	_, answer := callerOf(t, p).post(completionsPath, fmt.Sprintf(two, 1, `{"do_remote_decode":true}`))
	params := paramsOf(t, answer)
	if l, err := p.Ledger(ctxFor(t)); err != nil || l.Transferring != 2 || params == nil {
		t.Fatalf("the ledger is %+v (%v), the answer %s", l, err, answer)
	}
	if status, answer := callerOf(t, d).post(completionsPath, fmt.Sprintf(two, 5, params)); status != 500 {
		t.Errorf("%d %s", status, answer)
	}
	atRest(t, p, d)
}

func TestVLLMRequestIDs(t *testing.T) {
	cfg := kept()
	cfg.Disagg.Correlate = true
	pd := simtest.StartPD(t, 1, 1, cfg)
	p, d := pd.Prefill[0], pd.Decode[0]
	named := func(body string, id string) string { return with(t, body, map[string]any{"request_id": id}) }
	t.Run("KV-05 KV is kept for a request of the same id", func(t *testing.T) {
		for id, want := range map[string]int{"a": 200, "b": 500} {
			_, answer := callerOf(t, p).post(completionsPath, named(with(t, shortOf(1, ""), produce()), "a"))
			if status, answer := callerOf(t, d).post(completionsPath, named(consume(t, shortOf(5, ""), paramsOf(t, answer)), id)); status != want {
				t.Errorf("%s: %d %s", id, status, answer)
			}
			atRest(t, p, d)
		}
	})
	t.Run("nobody can be told to let go", func(t *testing.T) {
		if status, _ := callerOf(t, p).post("/abort_requests", `{"request_ids":["a"]}`); status != 404 {
			t.Errorf("status %d", status)
		}
	})
	t.Run("an id that is under way", func(t *testing.T) {
		none := 0
		setFaults(t, d, simctl.Faults{Strict: true, Window: &none})
		first := startIn(d, named(shortOf(5, ""), "c"))
		if l, err := d.WaitLedger(ctxFor(t), func(l simctl.Ledger) bool { return l.Waiting == 1 }); err != nil {
			t.Fatalf("%+v, %v", l, err)
		}
		if status, answer := callerOf(t, d).post(completionsPath, named(shortOf(5, ""), "c")); status != 400 || !strings.Contains(answer, "already running") {
			t.Errorf("%d %s", status, answer)
		}
		first.cancel()
		first.wait(t)
		setFaults(t, d, simctl.Faults{})
		atRest(t, p, d)
	})
}
