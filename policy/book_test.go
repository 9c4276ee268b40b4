package policy_test

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// labelled is a worker of models whose label asks for a policy; "" is no label.
func labelled(i int, label string, models ...string) *worker.Spec {
	url := fmt.Sprintf("http://w%d:8000", i+1)
	s := &worker.Spec{ID: worker.IDOf(url), URL: url}
	if label != "" {
		s.Labels = map[string]string{"policy": label}
	}
	for _, m := range models {
		s.Models = append(s.Models, worker.Model{ID: m})
	}
	return s
}

func newBook(t *testing.T, name string, deps policy.Deps) *policy.Book {
	t.Helper()
	b, err := policy.NewBook(policy.Config{Policy: name}, deps)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantPolicies compares the names of the models' policies.
func wantPolicies(t *testing.T, b *policy.Book, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for model := range want {
		got[model], _ = b.For(model)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}

func labelDecides(t *testing.T) {
	b := newBook(t, policy.RoundRobin, policy.Deps{})
	b.Added(labelled(0, "consistent_hashing", "a"))
	b.Added(labelled(1, "round_robin", "a"))
	b.Added(labelled(2, "Random", "b"))
	b.Added(labelled(3, "", "c"))
	b.Added(labelled(4, "random", "c"))
	wantPolicies(t, b, map[string]string{"a": "consistent_hashing", "b": "random", "c": "round_robin", "never heard of": "round_robin"})
}

func labelForgotten(t *testing.T) {
	b := newBook(t, policy.RoundRobin, policy.Deps{})
	first, second := labelled(0, "consistent_hashing", "a"), labelled(1, "random", "a")
	b.Added(first, second)
	b.Removed(first.ID)
	wantPolicies(t, b, map[string]string{"a": "consistent_hashing"})
	b.Removed(second.ID)
	wantPolicies(t, b, map[string]string{"a": "round_robin"})
	b.Removed(second.ID)
	b.Added(second)
	wantPolicies(t, b, map[string]string{"a": "random"})
}

func labelUnknown(t *testing.T) {
	logger, lines := logLines(slog.LevelInfo)
	b := newBook(t, policy.Random, policy.Deps{Logger: logger})
	b.Added(labelled(0, "nonsense", "a"))
	wantPolicies(t, b, map[string]string{"a": "random", "b": "random"})
	_, fallback := b.For("c")
	if _, p := b.For("a"); p != fallback {
		t.Error("the model of the unknown label has an instance of its own")
	}
	got := lines(t)
	if len(got) != 1 {
		t.Fatalf("%d lines, want a warning for the label: %v", len(got), got)
	}
	for i, want := range []map[string]any{
		{"level": "WARN", "label": "nonsense", "model_id": "a", "policy": "random", "worker": "http://w1:8000"},
	} {
		for k, v := range want {
			if got[i][k] != v {
				t.Errorf("line %d: %s is %v, want %v", i, k, got[i][k], v)
			}
		}
	}
}

func TestBookInstances(t *testing.T) {
	b := newBook(t, policy.RoundRobin, policy.Deps{})
	b.Added(labelled(0, "round_robin", "own"), labelled(1, "", "shared"))
	_, own := b.For("own")
	_, shared := b.For("shared")
	_, fallback := b.For("")
	if own == fallback {
		t.Error("a label that names the default shares the default's instance")
	}
	if shared != fallback {
		t.Error("a model without a label does not share the default's instance")
	}
}

func TestBookOrderWithinOneCall(t *testing.T) {
	early, late := labelled(5, "random", "m"), labelled(1, "consistent_hashing", "m")
	late.RegisteredAt = early.RegisteredAt.Add(1)
	b := newBook(t, policy.RoundRobin, policy.Deps{})
	b.Added(late, early)
	wantPolicies(t, b, map[string]string{"m": "random"})
}

func TestBookReplacedWorker(t *testing.T) {
	b := newBook(t, policy.RoundRobin, policy.Deps{})
	b.Added(labelled(0, "random", "kept", "left"))
	b.Added(labelled(0, "consistent_hashing", "kept", "new"))
	wantPolicies(t, b, map[string]string{"kept": "random", "left": "round_robin", "new": "consistent_hashing"})
	if got, want := b.Reads(), policy.ReadsKey|policy.ReadsImplicitKey; got != want {
		t.Errorf("reads %v, want %v", got, want)
	}
	b.Removed(labelled(0, "").ID)
	wantPolicies(t, b, map[string]string{"kept": "round_robin", "left": "round_robin", "new": "round_robin"})
	if got, want := b.Reads(), policy.ReadsNothing; got != want {
		t.Errorf("reads %v, want %v", got, want)
	}
}

func TestBookWorkerOfUnknownModel(t *testing.T) {
	b := newBook(t, policy.RoundRobin, policy.Deps{})
	b.Added(labelled(0, "random"))
	wantPolicies(t, b, map[string]string{"": "random", "a": "round_robin"})
}

func TestBookRefuses(t *testing.T) {
	if _, err := policy.NewBook(policy.Config{Policy: policy.Bucket}, policy.Deps{}); err == nil {
		t.Error("a book with a policy that is not built")
	}
}

// memory is a policy with state per worker.
type memory struct {
	policy.Policy
	forgotten []worker.ID
}

func (m *memory) Forget(id worker.ID) { m.forgotten = append(m.forgotten, id) }

func TestBookTellsForgetters(t *testing.T) {
	m := &memory{}
	b := policy.NewBookOf("memory", m, policy.Deps{})
	s := labelled(0, "", "m")
	b.Added(s)
	b.Removed(s.ID)
	if !slices.Equal(m.forgotten, []worker.ID{s.ID}) {
		t.Errorf("forgotten: %v, want %v", m.forgotten, s.ID)
	}
}

// TestBookWhileRegistering asks for policies during registrations.
func TestBookWhileRegistering(t *testing.T) {
	b := newBook(t, policy.RoundRobin, policy.Deps{})
	f := policytest.NewFleet(t, 2)
	pool := f.Pool()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for range 64 {
				s := labelled(g, "consistent_hashing", policytest.Model)
				b.Added(s)
				if name, _ := b.For(policytest.Model); name != policy.ConsistentHashing {
					t.Errorf("policy %s while a worker with a label is registered", name)
				}
				_, p := b.For(policytest.Model)
				if _, err := p.Pick(plain(f), pool); err != nil {
					t.Errorf("pick: %v", err)
				}
				b.Removed(s.ID)
			}
		})
	}
	wg.Wait()
	wantPolicies(t, b, map[string]string{policytest.Model: "round_robin"})
}

// With the flags' settings for the policy that they name, and the built-in ones for
// every other.
func labelSettings(t *testing.T) {
	cfg := policy.DefaultConfig()
	cfg.Policy = policy.CacheAware
	cfg.CacheAware.Threshold, cfg.CacheAware.MaxTreeSize = 0.9, 1<<20
	b, err := policy.NewBook(cfg, policy.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	b.Added(labelled(0, "cache_aware", "a"))
	_, own := b.For("a")
	_, fallback := b.For("b")
	if own == fallback {
		t.Error("the label's policy is the default instance, want one of its own")
	}
	if got := policy.CacheSettings(own); math.Abs(got.Threshold-0.9) > 1e-6 || got.MaxTreeSize != 1<<20 {
		t.Errorf("settings %+v, want those of the flags", got)
	}
	cfg.Policy = policy.RoundRobin
	if b, err = policy.NewBook(cfg, policy.Deps{}); err != nil {
		t.Fatal(err)
	}
	b.Added(labelled(0, "cache_aware", "a"))
	_, own = b.For("a")
	if got := policy.CacheSettings(own); got.Threshold != 0.5 || got.MaxTreeSize != 10_000 || got.Balance != (policy.Balance{Abs: 32, Rel: 1.1}) {
		t.Errorf("settings %+v, want the built-in ones", got)
	}
}

// A policy that comes while others are told of time and of lost calls is told too.
func labelRaces(t *testing.T) {
	for round := range 64 {
		b := newBook(t, policy.RoundRobin, policy.Deps{})
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				b.Added(labelled(4*round+g, "cache_aware", fmt.Sprint("m", g)))
				b.Tick(time.Unix(1, 0))
				b.Undo(worker.LeaseID{Incarnation: 1, Plan: 1})
			})
		}
		wg.Wait()
		if got := b.Reads(); !got.Has(policy.ReadsText | policy.ReadsTokens) {
			t.Fatalf("round %d: the book reads %v", round, got)
		}
		b.Tick(time.Unix(2, 0))
		for g := range 4 {
			if _, p := b.For(fmt.Sprint("m", g)); !policy.Ticked(p, time.Unix(2, 0)) {
				t.Fatalf("round %d: the policy of model %d is told of no time", round, g)
			}
		}
	}
}
