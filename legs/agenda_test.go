package legs

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus/bustest"
	"smg/policy"
	"smg/worker"
)

// gate is a prober that answers when it is opened.
type gate chan struct{}

func (g gate) Health(ctx context.Context, _ *worker.Spec, _ string) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unstarted is a service with n workers of which it is to keep all. Nothing of it runs
// by itself.
func unstarted(t *testing.T, n int, p Prober, now func() time.Time) *Service {
	t.Helper()
	cfg := Config{
		Cluster: testCluster(t), Replica: 7, Policy: policy.DefaultConfig(), Keeper: worker.DefaultKeeperConfig(),
		Loads: DefaultLoadConfig(), Endpoint: "/health",
	}
	s, err := New(cfg, Deps{
		Bus: bustest.Start(t), Prober: p, Loads: func(*worker.Spec) LoadSource { return nil },
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.ranking.Apply(worker.ReplicaBeat{Replica: 7, Ready: true}, now())
	specs := make([]*worker.Spec, n)
	for i := range specs {
		specs[i] = spec(i, "m")
	}
	s.add(specs...)
	return s
}

// TestProbesFollowAtOnce: those that found no free slot go when there is one, and not
// in the next round of the loop: that would be 512 a second.
func TestProbesFollowAtOnce(t *testing.T) {
	g := make(gate)
	s := unstarted(t, maxProbes+1, g, time.Now)
	<-s.poke // of the workers that came
	var probing sync.WaitGroup
	defer probing.Wait()
	defer close(g)
	s.probeDue(t.Context(), &probing)
	if len(s.probes) != maxProbes {
		t.Fatalf("%d probes run, want %d", len(s.probes), maxProbes)
	}
	g <- struct{}{}
	select {
	case <-s.poke:
	case <-time.After(30 * time.Second):
		t.Fatal("the loop is not told that a slot is free")
	}
	s.probeDue(t.Context(), &probing)
	for _, m := range s.agenda.probes {
		if m == math.MinInt64 {
			t.Fatal("a worker was left out")
		}
	}
}

// TestTicksTouchTheDueOnes: workers at rest are looked at when their records are to be
// repeated, and not in every round.
func TestTicksTouchTheDueOnes(t *testing.T) {
	now := time.Now()
	s := unstarted(t, 3, make(gate), func() time.Time { return now })
	due := func() (n int) {
		for _, m := range s.agenda.ticks {
			if m <= s.agenda.moment(now) {
				n++
			}
		}
		return n
	}
	seq := func() (sum uint64) {
		for _, k := range s.agenda.kept {
			sum += k.Record().Seq
		}
		return sum
	}
	for _, tt := range []struct {
		name   string
		do     func()
		due    int    // before the round
		repeat uint64 // records that are published in it
	}{
		{"all are taken over when they come", func() {}, 0, 0},
		{"a round without news", func() { now = now.Add(tickEvery) }, 0, 0},
		{"records are repeated", func() { now = now.Add(worker.RecordRepeat) }, 3, 3},
		{"another replica says more of one", func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			k := s.agenda.kept[1]
			k.Hear(worker.Record{Worker: k.spec.ID, Term: 9, Keeper: 8, Seq: 4, Status: worker.Ready})
			s.agenda.plan(k)
		}, 1, 0}, // it starts again from 1, instead of 4
		{"one leaves", func() { s.remove(spec(0, "m").ID) }, 0, 0},
		{"another replica comes", func() { s.ranking.Apply(worker.ReplicaBeat{Replica: 8, Ready: true}, now) }, 0, 0},
	} {
		tt.do()
		if got := due(); got != tt.due {
			t.Errorf("%s: %d are due, want %d", tt.name, got, tt.due)
		}
		before := seq()
		s.tick(false)
		if got := seq(); tt.repeat > 0 && got != before+tt.repeat {
			t.Errorf("%s: %d records were published, want %d", tt.name, got-before, tt.repeat)
		}
		if got := due(); got != 0 {
			t.Errorf("%s: %d are due after the round", tt.name, got)
		}
	}
	for _, k := range s.agenda.kept {
		if first := s.first(worker.WorkerKey(k.spec.ID)); k.first != first || k.Active() != first {
			t.Errorf("first %v, kept %v, want %v", k.first, k.Active(), first)
		}
		if s.keepers[k.spec.ID] != k || s.agenda.kept[k.place] != k {
			t.Error("a keeper is not where it says")
		}
	}
}
