package ingress

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

func TestGatewayInfo(t *testing.T) {
	t.Run("13_loads", func(t *testing.T) {
		g := start(t, []string{"http://a", "http://b"}, withConfig(func(c *Config) { c.Version = "1.2.3" }), withDeps(func(d *Deps) {
			d.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
			d.Loads = func(context.Context) []worker.Loads {
				return []worker.Loads{
					{Worker: worker.IDOf("http://gone"), Ranks: []worker.RankLoad{{Running: new(99.0)}}},
					{Worker: worker.IDOf("http://b"), Ranks: []worker.RankLoad{{Running: new(1.0), Waiting: new(0.0), Throughput: new(100.0), Mode: "prefill", PrefillQueue: new(4.0)}}},
					{Worker: worker.IDOf("http://a"), Ranks: []worker.RankLoad{
						{Running: new(3.0), Waiting: new(2.0), Total: new(7.0), TokenUsage: new(0.5), Throughput: new(300.0), WeightGB: new(14.5), QueueGrammar: new(1.0)},
						{Rank: 1, TokenUsage: new(0.25)},
					}},
				}
			}
		}))
		g.fleet.workers[1].Spec.Models = []worker.Model{{ID: "other", Aliases: []string{"nick"}}}
		const head = `{"timestamp":"2026-01-02T03:04:05Z","version":"smg-1.2.3",`
		const b = `{"worker":"http://b","worker_type":"regular","dp_rank":0,"num_running_reqs":1,"num_waiting_reqs":0,"gen_throughput":100,"disagg_mode":"prefill","prefill_queue_reqs":4}`
		want := head + `"dp_rank_count":3,"loads":[` +
			`{"worker":"http://a","worker_type":"regular","dp_rank":0,"num_running_reqs":3,"num_waiting_reqs":2,"num_total_reqs":7,"token_usage":0.5,"gen_throughput":300,"memory":{"weight_gb":14.5},"queues":{"grammar":1}},` +
			`{"worker":"http://a","worker_type":"regular","dp_rank":1,"token_usage":0.25},` + b + `],` +
			`"aggregate":{"total_running_reqs":4,"total_waiting_reqs":2,"total_reqs":8,"avg_token_usage":0.375,"avg_throughput":200,"avg_utilization":0}}`
		for _, path := range []string{"/loads", "/get_loads", "/v1/loads"} {
			r := g.do(get(path))
			if d := cmp.Diff(want, r.body); r.status != 200 || d != "" {
				t.Errorf("%s: %d (-want +got):\n%s", path, r.status, d)
			}
		}
		want = head + `"dp_rank_count":1,"loads":[` + b + `],"aggregate":{"total_running_reqs":1,"total_waiting_reqs":0,"total_reqs":1,"avg_token_usage":0,"avg_throughput":100,"avg_utilization":0}}`
		if d := cmp.Diff(want, g.do(get("/loads?model=nick")).body); d != "" {
			t.Errorf("of one model (-want +got):\n%s", d)
		}
		want = head + `"dp_rank_count":0,"loads":[]}`
		if d := cmp.Diff(want, g.do(get("/loads?model=none")).body); d != "" {
			t.Errorf("of no model (-want +got):\n%s", d)
		}
		if r := start(t, nil).do(get("/loads")); r.status != 200 {
			t.Errorf("where nobody knows: %d %s", r.status, r.body)
		}
	})

	// Of a list all workers are asked about in one question.
	t.Run("10_workers_show_the_load_of_their_engines", func(t *testing.T) {
		var asked atomic.Int32
		g := start(t, []string{"http://a:1", "http://b:1"}, withDeps(func(d *Deps) {
			d.Loads = func(context.Context) []worker.Loads {
				asked.Add(1)
				return []worker.Loads{{Worker: worker.IDOf("http://a:1"), Ranks: []worker.RankLoad{{Running: new(3.0), Mode: "decode"}, {Rank: 1, WeightGB: new(1.5)}}}}
			}
		}))
		const want = `"engine_load":{"dp_rank_count":2,"loads":[{"dp_rank":0,"num_running_reqs":3,"disagg_mode":"decode"},{"dp_rank":1,"memory":{"weight_gb":1.5}}]}`
		r := g.do(get("/workers"))
		if r.status != 200 || strings.Count(r.body, "engine_load") != 1 || !strings.Contains(r.body, want) || asked.Load() != 1 {
			t.Errorf("%d after %d questions: %s, want one with %s", r.status, asked.Load(), r.body, want)
		}
		for url, shown := range map[string]bool{"http://a:1": true, "http://b:1": false} {
			if r := g.do(get("/workers/" + worker.IDOf(url).String())); r.status != 200 || strings.Contains(r.body, want) != shown {
				t.Errorf("%s: %d %s", url, r.status, r.body)
			}
		}
		if r := start(t, []string{"http://a:1"}).do(get("/workers")); r.status != 200 || strings.Contains(r.body, "engine_load") {
			t.Errorf("where nobody knows: %d %s", r.status, r.body)
		}
	})
}
