package policy_test

import (
	"testing"

	"smg/policy"
)

// readsLoads is P2-2 and PT-5: who reads reports has them polled for it, and nobody
// else has.
func readsLoads(t *testing.T) {
	want := map[string]bool{policy.LeastLoad: true, policy.PowerOfTwo: true, policy.CacheAware: true}
	for _, name := range policy.Names() {
		if got := policy.ReadsLoads(newPolicy(t, name)); got != want[name] {
			t.Errorf("%s reads loads: %v, want %v", name, got, want[name])
		}
	}
}

func TestBookKnowsWhoReadsLoads(t *testing.T) {
	book := func(name string) *policy.Book {
		cfg := policy.DefaultConfig()
		cfg.Policy = name
		b, err := policy.NewBook(cfg, policy.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := book(policy.RoundRobin)
	b.Added(labelled(0, "least_load", "a"), labelled(1, "random", "b"), labelled(2, "", "c"))
	for model, want := range map[string]bool{"a": true, "b": false, "c": false, "": false} {
		if got := b.ReadsLoads(model); got != want {
			t.Errorf("model %q: %v, want %v", model, got, want)
		}
	}
	b.Removed(labelled(0, "", "").ID)
	if b.ReadsLoads("a") {
		t.Error("a model without workers has the default policy, which reads none")
	}
	if b := book(policy.PowerOfTwo); !b.ReadsLoads("") || !b.ReadsLoads("a") {
		t.Error("the default policy reads loads, but the book does not say so")
	}
}
