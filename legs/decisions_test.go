package legs

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/policy"
	"smg/policy/policytest"
	"smg/wire"
	"smg/worker"
)

// noted is a decision of a test, by its plan's number.
func (ds *decisions) noted(plan uint64, w *worker.Spec, model string) {
	c := chosen{model: model, policy: policy.Random}
	if w != nil {
		c.Worker = &worker.Worker{Spec: w}
	} else {
		c.err = worker.ErrUnavailable
	}
	ds.note(&wire.Select{Lease: worker.LeaseID{Plan: plan}}, time.UnixMilli(int64(plan)), &c, &policy.Shortlist{})
}

// TestDecisionsModel holds the memory of decisions to a list of them all.
func TestDecisionsModel(t *testing.T) {
	specs := []*worker.Spec{spec(1, ""), spec(2, ""), nil}
	models := []string{"a", "b", ""}
	rapid.Check(t, func(t *rapid.T) {
		type one struct {
			plan  uint64
			url   string
			model string
		}
		var all []one
		s := &Service{keySeed: maphash.MakeSeed()}
		for range rapid.IntRange(0, 3).Draw(t, "rounds") {
			for range rapid.IntRange(0, 700).Draw(t, "more") {
				plan := uint64(len(all) + 1)
				w, model := specs[plan*plan%7%3], models[plan*plan%11%3]
				s.decisions.noted(plan, w, model)
				o := one{plan: plan, model: model}
				if w != nil {
					o.url = w.URL
				}
				all = append(all, o)
			}
			f := DecisionFilter{
				Model: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "model"),
				Limit: rapid.SampledFrom([]int{1, 10, 1000, 5000}).Draw(t, "limit"),
			}
			by := rapid.SampledFrom([]*worker.Spec{nil, specs[0], specs[1]}).Draw(t, "worker")
			if by != nil {
				f.Worker = rapid.SampledFrom([]string{by.URL, by.ID.String()}).Draw(t, "named")
			}
			want := []uint64{}
			for _, o := range slices.Backward(all[max(0, len(all)-1024):]) {
				if len(want) < f.Limit && (f.Model == "" || f.Model == o.model) && (by == nil || by.URL == o.url) {
					want = append(want, o.plan)
				}
			}
			got := []uint64{}
			for _, d := range s.Decisions(f) {
				got = append(got, d.Plan)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%d decisions, %+v (-want +got):\n%s", len(all), f, diff)
			}
		}
	})
}

// Whoever looks meanwhile sees whole decisions, the newest first.
func TestDecisionsWhileNoting(t *testing.T) {
	s := &Service{keySeed: maphash.MakeSeed()}
	specs := []*worker.Spec{spec(0, ""), spec(1, ""), spec(2, "")}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for plan := range uint64(20_000) {
			s.decisions.noted(plan, specs[plan%3], fmt.Sprint(plan%3))
		}
	})
	for range 20 {
		last := uint64(1 << 60)
		for _, d := range s.Decisions(DecisionFilter{Limit: 2000}) {
			if d.Plan >= last {
				t.Fatalf("plan %d comes behind %d", d.Plan, last)
			}
			last = d.Plan
			if want := specs[d.Plan%3].URL; d.Worker.URL != want || d.Model != fmt.Sprint(d.Plan%3) || d.Time.UnixMilli() != int64(d.Plan) {
				t.Fatalf("decision %d is mixed with another: %+v", d.Plan, d)
			}
		}
	}
}

// fleetOf is a service that answers at once, over workers that report.
func fleetOf(tb testing.TB, policyName string, n int) *Service {
	tb.Helper()
	b := start(tb, func(c *Config) { c.Policy.Policy, c.Keeper.Health.Interval = policyName, time.Hour })
	var specs []*worker.Spec
	for i := range n {
		specs = append(specs, spec(i, "m"))
	}
	b.put(tb, specs...)
	b.ready(tb, n)
	return b.Service
}

func TestDecisions(t *testing.T) {
	s := fleetOf(t, policy.LeastLoad, 7)
	pool := s.registry.Pool(worker.Regular, "m")
	at := time.Now()
	for i, w := range s.registry.Workers() {
		if i == 6 {
			continue // says nothing
		}
		rec := w.Record
		rec.Seq += 1000
		rec.Report = &worker.Report{PolledAt: at.Add(-250 * time.Millisecond), GoodFor: time.Hour, Waiting: 2, Queued: int64(1000 * (6 - i)), Throughput: 1000}
		s.registry.Install(rec)
	}
	key := worker.HashKey("user-123")
	ask := &wire.Select{
		Lease: worker.LeaseID{Incarnation: 9, Plan: 4, Leg: worker.Regular}, Model: "m", Keys: worker.Keys{Header: key},
		Skip: []worker.ID{spec(5, "m").ID}, Text: "a secret prompt", Chars: 15, Now: at,
	}
	pick, err := s.Select(ask)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Select(&wire.Select{Lease: worker.LeaseID{Incarnation: 9, Plan: 5}, Model: strings.Repeat("x", 500), Now: at.Add(time.Second)}); !errors.Is(err, worker.ErrNoWorkers) {
		t.Fatalf("a model that nobody serves: %v", err)
	}
	all := s.Decisions(DecisionFilter{Limit: 10})
	if len(all) != 2 {
		t.Fatalf("%d decisions, want 2", len(all))
	}
	failed := Decision{Time: at.Add(time.Second), Leg: "regular", Incarnation: 9, Plan: 5, Model: strings.Repeat("x", 128), Error: worker.ErrNoWorkers.Error()}
	if diff := cmp.Diff(failed, all[0]); diff != "" {
		t.Errorf("the failed one (-want +got):\n%s", diff)
	}
	seen := func(i int, score float64, queued int64) Seen {
		w := spec(i, "m")
		return Seen{URL: w.URL, ID: w.ID.String(), Score: &score, Report: &Report{AgeMS: 250, Waiting: 2, Queued: queued, Throughput: 1000}}
	}
	// The workers' order is that of their addresses. Worker 5 has been tried; worker 6
	// is silent and idle, so that it ties with the best.
	best, silent := seen(4, 2, 2000), Seen{URL: spec(6, "m").URL, ID: spec(6, "m").ID.String(), Score: new(2.0)}
	others := []Seen{silent, seen(3, 3, 3000), seen(2, 4, 4000), seen(1, 5, 5000)}
	if pick.Worker.URL == silent.URL {
		best, others[0] = silent, best
	}
	want := Decision{
		Time: at, Leg: "regular", Incarnation: 9, Plan: 4, Model: "m", Policy: policy.LeastLoad, Worker: &best, Credited: pick.Tokens,
		Candidates: 6, Compared: 6, Others: others, Chars: 15, Skipped: 1,
	}
	if want.Key = all[1].Key; len(want.Key) != 16 || want.Key == fmt.Sprintf("%016x", key.Short) {
		t.Errorf("the key is shown as %q", want.Key)
	}
	if diff := cmp.Diff(want, all[1]); diff != "" {
		t.Errorf("the other (-want +got):\n%s", diff)
	}
	page, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{"secret", "user-123"} {
		if strings.Contains(string(page), never) {
			t.Errorf("%s is shown", never)
		}
	}
	if again := s.Decisions(DecisionFilter{Limit: 10})[1]; again.Key != all[1].Key {
		t.Errorf("the key is shown as %q, then as %q", all[1].Key, again.Key)
	}
	if got := s.Decisions(DecisionFilter{Worker: pick.Worker.ID.String(), Model: pool.Model(), Limit: 10}); len(got) != 1 || got[0].Plan != 4 {
		t.Errorf("by worker and model: %+v, want the one of plan 4", got)
	}
}

// BenchmarkSelect is a whole selection at the service: that of package policy, and
// the note of it.
func BenchmarkSelect(b *testing.B) {
	for _, name := range []string{policy.Random, policy.LeastLoad} {
		b.Run(name, func(b *testing.B) {
			s := fleetOf(b, name, 16)
			ask := &wire.Select{Lease: worker.LeaseID{Incarnation: 1, Leg: worker.Regular}, Model: "m", Chars: 100, Now: time.Now()}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Select(ask); err != nil { // the same lease: it is counted once
					b.Fatal(err)
				}
			}
		})
	}
}

// judged is a decision by score over 16 workers.
func judged(tb testing.TB) (*chosen, *policy.Shortlist) {
	tb.Helper()
	f := policytest.NewFleet(tb, 16)
	f.ReportAll(func(i int) worker.Report { return worker.Report{Queued: int64(100 * i), Throughput: 1000} })
	p, err := policy.New(policy.LeastLoad, policy.DefaultConfig(), policy.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	seen := new(policy.Shortlist)
	d, err := p.Pick(&policy.Request{Ask: f.Ask(), Seen: seen}, f.Pool())
	if err != nil {
		tb.Fatal(err)
	}
	return &chosen{Decision: d, model: "m", policy: policy.LeastLoad, key: 7}, seen
}

func TestNoteAllocatesNothing(t *testing.T) {
	c, seen := judged(t)
	ds, ask, now := new(decisions), &wire.Select{Lease: worker.LeaseID{Incarnation: 1}}, time.Now()
	if n := testing.AllocsPerRun(2000, func() { ds.note(ask, now, c, seen) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// BenchmarkNote is what the note alone costs.
func BenchmarkNote(b *testing.B) {
	c, seen := judged(b)
	ds, ask, now := new(decisions), &wire.Select{Lease: worker.LeaseID{Incarnation: 1}, Chars: 100}, time.Now()
	for _, list := range []*policy.Shortlist{{}, seen} {
		b.Run(fmt.Sprintf("compared=%d", list.Compared), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ds.note(ask, now, c, list)
			}
		})
	}
}
