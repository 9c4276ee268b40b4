package policy_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

const branchMetric = "smg_consistent_hashing_policy_branch_total"

// wantNobody asserts why nobody was chosen, and returns the decision.
func wantNobody(t *testing.T, p policy.Policy, f *policytest.Fleet, req *policy.Request, want error) policy.Decision {
	t.Helper()
	d, err := p.Pick(req, f.Pool())
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if d.Worker != nil {
		t.Errorf("got worker %d along with an error", f.Index(d.Worker))
	}
	return d
}

// wantChoice asserts a worker and the branch that led to it.
func wantChoice(t *testing.T, p policy.Policy, f *policytest.Fleet, req *policy.Request, want int, branch string) {
	t.Helper()
	d := decide(t, p, f, req)
	if got := f.Index(d.Worker); got != want || d.Branch != branch {
		t.Errorf("worker %d by %s, want %d by %s", got, d.Branch, want, branch)
	}
}

func targeted(f *policytest.Fleet, target string) *policy.Request {
	return &policy.Request{Ask: f.Ask(), Target: target}
}

func hashing(t *testing.T) policy.Policy {
	return newPolicyWith(t, policy.ConsistentHashing, seeded(3))
}

func hashNone(t *testing.T) {
	f, p := policytest.NewFleet(t, 2), hashing(t)
	f.Down(0, 1)
	pool := f.Pool()
	for _, req := range []*policy.Request{plain(f), keyed(f, "a"), targeted(f, "0"), targeted(f, "x")} {
		if d := wantNobody(t, p, f, req, worker.ErrUnavailable); d.Branch != "no_healthy_workers" {
			t.Errorf("branch %s", d.Branch)
		}
	}
	f.Remove(0)
	f.Remove(1)
	for _, req := range []*policy.Request{plain(f), keyed(f, "a"), targeted(f, "0")} {
		if d, err := p.Pick(req, pool); !errors.Is(err, worker.ErrNoWorkers) || d.Branch != "no_healthy_workers" {
			t.Errorf("empty pool: error %v, branch %s", err, d.Branch)
		}
	}
}

func hashOne(t *testing.T) {
	f, p := policytest.NewFleet(t, 1), hashing(t)
	wantChoice(t, p, f, plain(f), 0, "random_fallback")
	wantChoice(t, p, f, keyed(f, "a"), 0, "routing_key_hit")
	wantChoice(t, p, f, targeted(f, "0"), 0, "target_worker_hit")
}

func hashStable(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	for range 10 {
		wantChoice(t, p, f, keyed(f, "user-123"), 2, "routing_key_hit")
	}
}

func hashVerified(t *testing.T) {
	tests := []struct {
		key         string
		owner, next int
	}{
		{"user-123", 2, 0},
		{"user-0", 1, 0},
		{"user-1", 2, 1},
		{"user-2", 1, 2},
		{"user-3", 2, 0},
		{"session-abc-123", 0, 1},
		{"conv", 1, 2},
		{"a", 1, 0},
		{"clé-café", 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			f, p := policytest.NewFleet(t, 3), hashing(t)
			wantChoice(t, p, f, keyed(f, tt.key), tt.owner, "routing_key_hit")
			wantChoice(t, p, f, keyed(f, tt.key, tt.owner), tt.next, "routing_key_hit")
			f.Down(tt.owner)
			wantChoice(t, p, f, keyed(f, tt.key), tt.next, "routing_key_hit")
		})
	}
}

func hashTarget(t *testing.T) {
	tests := []struct {
		name, target string
		want         int // -1: nobody
	}{
		{"second", "1", 1},
		{"plus sign", "+1", 1},
		{"leading zeros", "001", 1},
		{"past the end", "5", -1},
		{"just past the end", "2", -1},
		{"a word", "abc", -1},
		{"negative", "-1", -1},
		{"plus alone", "+", -1},
		{"two plus signs", "++1", -1},
		{"blank", " 1", -1},
		{"fraction", "1.0", -1},
		{"hexadecimal", "0x1", -1},
		{"underscore", "0_1", -1},
		{"other digits", "١", -1},
		{"longer than 64 bits", "18446744073709551617", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, p := policytest.NewFleet(t, 2), hashing(t)
			if tt.want >= 0 {
				wantChoice(t, p, f, targeted(f, tt.target), tt.want, "target_worker_hit")
				return
			}
			req := keyed(f, "user-123") // no fallback to the key
			req.Target = tt.target
			d := wantNobody(t, p, f, req, worker.ErrDeclined)
			if wantNobody(t, p, f, req, policy.ErrInvalidTarget); d.Branch != "target_worker_miss" {
				t.Errorf("branch %s", d.Branch)
			}
		})
	}
	f, p := policytest.NewFleet(t, 3), hashing(t)
	req := keyed(f, "user-123")
	req.Target = "1"
	wantChoice(t, p, f, req, 1, "target_worker_hit")
}

func hashTargetShifts(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	f.Down(0)
	wantChoice(t, p, f, targeted(f, "0"), 1, "target_worker_hit")
	wantChoice(t, p, f, targeted(f, "1"), 2, "target_worker_hit")
	wantNobody(t, p, f, targeted(f, "2"), policy.ErrInvalidTarget)
}

// hashNoKey: keys that are too long, empty or no text never become a Key.
func hashNoKey(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	if d := decide(t, p, f, plain(f)); d.Branch != "random_fallback" {
		t.Errorf("no key: branch %s", d.Branch)
	}
	long := string(slices.Repeat([]byte("k"), 128))
	first := pick(t, p, f, keyed(f, long))
	for range 5 {
		wantChoice(t, p, f, keyed(f, long), first, "routing_key_hit")
	}
}

func hashOwnerDown(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	wantChoice(t, p, f, keyed(f, "user-123"), 2, "routing_key_hit")
	f.Down(2)
	for range 5 {
		wantChoice(t, p, f, keyed(f, "user-123"), 0, "routing_key_hit")
	}
	f.Up(2)
	wantChoice(t, p, f, keyed(f, "user-123"), 2, "routing_key_hit")
}

// owners is where 100 keys lie.
func owners(t *testing.T, p policy.Policy, f *policytest.Fleet) []int {
	t.Helper()
	at := make([]int, 100)
	for i := range at {
		at[i] = pick(t, p, f, keyed(f, fmt.Sprintf("key-%d", i)))
	}
	return at
}

func hashLostWorker(t *testing.T) {
	f, p := policytest.NewFleet(t, 4), hashing(t)
	before := owners(t, p, f)
	f.Down(1)
	for i, after := range owners(t, p, f) {
		if before[i] != 1 && after != before[i] {
			t.Errorf("key %d moved from %d to %d, although only 1 is down", i, before[i], after)
		}
		if after == 1 {
			t.Errorf("key %d is on the worker that is down", i)
		}
	}
}

func hashSpreads(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	seen := map[int]bool{}
	for range 100 {
		d := decide(t, p, f, plain(f))
		if d.Branch != "random_fallback" {
			t.Fatalf("branch %s", d.Branch)
		}
		seen[f.Index(d.Worker)] = true
	}
	if len(seen) < 2 {
		t.Errorf("100 requests without a key all went to one worker of three")
	}
}

// hashImplicit: an implicit key counts like one from a routing-key header. Which
// header wins is the ingress's part of the case.
func hashImplicit(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	for range 10 {
		req := plain(f)
		req.Keys.Implicit = worker.HashKey("user-123")
		wantChoice(t, p, f, req, 2, "routing_key_hit")
	}
}

// With sticky sessions on, the body's rid, without its turn, comes before the header.
func hashRID(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	req := keyed(f, "user-123")
	if got := pick(t, p, f, req); got != 2 {
		t.Fatalf("key user-123: worker %d, want 2", got)
	}
	req = keyed(f, "user-123")
	req.Keys.RID = worker.HashKey("conv")
	if got := pick(t, p, f, req); got != 1 {
		t.Errorf("rid conv beside the key: worker %d, want 1", got)
	}
}

func hashOverloaded(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	f.Overload(2, true)
	wantChoice(t, p, f, keyed(f, "user-123"), 0, "routing_key_hit")
	wantNobody(t, p, f, targeted(f, "2"), policy.ErrInvalidTarget)
	for range 50 {
		if got := pick(t, p, f, plain(f)); got == 2 {
			t.Fatal("chance chose the overloaded worker")
		}
	}
	f.Overload(2, false)
	wantChoice(t, p, f, keyed(f, "user-123"), 2, "routing_key_hit")
	wantChoice(t, p, f, targeted(f, "2"), 2, "target_worker_hit")
}

func hashUnion(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	all := f.Registry.Pool(worker.Regular, "")
	unionOwner := func(key string) string {
		d, err := p.Pick(keyed(f, key), all)
		if err != nil {
			t.Fatalf("pick: %v", err)
		}
		return d.Worker.Spec.URL
	}
	for i := range 100 {
		key := fmt.Sprintf("user-%d", i)
		if got, want := unionOwner(key), decide(t, p, f, keyed(f, key)).Worker.Spec.URL; got != want {
			t.Errorf("%s: %s without a model, %s with the only one", key, got, want)
		}
	}
	// A worker of another model is on the ring of all, and on no other.
	other := f.Spec(0).Clone()
	other.URL = "http://w4:8000"
	other.ID = worker.IDOf(other.URL)
	other.Models = []worker.Model{{ID: "other"}}
	f.Registry.Install(worker.Record{Worker: other.ID, Status: worker.Ready, Seq: 1})
	f.Registry.Put(other)
	moved := 0
	for i := range 100 {
		key := fmt.Sprintf("user-%d", i)
		if unionOwner(key) == other.URL {
			moved++
		}
		if got := decide(t, p, f, keyed(f, key)).Worker.Spec.URL; got == other.URL {
			t.Errorf("%s: a worker of another model was chosen", key)
		}
	}
	if moved == 0 {
		t.Error("requests without a model never reach the worker of the other model")
	}
}

func hashOneByOne(t *testing.T) {
	f, p := policytest.NewFleet(t, 6), hashing(t)
	owners(t, p, f)
	for _, step := range []struct {
		change  func(int)
		workers []int
	}{{f.Remove, []int{1, 5, 0}}, {f.Add, []int{0, 5, 1}}} {
		for _, i := range step.workers {
			step.change(i)
			if diff := cmp.Diff(owners(t, hashing(t), f), owners(t, p, f)); diff != "" {
				t.Fatalf("owners by a new policy and by the old one (-new +old):\n%s", diff)
			}
		}
	}
	if diff := cmp.Diff(owners(t, hashing(t), policytest.NewFleet(t, 6)), owners(t, p, f)); diff != "" {
		t.Fatalf("owners of a new fleet and of the changed one (-new +old):\n%s", diff)
	}
}

func hashReplicasAgree(t *testing.T) {
	f, g := policytest.NewFleet(t, 5), policytest.NewFleet(t, 0)
	for _, i := range []int{3, 0, 4, 2, 1} {
		s := f.Spec(i).Clone()
		s.RegisteredAt = s.RegisteredAt.AddDate(0, 0, -2*i) // in reverse
		g.Registry.Install(worker.Record{Worker: s.ID, Status: worker.Ready, Seq: 1})
		g.Registry.Put(s)
	}
	p, q := hashing(t), hashing(t)
	for i := range 200 {
		key := fmt.Sprintf("user-%d", i)
		a, b := decide(t, p, f, keyed(f, key)).Worker.Spec.URL, decide(t, q, g, keyed(g, key)).Worker.Spec.URL
		if a != b {
			t.Errorf("%s: one replica says %s, the other %s", key, a, b)
		}
	}
}

// TestTargetIsTheOnlyCandidate shows that a retry of a request with a target may
// come back to it, and that a target whose probes are taken is declined.
func TestTargetIsTheOnlyCandidate(t *testing.T) {
	f, p := policytest.NewFleet(t, 2), hashing(t)
	req := plain(f, 1)
	req.Target = "1"
	wantChoice(t, p, f, req, 1, "target_worker_hit")

	f.Pool().SetFirst(true)
	f.Record(1, func(r *worker.Record) { r.Breaker = worker.HalfOpen })
	for range policytest.Probes {
		wantChoice(t, p, f, targeted(f, "1"), 1, "target_worker_hit")
	}
	_, err := p.Pick(targeted(f, "1"), f.Pool())
	if !errors.Is(err, worker.ErrDeclined) || errors.Is(err, policy.ErrInvalidTarget) {
		t.Errorf("all probes taken: error %v", err)
	}
}

// TestStaleRing replays a membership that changes between the making of the ring
// and the choice.
func TestStaleRing(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), hashing(t)
	pool := f.Pool()
	members := pool.Members()
	f.Remove(2)
	req := keyed(f, "user-123") // worker 2's, then worker 0's
	taken, stale, _ := policy.TakeOn(p, members, req, pool)
	if !stale || taken.Worker != nil || f.Active()[0] != 0 {
		t.Errorf("on the old members: stale %v, worker %d, %v in flight", stale, f.Index(taken.Worker), f.Active())
	}
	for _, m := range []*worker.Members{pool.Members(), nil} {
		taken, stale, err := policy.TakeOn(p, m, req, pool)
		if stale || err != nil || f.Index(taken.Worker) != 0 {
			t.Errorf("stale %v, worker %d, error %v, want worker 0", stale, f.Index(taken.Worker), err)
		}
	}
}

func TestBranchCounters(t *testing.T) {
	reg := prometheus.NewRegistry()
	deps := seeded(1)
	deps.Registerer = reg
	f := policytest.NewFleet(t, 2)
	// Policies of the same process count together.
	p, q := newPolicyWith(t, policy.ConsistentHashing, deps), newPolicyWith(t, policy.ConsistentHashing, deps)
	all := map[string]float64{"target_worker_hit": 0, "target_worker_miss": 0, "routing_key_hit": 0, "random_fallback": 0, "no_healthy_workers": 0}
	if diff := cmp.Diff(all, branchCounts(t, reg)); diff != "" {
		t.Errorf("before the first request (-want +got):\n%s", diff)
	}
	pick(t, p, f, keyed(f, "a"))
	pick(t, q, f, keyed(f, "b"))
	pick(t, p, f, plain(f))
	pick(t, p, f, targeted(f, "0"))
	wantNobody(t, p, f, targeted(f, "7"), worker.ErrDeclined)
	f.Down(0, 1)
	wantNobody(t, p, f, plain(f), worker.ErrUnavailable)
	want := map[string]float64{"target_worker_hit": 1, "target_worker_miss": 1, "routing_key_hit": 2, "random_fallback": 1, "no_healthy_workers": 1}
	if diff := cmp.Diff(want, branchCounts(t, reg)); diff != "" {
		t.Errorf("branches (-want +got):\n%s", diff)
	}

	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: branchMetric, Help: "Something else."}))
	if _, err := policy.New(policy.ConsistentHashing, policy.DefaultConfig(), policy.Deps{Registerer: taken}); err == nil {
		t.Error("a name that means another metric was accepted")
	}
}

func branchCounts(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != branchMetric {
			t.Errorf("unexpected metric %s", family.GetName())
		}
		for _, m := range family.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return got
}

func TestDecisionLine(t *testing.T) {
	f := policytest.NewFleet(t, 2)
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		logger, lines := logLines(level)
		p := newPolicyWith(t, policy.ConsistentHashing, policy.Deps{Logger: logger})
		pick(t, p, f, targeted(f, "1"))
		wantNobody(t, p, f, targeted(f, "9"), worker.ErrDeclined)
		var want []map[string]any
		if level == slog.LevelDebug {
			line := func(branch, chosen string) map[string]any {
				return map[string]any{"level": "DEBUG", "msg": "consistent-hashing selection", "policy": "consistent_hashing", "branch": branch, "worker": chosen, "model_id": policytest.Model}
			}
			want = []map[string]any{line("target_worker_hit", "http://w2:8000"), line("target_worker_miss", "none")}
		}
		if diff := cmp.Diff(want, lines(t)); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", level, diff)
		}
	}
}

// TestRingsOfManyPools goes beyond the number of rings that are kept at hand, with
// memberships that change while keys are placed.
func TestRingsOfManyPools(t *testing.T) {
	p := hashing(t)
	var wg sync.WaitGroup
	for range 20 {
		f := policytest.NewFleet(t, 3)
		pool := f.Pool()
		wg.Go(func() {
			for range 5 {
				f.Remove(0)
				f.Add(0)
				if d, err := p.Pick(keyed(f, "user-123"), pool); err != nil || f.Index(d.Worker) != 2 {
					t.Errorf("worker %d, error %v, want 2", f.Index(d.Worker), err)
				}
			}
		})
	}
	wg.Wait()
}
