package legs

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus/bustest"
	"smg/policy"
	"smg/worker"
)

// shows compares what is exported under some names, HELP and TYPE left out.
func (s *site) shows(t *testing.T, want string, names ...string) {
	t.Helper()
	got, err := gathered(s.reg, names...)
	if err != nil {
		t.Fatal(err)
	}
	want = strings.TrimSpace(strings.ReplaceAll(want, "\t", ""))
	if got != want {
		t.Errorf("exported:\n%s\nwant:\n%s", got, want)
	}
}

func gathered(reg *prometheus.Registry, names ...string) (string, error) {
	families, err := reg.Gather()
	if err != nil {
		return "", err
	}
	var lines []string
	for _, f := range families {
		for _, name := range names {
			if !strings.HasPrefix(f.GetName(), name) || strings.HasPrefix(f.GetName(), "smg_worker_health_checks") && name == "smg_worker_health" {
				continue
			}
			for _, m := range f.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				lines = append(lines, strings.TrimPrefix(f.GetName(), "smg_")+" "+strings.Join(labels, " ")+" = "+formatted(m.GetGauge().GetValue()+m.GetCounter().GetValue()))
			}
		}
	}
	return strings.Join(lines, "\n"), nil
}

func formatted(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 2, 64), ".00")
}

func twoRanks(context.Context) (Loads, error) {
	return Loads{Ranks: []RankLoad{
		{Rank: 1, Running: new(3.0), Waiting: new(2.0), TokenUsage: new(0.25), Throughput: new(100.5), CacheHitRate: new(0.5)},
		{Rank: 0, Running: new(1.0), TokenUsage: new(0.75), Mode: "prefill", TransferLatency: new(1.5), TransferSpeed: new(2.5), PrefillQueue: new(4.0), DecodeQueue: new(0.0)},
		{Rank: 1, Running: new(9.0)}, // twice: the first counts
	}}, nil
}

// engineGaugesFollow is case 57.
func engineGaugesFollow(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.shows(t, "", "smg_engine_")
		s.engines.does(a, twoRanks)
		s.come(a)
		s.shows(t, `
			engine_cache_hit_rate 1 m http://w1:8000 = 0.50
			engine_gen_throughput 1 m http://w1:8000 = 100.50
			engine_pd_decode_queue_reqs 0 prefill http://w1:8000 = 0
			engine_pd_kv_transfer_latency_ms 0 prefill http://w1:8000 = 1.50
			engine_pd_kv_transfer_speed_gb_s 0 prefill http://w1:8000 = 2.50
			engine_pd_prefill_queue_reqs 0 prefill http://w1:8000 = 4
			engine_running_requests 0 m http://w1:8000 = 1
			engine_running_requests 1 m http://w1:8000 = 3
			engine_token_usage 0 m http://w1:8000 = 0.75
			engine_token_usage 1 m http://w1:8000 = 0.25
			engine_waiting_requests 1 m http://w1:8000 = 2
		`, "smg_engine_")
		ended := `
			engine_running_requests 0 m http://w1:8000 = -1
			engine_running_requests 1 m http://w1:8000 = -1
			engine_waiting_requests 1 m http://w1:8000 = -1
		`
		names := []string{"smg_engine_running", "smg_engine_waiting"}
		s.ill(a)
		s.shows(t, ended, names...)
		s.well(a)
		s.shows(t, `
			engine_running_requests 0 m http://w1:8000 = 1
			engine_running_requests 1 m http://w1:8000 = 3
			engine_waiting_requests 1 m http://w1:8000 = 2
		`, names...)
		s.engines.fails(a, "no answer") // the last good poll stays shown
		s.pass(11 * time.Second)
		s.shows(t, `
			engine_running_requests 0 m http://w1:8000 = 1
			engine_running_requests 1 m http://w1:8000 = 3
			engine_waiting_requests 1 m http://w1:8000 = 2
		`, names...)
		s.remove(a.ID)
		s.shows(t, ended, names...)
		s.pass(time.Minute)
		s.shows(t, ended, names...)
		s.pass(goneFor)
		s.shows(t, "", "smg_engine_")
	})
}

// Only who keeps a worker shows what its engine says, or two replicas would.
func TestEngineGaugesAreTheKeepers(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.engines.does(a, twoRanks)
		s.come(a)
		other := s.record(t, a)
		other.Term, other.Keeper = other.Term+1, 99
		s.ranking.Apply(worker.ReplicaBeat{Replica: 99, Ready: true}, time.Now())
		s.mu.Lock()
		s.keepers[a.ID].Hear(other)
		s.mu.Unlock()
		s.shows(t, "", "smg_engine_")
	})
}

// What an engine said in a stay that has ended is not shown in the next.
func TestEngineGaugesOfALostStay(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.engines.does(a, func(ctx context.Context) (Loads, error) {
			pause(ctx, 20*time.Second)
			return twoRanks(ctx)
		})
		asked := time.Now()
		s.come(a)
		s.ill(a)
		s.well(a)
		s.pass(time.Until(asked.Add(21 * time.Second)))
		s.shows(t, "", "smg_engine_")
		if n := len(s.engines.asked(a, asked)); n != 2 {
			t.Fatalf("asked %d times, want once in each stay", n)
		}
	})
}

func TestFleetGaugesFollowTheWorkers(t *testing.T) {
	inTime(t, func(c *Config) { c.Loads.Overload.Waiting = 5 }, func(t *testing.T, s *site) {
		a, b, c := spec(1, "m"), spec(2, "n"), spec(3, "")
		b.Models = append(b.Models, worker.Model{ID: "m"}, worker.Model{ID: "n"})
		s.engines.says(b, 5, 0)
		s.come(a, b, c)
		names := []string{"smg_worker_cb_state", "smg_worker_health", "smg_worker_pool", "smg_workers", "smg_selector"}
		s.shows(t, `
			selector_requests_active http://w1:8000 = 0
			selector_requests_active http://w2:8000 = 0
			selector_requests_active http://w3:8000 = 0
			worker_cb_state http://w1:8000 = 0
			worker_cb_state http://w2:8000 = 0
			worker_cb_state http://w3:8000 = 0
			worker_health http://w1:8000 = 1
			worker_health http://w2:8000 = 1
			worker_health http://w3:8000 = 1
			worker_pool_size http m regular = 2
			worker_pool_size http n regular = 1
			worker_pool_size http unknown regular = 1
			workers_overloaded m = 1
			workers_overloaded n = 1
			workers_overloaded unknown = 0
		`, names...)
		s.remove(b.ID)
		s.shows(t, `
			selector_requests_active http://w1:8000 = 0
			selector_requests_active http://w3:8000 = 0
			worker_cb_state http://w1:8000 = 0
			worker_cb_state http://w2:8000 = -1
			worker_cb_state http://w3:8000 = 0
			worker_health http://w1:8000 = 1
			worker_health http://w2:8000 = -1
			worker_health http://w3:8000 = 1
			worker_pool_size http m regular = 1
			worker_pool_size http n regular = 0
			worker_pool_size http unknown regular = 1
			workers_overloaded m = 0
			workers_overloaded n = 0
			workers_overloaded unknown = 0
		`, names...)
		s.come(b)
		s.pass(time.Second)
		if got, err := gathered(s.reg, "smg_worker_health"); err != nil || strings.Contains(got, "-1") {
			t.Errorf("back again: %s, %v", got, err)
		}
	})
}

// The legs of one process share a page: a model is counted over all of them, and a
// worker that changes its leg is there once.
func TestLegsShareAPage(t *testing.T) {
	reg := prometheus.NewRegistry()
	conn := bustest.Start(t)
	var legs []*Service
	for _, leg := range []worker.Leg{worker.Prefill, worker.Decode} {
		s, err := New(Config{Cluster: testCluster(t), Leg: leg, Replica: 7, Policy: policy.DefaultConfig(), Keeper: worker.DefaultKeeperConfig()},
			Deps{Bus: conn, Prober: &prober{}, Log: slog.New(slog.DiscardHandler), Registerer: reg, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		legs = append(legs, s)
	}
	pre, dec := spec(1, "m"), spec(2, "m")
	pre.Leg, dec.Leg = worker.Prefill, worker.Decode
	legs[0].add(pre)
	legs[1].add(dec)
	for i, w := range []*worker.Spec{pre, dec} {
		rec := worker.Record{Worker: w.ID, Term: 1, Seq: 1, Status: worker.Ready, Overloaded: true}
		rec.Report = &worker.Report{PolledAt: time.Now(), GoodFor: time.Hour}
		legs[i].registry.Install(rec)
	}
	moved := pre.Clone()
	moved.Leg = worker.Decode
	legs[1].add(moved) // the other leg has not heard of it yet
	check := func(want string) {
		t.Helper()
		if got, err := gathered(reg, "smg_workers_overloaded", "smg_worker_health", "smg_worker_pool"); err != nil || got != want {
			t.Errorf("%v\n%s\nwant:\n%s", err, got, want)
		}
	}
	check(`worker_health http://w1:8000 = 1
worker_health http://w2:8000 = 1
worker_pool_size http m decode = 1
worker_pool_size http m prefill = 1
workers_overloaded m = 2`)
	legs[0].remove(pre.ID)
	check(`worker_health http://w1:8000 = 0
worker_health http://w2:8000 = 1
worker_pool_size http m decode = 2
worker_pool_size http m prefill = 0
workers_overloaded m = 1`)
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestModelLabelsAreBounded(t *testing.T) {
	var l labelled
	for i := range maxModels {
		name := "m" + strconv.Itoa(i)
		if got := l.label(name); got != name {
			t.Fatalf("model %d: %q", i, got)
		}
	}
	for model, want := range map[string]string{"m0": "m0", "one more": "other", "": "unknown"} {
		if got := l.label(model); got != want {
			t.Errorf("label(%q) = %q, want %q", model, got, want)
		}
	}
}
