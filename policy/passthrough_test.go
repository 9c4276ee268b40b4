package policy_test

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

func passesToOne(t *testing.T) {
	logger, lines := logLines(slog.LevelInfo)
	p := newPolicyWith(t, policy.Passthrough, policy.Deps{Logger: logger})
	wantPicks(t, p, policytest.NewFleet(t, 1), make([]int, 10)...)
	if got := lines(t); len(got) != 0 {
		t.Errorf("logged about one worker: %v", got)
	}
}

func passesToFirst(t *testing.T) {
	logger, lines := logLines(slog.LevelInfo)
	deps := policy.Deps{Logger: logger, Warned: new(atomic.Bool)}
	f := policytest.NewFleet(t, 2)
	// Another instance in the same process does not warn again.
	for range 2 {
		wantPicks(t, newPolicyWith(t, policy.Passthrough, deps), f, make([]int, 10)...)
	}
	want := []map[string]any{{
		"level": "WARN", "worker_count": 2.0, "model_id": policytest.Model,
		"msg": "passthrough sends every request to the first available worker; choose another policy to use them all",
	}}
	if diff := cmp.Diff(want, lines(t)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func passesToNext(t *testing.T) {
	f, p := policytest.NewFleet(t, 2), newPolicy(t, policy.Passthrough)
	wantPicks(t, p, f, 0)
	f.Down(0)
	wantPicks(t, p, f, 1, 1)
	f.Up(0)
	wantPicks(t, p, f, 0)
}

func passesToNone(t *testing.T) {
	f, p := policytest.NewFleet(t, 2), newPolicy(t, policy.Passthrough)
	f.Down(0, 1)
	wantNobody(t, p, f, plain(f), worker.ErrUnavailable)
	pool := f.Pool()
	f.Remove(0)
	f.Remove(1)
	if _, err := p.Pick(plain(f), pool); err == nil {
		t.Error("an empty pool yielded a worker")
	}
}

// TestPassthroughReadsNothing is why no load is polled and nothing subscribed for it.
func TestPassthroughReadsNothing(t *testing.T) {
	want := map[string]policy.Inputs{
		policy.ConsistentHashing: policy.ReadsKey | policy.ReadsImplicitKey,
		policy.PrefixHash:        policy.ReadsKey | policy.ReadsTokens | policy.ReadsText,
		policy.Bucket:            policy.ReadsSize | policy.NeedsText,
		policy.Manual:            policy.ReadsKey | policy.ReadsPinnedKey,
		policy.CacheAware:        policy.ReadsTokens | policy.ReadsText | policy.NeedsText,
	}
	for _, name := range policy.Names() {
		if got := policy.Reads(newPolicy(t, name)); got != want[name] {
			t.Errorf("%s reads %v, want %v", name, got, want[name])
		}
	}
	if got := (policy.ReadsKey | policy.ReadsText).String(); got != "key+text" {
		t.Errorf("String = %q", got)
	}
}
