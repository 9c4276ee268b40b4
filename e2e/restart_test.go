package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"smg/sim/simctl"
)

// restartable is an engine as a process, which comes back under its URL as another one.
type restartable struct {
	*process
	url  string
	at   int
	args []string
	peer int  // where other engines meet it
	told bool // the gateway is told so
}

// startEngine starts an engine with args, to which the flag for a free port where
// other engines meet it is added.
func startEngine(t *testing.T, peerFlag string, args ...string) *restartable {
	t.Helper()
	e := &restartable{at: port(t), args: append(slices.Clone(args), peerFlag)}
	e.url = fmt.Sprintf("http://127.0.0.1:%d", e.at)
	e.again(t)
	return e
}

// again starts it, with another port for other engines each time.
func (e *restartable) again(t *testing.T) {
	t.Helper()
	e.againAt(t, port(t))
}

// againAt starts it, to be met at a port.
func (e *restartable) againAt(t *testing.T, peer int) {
	t.Helper()
	e.peer = peer
	args := append([]string{"--port", strconv.Itoa(e.at), "--time-scale", "0"}, append(slices.Clone(e.args), strconv.Itoa(e.peer))...)
	e.process = start(t, "smg-sim", args...)
	await(t, "the engine", func() bool { return !refused(t, e.url+"/health") })
	if err := simctl.NewClient(e.url, nil).SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
		t.Fatal(err)
	}
}

// end kills it.
func (e *restartable) end() {
	e.signal(syscall.SIGKILL)
	<-e.done
}

// met are the ports at which this process was to be met, of the requests that it got.
func (e *restartable) met(t *testing.T) (ports []int) {
	t.Helper()
	records, err := simctl.NewClient(e.url, nil).Records(t.Context(), "/v1/chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		var b struct {
			Port int `json:"bootstrap_port"`
		}
		if len(r.Body) == 0 {
			continue // it came before bodies were recorded
		}
		if err := json.Unmarshal(r.Body, &b); err != nil {
			t.Fatal(err)
		}
		ports = append(ports, b.Port)
	}
	return ports
}

// TestDisaggRestarts has engines come back as other processes, which are met elsewhere, or
// under another id.
func TestDisaggRestarts(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"F27_sglang_prefill_under_load":       func(t *testing.T) { prefillRestarts(t, "sglang") },
		"F27_sglang_prefill_under_load_split": func(t *testing.T) { prefillRestarts(t, "sglang", "--topology", "split") },
		"F27_vllm_prefill_under_load":         func(t *testing.T) { prefillRestarts(t, "vllm") },
		"F27_mooncake_under_load":             func(t *testing.T) { mooncakeRestarts(t) },
		"F27_mooncake_under_load_split":       func(t *testing.T) { mooncakeRestarts(t, "--topology", "split") },
		"sglang_prefill_while_idle":           func(t *testing.T) { idleRestart(t) },
		"sglang_decode_under_load":            func(t *testing.T) { decodeRestarts(t) },
	})
}

// pdOf starts a gateway in front of engines, whose bootstrap ports it has to find out.
func pdOf(t *testing.T, prefill, decode []*restartable, args ...string) *gateway {
	t.Helper()
	all := append([]string{"launch", "--host", "127.0.0.1", "--pd-disaggregation", "--policy", "round_robin", "--shutdown-grace-period-secs", "0"}, gatewayArgs(t, "")...)
	all = append(all, args...)
	for _, e := range prefill {
		all = append(all, "--prefill", e.url)
		if e.told {
			all = append(all, strconv.Itoa(e.peer))
		}
	}
	for _, e := range decode {
		all = append(all, "--decode", e.url)
	}
	g := &gateway{process: start(t, "smg", all...)}
	m := g.says(`^api +(http://\S+) +metrics +(http://\S+)`)
	g.url, g.metrics = m[1], m[2]
	g.says(fmt.Sprintf(`^ready +%d of `, len(prefill)+len(decode)))
	return g
}

// roleArgs are the flags of simulated engines, and that of the port where prefill is met.
func roleArgs(kind, role string) (args []string, peerFlag string) {
	if kind == "vllm" {
		kv := map[string]string{"prefill": "kv_producer", "decode": "kv_consumer"}
		return []string{"--engine", kind, "--kv-role", kv[role]}, "--kv-side-channel-port"
	}
	return []string{"--engine", kind, "--disaggregation-mode", role, "--bootstrap-timeout", "2s"}, "--disaggregation-bootstrap-port"
}

func startRole(t *testing.T, kind, role string) *restartable {
	t.Helper()
	args, peerFlag := roleArgs(kind, role)
	return startEngine(t, peerFlag, args...)
}

// prefillRestarts fails no request and sends none to the new process that would have it
// met where the old one was.
func prefillRestarts(t *testing.T, kind string, args ...string) {
	first, second, decode := startRole(t, kind, "prefill"), startRole(t, kind, "prefill"), startRole(t, kind, "decode")
	g := pdOf(t, []*restartable{first, second}, []*restartable{decode}, append(args, "--retry-initial-backoff-ms", "5")...)
	l := startLoad(t, g.url, 4, patience)
	l.more(t, 20)
	for range 2 {
		first.end()
		if kind == "sglang" {
			await(t, "the worker to be out", func() bool { w, _ := g.worker(first.url); return !w.Healthy })
		} else {
			l.more(t, 20)
		}
		first.again(t)
		await(t, "requests to the new process", func() bool { return len(first.met(t)) >= 20 })
		want := 0 // vLLM's decode is told by the answer of prefill
		if kind == "sglang" {
			want = first.peer
			if w, _ := g.worker(first.url); w.BootstrapPort != want || w.BootstrapSource != "engine" {
				t.Errorf("shown as %+v, want bootstrap port %d", w, want)
			}
		}
		for _, p := range first.met(t) {
			if p != want {
				t.Fatalf("a request of the new process is to meet at port %d, want %d", p, want)
			}
		}
	}
	l.stop()
	g.says("worker was restarted. .*worker=" + first.url)
	t.Logf("%d answers, %d of them degraded", l.answered.Load(), l.degraded.Load())
	g.stop(0)
}

// idleRestart happens while nobody asks: the next probe notices it.
func idleRestart(t *testing.T) {
	prefill, decode := startRole(t, "sglang", "prefill"), startRole(t, "sglang", "decode")
	g := pdOf(t, []*restartable{prefill}, []*restartable{decode}, "--health-check-interval-secs", "1", "--disable-retries")
	askChat(t, g.url)
	prefill.end()
	prefill.again(t)
	await(t, "the new port", func() bool { w, _ := g.worker(prefill.url); return w.BootstrapPort == prefill.peer && w.Healthy })
	askChat(t, g.url)
	if met := prefill.met(t); !slices.Equal(met, []int{prefill.peer}) {
		t.Errorf("met at %v, want once at %d", met, prefill.peer)
	}
	g.stop(0)
}

// decodeRestarts has all decode engines come back: requests are answered as soon as
// they are there, and before their breakers would let any through.
func decodeRestarts(t *testing.T) {
	prefill, decode := startRole(t, "sglang", "prefill"), startRole(t, "sglang", "decode")
	g := pdOf(t, []*restartable{prefill}, []*restartable{decode}, "--cb-timeout-duration-secs", "3600", "--disable-retries")
	askChat(t, g.url)
	decode.end()
	for range 12 { // the breaker opens after ten
		if a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat); a.status < http.StatusInternalServerError {
			t.Errorf("status %d without a decode engine", a.status)
		}
	}
	decode.again(t)
	began := time.Now()
	await(t, "an answer", func() bool { return do(t, http.MethodPost, g.url+"/v1/chat/completions", chat).status == http.StatusOK })
	t.Logf("answered %s after the restart", time.Since(began))
	g.stop(0)
}

// mooncakeRestarts has a prefill engine come back under another engine id: no request
// fails, and decode asks no process for what another one has.
func mooncakeRestarts(t *testing.T, args ...string) {
	engine := func(role string) *restartable {
		e := startEngine(t, "--kv-side-channel-port", "--engine", "vllm", "--kv-transfer-config", fmt.Sprintf(`{"kv_connector":"MooncakeConnector","kv_role":%q}`, role))
		e.told = true
		return e
	}
	first, second, decode := engine("kv_producer"), engine("kv_producer"), engine("kv_consumer")
	g := pdOf(t, []*restartable{first, second}, []*restartable{decode}, append(args, "--retry-initial-backoff-ms", "5")...)
	l := startLoad(t, g.url, 4, patience)
	l.more(t, 20)
	for range 2 {
		old := first.mooncakeID(t)
		first.end()
		first.againAt(t, first.peer)
		id := first.mooncakeID(t)
		if id == old {
			t.Fatalf("the engine has come back as %s", id)
		}
		await(t, "requests to the new process", func() bool { return len(first.transfers(t)) >= 20 })
		kept, fetched := first.transfers(t), decode.transfers(t)
		for transfer := range kept {
			if by, asked := fetched[transfer]; asked && by != id {
				t.Errorf("decode was told to ask %q for %s, want %s", by, transfer, id)
			}
		}
		await(t, "the worker to be shown with its id", func() bool { w, _ := g.worker(first.url); return w.KVEngineID == id })
	}
	l.stop()
	tr, err := simctl.NewClient(decode.url, nil).Transfers(t.Context())
	if err != nil || tr.Received == 0 || tr.Recomputed != 0 {
		t.Errorf("decode counts %+v (%v), want all KV received", tr, err)
	}
	t.Logf("%d answers, %d of them degraded; decode counts %+v", l.answered.Load(), l.degraded.Load(), tr)
	g.stop(0)
}

// mooncakeID is what the engine's bootstrap server says.
func (e *restartable) mooncakeID(t *testing.T) string {
	t.Helper()
	var ranks map[string]struct {
		ID string `json:"engine_id"`
	}
	if err := json.Unmarshal([]byte(get(t, fmt.Sprintf("http://127.0.0.1:%d/query", e.peer))), &ranks); err != nil || ranks["0"].ID == "" {
		t.Fatalf("%v in %v", err, ranks)
	}
	return ranks["0"].ID
}

// transfers are those that this process was told of, and the engine that it was to ask.
func (e *restartable) transfers(t *testing.T) map[string]string {
	t.Helper()
	records, err := simctl.NewClient(e.url, nil).Records(t.Context(), chatPath)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range records {
		var b struct {
			KV struct {
				Transfer string `json:"transfer_id"`
				Engine   string `json:"remote_engine_id"`
			} `json:"kv_transfer_params"`
		}
		if len(r.Body) == 0 {
			continue // it came before bodies were recorded
		}
		if err := json.Unmarshal(r.Body, &b); err != nil {
			t.Fatal(err)
		}
		if b.KV.Transfer != "" {
			all[b.KV.Transfer] = b.KV.Engine
		}
	}
	return all
}
