package study

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/worker"
)

// stateful is a policy that notes what it is told besides.
type stateful struct {
	watcher
	undone *[]worker.LeaseID
	ticks  *[]time.Time
}

func (s *stateful) Undo(lease worker.LeaseID) { *s.undone = append(*s.undone, lease) }
func (s *stateful) Tick(now time.Time)        { *s.ticks = append(*s.ticks, now) }

// TestPoliciesAreToldAsInTheProduct: time, and calls that no engine took, reach the
// policy of every replica.
func TestPoliciesAreToldAsInTheProduct(t *testing.T) {
	cfg := small(1)
	cfg.Selectors = 2
	var undone []worker.LeaseID
	var ticks []time.Time
	c := Contender{Name: "stateful", Leg: worker.Prefill, New: func(*Fleet, policy.Deps) (policy.Policy, error) {
		return &stateful{watcher{func(*policy.Request, *worker.View) {}}, &undone, &ticks}, nil
	}}
	mustRun(t, cfg, workOf(
		Request{At: 0, Prompt: 500, Output: 1}, // too long
		Request{At: time.Second, Prompt: 20, Output: 1},
	), c)
	lease := worker.LeaseID{Incarnation: 1, Plan: 1, Leg: worker.Prefill}
	if diff := cmp.Diff([]worker.LeaseID{lease, lease}, undone); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
	want := []time.Time{}
	for at := time.Duration(0); at <= time.Second; at += tick / 2 { // the replicas in turn
		want = append(want, epoch.Add(at))
	}
	slices.SortStableFunc(ticks, time.Time.Compare)
	if diff := cmp.Diff(want, ticks[:len(want)]); diff != "" {
		t.Errorf("ticks (-want +got):\n%s", diff)
	}
}

// TestReportsSayWhatEnginesSay: a policy sees the load that the engine has when it is
// polled, and none before.
func TestReportsSayWhatEnginesSay(t *testing.T) {
	cfg := small(1)
	cfg.Poll = 2 * time.Second
	var got []*worker.Report
	c := watching(func(_ *policy.Request, v *worker.View) {
		r := v.Report(0)
		if r != nil {
			r = new(*r)
			r.PolledAt = time.Time{}
		}
		got = append(got, r)
	})
	// At 2 s the first decodes, at 10 ms a token; the second is prefilled in chunks,
	// and the third waits.
	cfg.Engine.MaxRunning = 2
	mustRun(t, cfg, workOf(
		Request{At: 0, Prompt: 8, Output: 250},
		Request{At: 2*time.Second - 50*ms, Prompt: 200, Output: 1},
		Request{At: 2*time.Second - 50*ms, Prompt: 12, Output: 1},
		Request{At: 2*time.Second + 2*cfg.Polled, Prompt: 4, Output: 1},
	), c)
	idle := worker.Report{GoodFor: 6 * time.Second, MaxRunning: 2}
	busy := idle
	busy.Running, busy.Waiting = 2, 1
	if len(got) != 4 || got[0] != nil || !cmp.Equal(got[1], &idle) || got[3] == nil {
		t.Fatalf("reports %v", got)
	}
	last := *got[3]
	if last.Queued <= 12 || last.Queued > 212 || last.Throughput < 80 || last.Throughput > 101 || last.KVUsage <= 0.05 || last.KVUsage > 0.12 {
		t.Errorf("report %+v", last)
	}
	last.Queued, last.Throughput, last.KVUsage = 0, 0, 0
	if diff := cmp.Diff(busy, last); diff != "" {
		t.Errorf("report under load (-want +got):\n%s", diff)
	}
}

// TestLeasesSayWhatWasGranted: what a policy credits, and the key of the request,
// reach the replicas that did not choose.
func TestLeasesSayWhatWasGranted(t *testing.T) {
	cfg := small(1)
	cfg.Selectors = 2
	c := Contender{
		Name: "crediting",
		New:  func(*Fleet, policy.Deps) (policy.Policy, error) { return &least{func(int) int { return 0 }, idle}, nil },
		Inputs: func(i int, req *policy.Request) {
			req.Tokens = 7
			req.Keys.Header = worker.HashKey([]string{"a", "a", "b"}[i])
		},
	}
	work := workOf(Request{Prompt: 4, Output: 100}, Request{Prompt: 4, Output: 100}, Request{Prompt: 4, Output: 100})
	fleet, err := newFleet(&cfg, c.Leg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(&cfg, work, &c, fleet)
	if err != nil {
		t.Fatal(err)
	}
	for r.now < 500*ms {
		r.next()
	}
	for i, s := range r.selectors {
		l := s.fold.Load(fleet.specs[0].ID)
		if diff := cmp.Diff([]int64{3, 21, 2}, []int64{int64(l.Active()), l.Credit(), int64(l.Keys())}); diff != "" {
			t.Errorf("replica %d: calls, credit, keys (-want +got):\n%s", i, diff)
		}
	}
}

func idle(*worker.Worker) time.Duration { return 0 }
