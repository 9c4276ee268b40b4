package worker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestKeeperConfigFor(t *testing.T) {
	fleet := DefaultKeeperConfig()
	tests := []struct {
		name string
		spec Spec
		want func(*KeeperConfig)
	}{
		{"no rules", Spec{}, func(*KeeperConfig) {}},
		{"empty rules", Spec{Health: &HealthRules{}, Breaker: &BreakerRules{}}, func(*KeeperConfig) {}},
		{
			"all",
			Spec{
				Health:  &HealthRules{Timeout: 1, Interval: 2, SuccessThreshold: 3, FailureThreshold: 4, Disabled: new(true)},
				Breaker: &BreakerRules{FailureThreshold: 5, SuccessThreshold: 6, Timeout: 7},
			},
			func(c *KeeperConfig) {
				c.Health = HealthConfig{Timeout: 1, Interval: 2, SuccessThreshold: 3, FailureThreshold: 4, Disabled: true}
				c.Breaker.FailureThreshold, c.Breaker.SuccessThreshold, c.Breaker.Timeout = 5, 6, 7
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := fleet
			tt.want(&want)
			if diff := cmp.Diff(want, fleet.For(&tt.spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeeperGetsOtherRules has rules change while a worker is kept: they hold from now
// on, and what is known stays.
func TestKeeperGetsOtherRules(t *testing.T) {
	now := time.Unix(1000, 0)
	cfg := DefaultKeeperConfig()
	k := NewKeeper(ID{1}, 1, cfg)
	k.Tick(true, now)
	epoch, _ := k.ProbeDue(now)
	k.Probe(epoch, true, now)
	if _, due := k.ProbeDue(now.Add(2 * time.Second)); due {
		t.Fatal("it is probed before the interval")
	}
	often := cfg
	often.Health.Interval, often.Health.FailureThreshold = time.Second, 1
	k.Rule(often)
	now = now.Add(2 * time.Second)
	if _, due := k.ProbeDue(now); !due {
		t.Fatal("the shorter interval does not hold")
	}
	if rec, _ := k.Probe(epoch, false, now); rec.Status != NotReady {
		t.Errorf("status %v after a bad probe, want not ready", rec.Status)
	}
	off := cfg
	off.Health.Disabled = true
	k.Rule(off)
	if rec, publish := k.Tick(true, now); rec.Status != Ready || !publish {
		t.Errorf("status %v without probes, want ready at once", rec.Status)
	}
	fails := Event{Worker: ID{1}, Outcome: Failure}
	for range 9 {
		k.Outcome(fails, now)
	}
	low := cfg
	low.Breaker.FailureThreshold = 2
	k.Rule(low)
	if rec, _ := k.Outcome(fails, now); rec.Breaker != Open {
		t.Errorf("breaker %v after the threshold was lowered, want open", rec.Breaker)
	}
}

// TestDrainingWorkerIsNotChosen holds what a draining spec means: its keeper's word does
// not count.
func TestDrainingWorkerIsNotChosen(t *testing.T) {
	r := NewRegistry(NewFold(), 1)
	s := &Spec{ID: ID{1}, URL: "http://a:1", RegisteredAt: time.Unix(1, 0)}
	r.Put(s)
	r.Install(Record{Worker: s.ID, Seq: 1, Keeper: 1, Status: Ready})
	if c := r.Census(Regular); c.Ready != 1 || r.Pool(Regular, "").Available() != 1 {
		t.Fatalf("before: %+v", c)
	}
	leaving := s.Clone()
	leaving.DrainingSince, leaving.Revision = time.UnixMilli(5), 1
	r.Put(leaving)
	r.Install(Record{Worker: s.ID, Seq: 2, Keeper: 1, Status: Ready}) // its keeper goes on
	if c := r.Census(Regular); c.Ready != 0 || c.Workers != 1 || r.Pool(Regular, "").Available() != 0 || r.Lookup(s.ID).Status() != Draining {
		t.Errorf("after: %+v, %d available, %v", c, r.Pool(Regular, "").Available(), r.Lookup(s.ID).Status())
	}
}
