package ingress

import (
	"strings"
	"testing"

	"smg/worker"
)

type fakeSelection struct {
	connected bool
	legs      []worker.LegStatus
}

func (f fakeSelection) Connected() bool            { return f.connected }
func (f fakeSelection) Status() []worker.LegStatus { return f.legs }

func TestStatus(t *testing.T) {
	g := start(t, []string{"http://p:1", "http://d:1", "http://d:2"}, withDeps(func(d *Deps) {
		d.Selection = fakeSelection{true, []worker.LegStatus{
			{
				Leg: worker.Prefill, Policy: "cache_aware", Leases: 2,
				Replicas: []worker.ReplicaStatus{{ID: 1<<63 + 1, Local: true}, {ID: 1<<63 + 2, Excluded: true}},
			},
			{Leg: worker.Decode, Degraded: true, Waiting: 5},
		}}
	}))
	for i, leg := range []worker.Leg{worker.Prefill, worker.Decode, worker.Decode} {
		g.fleet.workers[i].Spec.Leg = leg
	}
	g.fleet.workers[2].Record.Status = worker.NotReady
	g.fleet.workers[1].Record.Breaker = worker.Open
	g.fleet.workers[2].Record.Breaker = worker.Open // is not ready anyway
	for i, runtime := range []worker.Runtime{worker.VLLM, worker.VLLM, worker.SGLang} {
		g.fleet.workers[i].Spec.Runtime = runtime
	}
	g.fleet.workers[1].Spec.KVConnector = worker.MooncakeFound
	g.fleet.workers[2].Spec.Conflict = "two of a kind"
	const legs = `"legs":[{"leg":"prefill","policy":"cache_aware","protocols":["vllm with NixlConnector"],"degraded":false,"leases":2,"waiting_requests":0,"healthy_workers":1,"total_workers":1,"open_breakers":0,` +
		`"selectors":[{"id":"9223372036854775809","local":true,"excluded":false},{"id":"9223372036854775810","local":false,"excluded":true}]},` +
		`{"leg":"decode","protocols":["sglang","vllm with MooncakeConnector (found)"],"conflicts":["http://d:2: two of a kind"],"degraded":true,"leases":0,"waiting_requests":5,"max_rooms_per_worker":0,"healthy_workers":1,"total_workers":2,"open_breakers":1,"selectors":[]}]}`
	for _, tt := range []struct {
		name            string
		ready, draining bool
		want            string
	}{
		{"ready", true, false, `{"status":"ready","bus_connected":true,"healthy_workers":3,"total_workers":3,` + legs},
		{"not ready", false, false, `{"status":"not ready","bus_connected":true,"healthy_workers":0,"total_workers":3,` + legs},
		{"draining", true, true, `{"status":"draining","bus_connected":true,"healthy_workers":3,"total_workers":3,` + legs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.fleet.ready.Store(tt.ready)
			g.draining.Store(tt.draining)
			defer g.draining.Store(false)
			if r := g.do(get("/status")); r.status != 200 || r.body != tt.want {
				t.Errorf("%d\n%s, want\n%s", r.status, r.body, tt.want)
			}
		})
	}
}

// TestStatusOfRegular names what regular workers are, which hand nothing over.
func TestStatusOfRegular(t *testing.T) {
	g := start(t, []string{"http://a:1", "http://b:1", "http://c:1"}, withDeps(func(d *Deps) {
		d.Selection = fakeSelection{true, []worker.LegStatus{{Leg: worker.Regular}}}
	}))
	for i, runtime := range []worker.Runtime{worker.VLLM, worker.SGLang, worker.VLLM} {
		g.fleet.workers[i].Spec.Runtime = runtime
	}
	const want = `"leg":"regular","protocols":["sglang","vllm"],`
	if r := g.do(get("/status")); !strings.Contains(r.body, want) {
		t.Errorf("%s lacks %s", r.body, want)
	}
}
