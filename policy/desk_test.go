package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// desk is a fleet with the book of its leg. The test ends the calls that it makes.
type desk struct {
	*policytest.Fleet
	*policy.Book
	reg *prometheus.Registry
	seq uint64
}

// call is one that is in flight.
type call struct {
	lease  worker.LeaseID
	worker int
	branch string
}

// newDesk is n workers and a book of cfg, whose default policy is inner unless that
// is nil.
func newDesk(t *testing.T, n int, cfg policy.Config, inner policy.Policy, deps policy.Deps) *desk {
	t.Helper()
	d := &desk{Fleet: policytest.NewFleet(t, n), reg: prometheus.NewRegistry()}
	if deps.Registerer == nil {
		deps.Registerer = d.reg
	}
	var err error
	if inner == nil {
		d.Book, err = policy.NewBook(cfg, deps)
	} else {
		d.Book, err = policy.NewBookOn(cfg, inner, deps)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// manualConfig is policy manual in an assignment mode.
func manualConfig(mode string) policy.Config {
	cfg := policy.DefaultConfig()
	cfg.Policy = policy.Manual
	cfg.Pins.Assignment = mode
	return cfg
}

// stickyConfig is sticky sessions, in an assignment mode, on top of a policy.
func stickyConfig(name, mode string) policy.Config {
	cfg := policy.DefaultConfig()
	cfg.Policy = name
	cfg.Sticky = policy.StickyConfig{On: true, Assignment: mode}
	return cfg
}

func (d *desk) policy() policy.Policy {
	_, p := d.For(policytest.Model)
	return p
}

func (d *desk) call(t *testing.T, req *policy.Request) call {
	t.Helper()
	got := decide(t, d.policy(), d.Fleet, req)
	return call{req.Ask.Lease, d.Index(got.Worker), got.Branch}
}

// want makes a call and compares where it goes and why.
func (d *desk) want(t *testing.T, req *policy.Request, worker int, branch string) call {
	t.Helper()
	c := d.call(t, req)
	if c.worker != worker || c.branch != branch {
		t.Errorf("worker %d by %s, want %d by %s", c.worker, c.branch, worker, branch)
	}
	return c
}

// wantBranch makes a call and compares why it goes where it goes.
func (d *desk) wantBranch(t *testing.T, req *policy.Request, branch string) call {
	t.Helper()
	c := d.call(t, req)
	if c.branch != branch {
		t.Errorf("by %s, want by %s", c.branch, branch)
	}
	return c
}

// end ends calls, so that their workers do not count them any more.
func (d *desk) end(calls ...call) {
	d.seq++
	b := worker.Batch{Ingress: "test", Incarnation: 1, Leg: worker.Regular, Seq: d.seq}
	for _, c := range calls {
		b.Entries = append(b.Entries, worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: c.lease}, Outcome: worker.Success})
	}
	d.Fold.Apply(&b, d.Fleet.Ask().Now, nil)
}

// sharing is how many calls of a key each worker has in flight; all of them must be
// available.
func (d *desk) sharing(t *testing.T, key string) []int {
	t.Helper()
	counts := make([]int, d.Pool().Available())
	_, _ = d.Pool().Peek(&worker.Ask{Now: d.Fleet.Ask().Now}, func(v *worker.View) int {
		for i := range counts {
			counts[i] = v.Sharing(i, keyed(d.Fleet, key).Ask.Key)
		}
		return -1
	})
	return counts
}

// value is that of a metric without labels, or of the one series with a label.
func value(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s of %q", name, label)
	return 0
}

const (
	entriesMetric = "smg_manual_policy_cache_entries"
	pinMetric     = "smg_manual_policy_branch_total"
	sourceMetric  = "smg_routing_key_source_total"
)

func wantEntries(t *testing.T, reg *prometheus.Registry, want int) {
	t.Helper()
	if got := value(t, reg, entriesMetric, ""); got != float64(want) {
		t.Errorf("%v keys are remembered, want %d", got, want)
	}
}

// wantCounts compares a counter's series.
func wantCounts(t *testing.T, reg *prometheus.Registry, metric string, want map[string]float64) {
	t.Helper()
	got := map[string]float64{}
	for label := range want {
		got[label] = value(t, reg, metric, label)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", metric, diff)
	}
}

// by is a request of a conversation that its body names.
func by(f *policytest.Fleet, rid string, header string) *policy.Request {
	req := keyed(f, header)
	req.Keys.RID = worker.HashKey(rid)
	req.Ask.Key = worker.Scoped(policytest.Model, req.Keys.Counted())
	return req
}

// at is a request at another time.
func at(req *policy.Request, after time.Duration) *policy.Request {
	req.Ask.Now = req.Ask.Now.Add(after)
	return req
}

// scripted is a policy that takes the workers that the test says, one after the
// other, the last one for ever; -1 is nobody.
type scripted struct{ workers []int }

func (s *scripted) Pick(req *policy.Request, pool *worker.Pool) (policy.Decision, error) {
	taken, err := pool.Take(&req.Ask, func(v *worker.View) int {
		next := s.workers[0]
		if len(s.workers) > 1 {
			s.workers = s.workers[1:]
		}
		if next < 0 {
			return -1
		}
		return v.Slot(next)
	})
	return policy.Decision{Taken: taken, Branch: "scripted"}, err
}
