package study

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/worker"
)

// lossy is a site of several replicas behind a bus that loses a fifth.
func lossy() Config {
	cfg := small(4)
	cfg.Ingresses, cfg.Selectors, cfg.Select = 8, 3, ms
	cfg.Jitter, cfg.Lost = 3*ms, 0.2
	return cfg
}

func keyed() Contender {
	c := LeastRequests()
	c.Inputs = func(i int, req *policy.Request) { req.Keys.Header = worker.HashKey(fmt.Sprint(i % 17)) }
	return c
}

func startOf(t *testing.T, cfg *Config, w *Workload, c Contender) *run {
	t.Helper()
	fleet, err := newFleet(cfg, c.Leg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(cfg, w, &c, fleet)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *run) until(at time.Duration) {
	for r.now < at {
		r.next()
	}
}

// counts is what a replica counts at each worker.
func (r *run) counts(s *selector) []int {
	var n []int
	for _, spec := range r.fleet.specs {
		n = append(n, s.fold.Load(spec.ID).Active())
	}
	return n
}

// TestLossHeals: while messages are lost, replicas do not count alike; once nothing
// is lost any more and all beats have gone round, each counts what is open: one long
// call.
func TestLossHeals(t *testing.T) {
	cfg := lossy()
	cfg.Engine.ContextLength = 4000
	work := mixed(400)
	const long = 200
	work.Requests[long].Output = 3000
	r := startOf(t, &cfg, work, keyed())
	differ := false
	for r.left > 1 {
		r.next()
		differ = differ || !cmp.Equal(r.counts(r.selectors[0]), r.counts(r.selectors[1]))
	}
	if !differ {
		t.Error("nothing that was lost shows")
	}
	cfg.Lost = 0
	r.until(r.now + (worker.Quarters+1)*worker.BeatInterval + worker.GrantLife)
	if r.left != 1 {
		t.Fatal("the long call has ended")
	}
	want := make([]int, cfg.Workers)
	want[r.outcomes[long].Worker] = 1
	for i, s := range r.selectors {
		if diff := cmp.Diff(want, r.counts(s)); diff != "" {
			t.Errorf("calls that replica %d counts (-want +got):\n%s", i, diff)
		}
	}
}

// TestLossWithoutEndHeals: whatever goes on being lost, every replica is right in the
// end, and knows a report of every worker.
func TestLossWithoutEndHeals(t *testing.T) {
	cfg := lossy()
	cfg.Lost = 0.5
	r := startOf(t, &cfg, mixed(300), keyed())
	for r.left > 0 {
		r.next()
	}
	r.until(r.now + time.Minute)
	for i, s := range r.selectors {
		if diff := cmp.Diff(make([]int, cfg.Workers), r.counts(s)); diff != "" {
			t.Errorf("replica %d still counts calls (-want +got):\n%s", i, diff)
		}
		for _, spec := range r.fleet.specs {
			rec, _ := s.registry.Record(spec.ID)
			if rec.Report == nil || r.clock().Sub(rec.Report.PolledAt) > 2*cfg.Poll {
				t.Errorf("replica %d knows of %s: %+v", i, spec.URL, rec.Report)
			}
		}
	}
}

// TestLossIsSeeded: equal seeds lose the same messages, and others do not.
func TestLossIsSeeded(t *testing.T) {
	cfg, work := lossy(), mixed(300)
	one := mustRun(t, cfg, work, keyed())
	if diff := cmp.Diff(one, mustRun(t, cfg, work, keyed())); diff != "" {
		t.Errorf("two equal runs differ:\n%s", diff)
	}
	cfg.Seed++
	if cmp.Equal(one, mustRun(t, cfg, work, keyed())) {
		t.Error("another seed changes nothing")
	}
	for i, o := range one.Outcomes {
		if o.Err != nil || o.TTFT <= 0 {
			t.Errorf("request %d: %+v", i, o)
		}
	}
}

// TestPrivateHearsNobody: a gateway that shares nothing counts its own requests and
// no others, each of which goes where its own state says.
func TestPrivateHearsNobody(t *testing.T) {
	cfg := small(2)
	cfg.Ingresses, cfg.Selectors, cfg.Private = 2, 2, true
	cfg.Lost, cfg.Jitter = 0.9, time.Second // there is no bus
	long := Request{Prompt: 4, Output: 200}
	r := startOf(t, &cfg, workOf(long, long, long), keyed())
	r.until(500 * ms)
	got := [][]int{}
	for _, s := range r.selectors {
		n := r.counts(s)
		got = append(got, []int{n[0] + n[1]})
	}
	if diff := cmp.Diff([][]int{{2}, {1}}, got); diff != "" {
		t.Errorf("calls that each counts (-want +got):\n%s", diff)
	}
	if n := r.counts(r.selectors[0]); n[0] != 1 {
		t.Errorf("the first gateway's two calls are at %v, want one at each", n)
	}
}
