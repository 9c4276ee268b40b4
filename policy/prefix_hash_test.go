package policy_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

func newPrefixHash(t *testing.T, change func(*policy.Config), deps policy.Deps) policy.Policy {
	t.Helper()
	cfg := policy.DefaultConfig()
	cfg.Policy = policy.PrefixHash
	if change != nil {
		change(&cfg)
	}
	p, err := policy.New(policy.PrefixHash, cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// counting is a sequence of token ids: n of them, from first on.
func counting(first uint32, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = first + uint32(i)
	}
	return ids
}

func tokened(f *policytest.Fleet, ids []uint32) *policy.Request {
	return &policy.Request{Ask: f.Ask(), TokenIDs: ids, Tokens: int64(len(ids))}
}

func texted(f *policytest.Fleet, text string, tried ...int) *policy.Request {
	return &policy.Request{Ask: f.Ask(tried...), Text: text, Chars: int64(len([]rune(text)))}
}

// reached is the worker, the branch and the boundary of one decision on f.
func reached(t *testing.T, f *policytest.Fleet, boundaries []int, change func(*policy.Config), req *policy.Request) (index int, branch string, level int) {
	t.Helper()
	logger, lines := logLines(slog.LevelDebug)
	p := newPrefixHash(t, func(c *policy.Config) {
		c.Boundaries = boundaries
		if change != nil {
			change(c)
		}
	}, policy.Deps{Logger: logger})
	d := decide(t, p, f, req)
	line := lines(t)[0]
	return f.Index(d.Worker), d.Branch, int(line["level"].(float64))
}

func prefixVectors(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), newPrefixHash(t, nil, policy.Deps{})
	for _, tt := range []struct {
		name string
		req  *policy.Request
		hash string
		want int
	}{
		{"1 2 3", tokened(f, counting(1, 3)), "6bbf7429332bea48", 2},
		{"0 to 4", tokened(f, counting(0, 5)), "37573ad40b4916e8", 0},
		{"0 to 15", tokened(f, counting(0, 16)), "79c2079c74a8ee4d", 0},
		{"0 to 63", tokened(f, counting(0, 64)), "a6dcffc376d6710f", 2},
		{"text", texted(f, "hello world"), "d447b1ea40e6988b", 2},
		{"routing key", keyed(f, "session-42"), "a5f911d74983374e", 1},
	} {
		if got := policy.HeadHash(p, tt.req); got != tt.hash {
			t.Errorf("%s: hash %s, want %s", tt.name, got, tt.hash)
		}
		if got := pick(t, p, f, tt.req); got != tt.want {
			t.Errorf("%s: worker %d, want %d", tt.name, got, tt.want)
		}
	}
}

func prefixSharedHeads(t *testing.T) {
	f := policytest.NewFleet(t, 3)
	hash := func(count int, req *policy.Request) string {
		return policy.HeadHash(newPrefixHash(t, func(c *policy.Config) { c.PrefixHash.TokenCount = count }, policy.Deps{}), req)
	}
	shared := counting(7, 5)
	if a, b := hash(5, tokened(f, append(shared[:5:5], 1, 2, 3))), hash(5, tokened(f, append(shared[:5:5], 9))); a != b {
		t.Error("token lists that share the first 5 differ")
	}
	if a, b := hash(5, tokened(f, counting(7, 8))), hash(5, tokened(f, counting(8, 8))); a == b {
		t.Error("token lists that share nothing are alike")
	}
	if a, b := hash(2, texted(f, "12345678 and this")), hash(2, texted(f, "12345678, or that")); a != b {
		t.Error("texts that share the first 8 characters differ")
	}
	if a, b := hash(2, texted(f, "12345678")), hash(2, texted(f, "12345679")); a == b {
		t.Error("texts that share 7 characters are alike")
	}
	if a, b := hash(1, texted(f, "🌊🌊🌊🌊 one")), hash(1, texted(f, "🌊🌊🌊🌊🌊")); a != b {
		t.Error("texts that share 4 characters of 4 bytes differ")
	}
}

func prefixPrecedence(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), newPrefixHash(t, nil, policy.Deps{})
	req := tokened(f, counting(0, 16))
	req.Text, req.Chars = "hello world", 11
	if got := policy.HeadHash(p, req); got != "79c2079c74a8ee4d" {
		t.Errorf("tokens and text: hash %s, want that of the tokens", got)
	}
	req.Keys.Header = worker.HashKey("session-42")
	if got := policy.HeadHash(p, req); got != "a5f911d74983374e" {
		t.Errorf("key, tokens and text: hash %s, want that of the key", got)
	}
}

func prefixNothing(t *testing.T) {
	f, p := policytest.NewFleet(t, 2), newPrefixHash(t, nil, policy.Deps{})
	f.Hold(0, 1, 0)
	d := decide(t, p, f, &policy.Request{Ask: f.Ask(), TokenIDs: []uint32{}})
	if f.Index(d.Worker) != 1 || d.Branch != "no_routing_key" {
		t.Errorf("worker %d by %s, want 1 by no_routing_key", f.Index(d.Worker), d.Branch)
	}
	// The original sends a keyless burst to the first of equals (W-11).
	seen := map[int]bool{}
	for range 64 {
		f, p := policytest.NewFleet(t, 2), newPrefixHash(t, nil, policy.Deps{})
		seen[pick(t, p, f, plain(f))] = true
	}
	if len(seen) != 2 {
		t.Error("of two idle workers one was never chosen in 64 draws (chance 2^-63)")
	}
}

func prefixThresholds(t *testing.T) {
	for _, tt := range []struct {
		factor   float64
		abs      int64
		total, n int
		ok, not  int
	}{
		{1.25, 0, 100, 4, 31, 32},
		{1.25, 10, 40, 4, 20, 21},
		{1.25, 10, 800, 4, 250, 251},
	} {
		for _, load := range []int{tt.ok, tt.not} {
			f := policytest.NewFleet(t, tt.n)
			p := newPrefixHash(t, func(c *policy.Config) { c.PrefixHash.LoadFactor, c.PrefixHash.BalanceAbs = tt.factor, tt.abs }, policy.Deps{})
			req := texted(f, "hello world")
			owner := pick(t, newPrefixHash(t, nil, policy.Deps{}), policytest.NewFleet(t, tt.n), req)
			f.Hold(owner, load, 0)
			f.Hold((owner+1)%tt.n, tt.total-load, 0)
			d := decide(t, p, f, req)
			want := "ring_hit"
			if load == tt.not {
				want = "load_balance_walk"
			}
			if d.Branch != want {
				t.Errorf("factor %v, abs %d, total %d: %d calls: %s, want %s", tt.factor, tt.abs, tt.total, load, d.Branch, want)
			}
		}
	}
	f, p := policytest.NewFleet(t, 4), newPrefixHash(t, func(c *policy.Config) { c.PrefixHash.LoadFactor, c.PrefixHash.BalanceAbs = 1, 0 }, policy.Deps{})
	if d := decide(t, p, f, texted(f, "hello world")); d.Branch != "ring_hit" {
		t.Errorf("an idle fleet: %s, want ring_hit", d.Branch)
	}
}

func prefixBoundaries(t *testing.T) {
	f := policytest.NewFleet(t, 3)
	boundaries := []int{16, 64}
	at := func(ids []uint32) (int, int) {
		index, _, level := reached(t, policytest.NewFleet(t, 3), boundaries, nil, tokened(f, ids))
		return index, level
	}
	shared := counting(100, 64)
	a, levelA := at(append(shared[:64:64], counting(1, 6)...))
	b, levelB := at(append(shared[:64:64], counting(9000, 36)...))
	if a != b || levelA != 64 || levelB != 64 {
		t.Errorf("70 and 100 tokens that share 64: workers %d and %d, levels %d and %d", a, b, levelA, levelB)
	}
	if _, level := at(shared[:63]); level != 16 {
		t.Errorf("63 tokens: level %d, want 16", level)
	}
	short, level := at(shared[:15])
	plain, _, _ := reached(t, policytest.NewFleet(t, 3), nil, nil, tokened(f, shared[:15]))
	if level != 0 || short != plain {
		t.Errorf("15 tokens: worker %d at level %d, want %d at 0", short, level, plain)
	}
}

func prefixWalks(t *testing.T) {
	boundaries := []int{16, 32}
	strict := func(c *policy.Config) { c.PrefixHash.LoadFactor, c.PrefixHash.BalanceAbs = 1, 0 }
	// A prompt whose two heads have different owners.
	var req *policy.Request
	var deep, shallow int
	for first := uint32(0); ; first++ {
		f := policytest.NewFleet(t, 3)
		ids := counting(1000*first, 40)
		req = tokened(f, ids)
		deep, _, _ = reached(t, f, boundaries, nil, req)
		shallow, _, _ = reached(t, policytest.NewFleet(t, 3), boundaries[:1], nil, tokened(f, ids))
		if deep != shallow {
			break
		}
	}
	f := policytest.NewFleet(t, 3)
	f.Hold(deep, 2, 0)
	if index, branch, level := reached(t, f, boundaries, strict, req); index != shallow || branch != "ring_hit" || level != 16 {
		t.Errorf("the deep owner is busy: worker %d by %s at %d, want %d by ring_hit at 16", index, branch, level, shallow)
	}
	f = policytest.NewFleet(t, 3)
	f.Hold(deep, 2, 0)
	f.Hold(shallow, 2, 0)
	if index, branch, level := reached(t, f, boundaries, strict, req); index != 3-deep-shallow || branch != "load_balance_walk" || level != 0 {
		t.Errorf("both owners are busy: worker %d by %s at %d, want %d by load_balance_walk at 0", index, branch, level, 3-deep-shallow)
	}
	// Everybody left is overloaded: the deep owner after all.
	f = policytest.NewFleet(t, 3)
	f.Hold(deep, 9, 0)
	f.Hold(shallow, 9, 0)
	tried := req.Ask
	req.Ask = f.Ask(3 - deep - shallow)
	if index, branch, level := reached(t, f, boundaries, strict, req); index != deep || branch != "load_balance_walk" || level != 32 {
		t.Errorf("all are busy: worker %d by %s at %d, want %d by load_balance_walk at 32", index, branch, level, deep)
	}
	req.Ask = tried
}

func prefixTurns(t *testing.T) {
	boundaries := []int{2048, 32768}
	f := policytest.NewFleet(t, 3)
	head := counting(1, 2048)
	a, _, levelA := reached(t, policytest.NewFleet(t, 3), boundaries, nil, tokened(f, append(head[:2048:2048], counting(5000, 1000)...)))
	b, _, levelB := reached(t, policytest.NewFleet(t, 3), boundaries, nil, tokened(f, append(head[:2048:2048], counting(90000, 14952)...)))
	if a != b || levelA != 2048 || levelB != 2048 {
		t.Errorf("turns of 3048 and 17000 tokens: workers %d and %d, levels %d and %d", a, b, levelA, levelB)
	}
}

func prefixTextBoundary(t *testing.T) {
	f := policytest.NewFleet(t, 3)
	at := func(text string) (int, int) {
		index, _, level := reached(t, policytest.NewFleet(t, 3), []int{4}, nil, texted(f, text))
		return index, level
	}
	a, levelA := at("sixteen letters. And then some")
	b, levelB := at("sixteen letters. Another ending")
	if a != b || levelA != 4 || levelB != 4 {
		t.Errorf("texts that share 16 characters: workers %d and %d, levels %d and %d", a, b, levelA, levelB)
	}
	if _, level := at("hi there"); level != 0 {
		t.Errorf("8 characters: level %d, want 0", level)
	}
}

func prefixOwnerOverloaded(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), newPrefixHash(t, nil, policy.Deps{})
	owner := pick(t, p, f, texted(f, "hello world"))
	f.Overload(owner, true)
	if got := pick(t, p, f, texted(f, "hello world")); got == owner {
		t.Errorf("got worker %d, which is overloaded", got)
	}
	f.Overload(owner, false)
	if got := pick(t, p, f, texted(f, "hello world")); got != owner {
		t.Errorf("after it recovered: worker %d, want %d", got, owner)
	}
}

func prefixOneAndNone(t *testing.T) {
	reg := prometheus.NewRegistry()
	f, p := policytest.NewFleet(t, 1), newPrefixHash(t, nil, policy.Deps{Registerer: reg})
	for _, text := range []string{"a", "b", strings.Repeat("c", 5000)} {
		pick(t, p, f, texted(f, text))
	}
	f.Down(0)
	wantNobody(t, p, f, texted(f, "a"), worker.ErrUnavailable)
	wantNobody(t, p, f, plain(f), worker.ErrUnavailable)
	want := `
# HELP smg_prefix_hash_policy_branch_total Decisions of the prefix_hash policy by branch.
# TYPE smg_prefix_hash_policy_branch_total counter
smg_prefix_hash_policy_branch_total{branch="fallback_least_load"} 0
smg_prefix_hash_policy_branch_total{branch="load_balance_walk"} 0
smg_prefix_hash_policy_branch_total{branch="no_healthy_workers"} 2
smg_prefix_hash_policy_branch_total{branch="no_routing_key"} 0
smg_prefix_hash_policy_branch_total{branch="ring_hit"} 3
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "smg_prefix_hash_policy_branch_total"); err != nil {
		t.Error(err)
	}
}

// Heads are hashed part by part, which must not show.
func TestHeadsAreThoseOfTheWhole(t *testing.T) {
	f := policytest.NewFleet(t, 3)
	for _, n := range []int{1, 127, 128, 129, 300, 1000} {
		ids := counting(5, 1000)
		whole := policy.HeadHash(newPrefixHash(t, func(c *policy.Config) { c.PrefixHash.TokenCount = n }, policy.Deps{}), tokened(f, ids))
		parts := policy.HeadHash(newPrefixHash(t, func(c *policy.Config) { c.Boundaries = steps(n) }, policy.Deps{}), tokened(f, ids))
		if whole != parts {
			t.Errorf("%d tokens: hash %s whole, %s in parts", n, whole, parts)
		}
		text := strings.Repeat("aé🌊z", 1000)
		whole = policy.HeadHash(newPrefixHash(t, func(c *policy.Config) { c.PrefixHash.TokenCount = n }, policy.Deps{}), texted(f, text))
		parts = policy.HeadHash(newPrefixHash(t, func(c *policy.Config) { c.Boundaries = steps(n) }, policy.Deps{}), texted(f, text))
		if whole != parts {
			t.Errorf("%d tokens of text: hash %s whole, %s in parts", n, whole, parts)
		}
	}
}

// steps are boundaries up to n.
func steps(n int) []int {
	var all []int
	for b := 1; b < n; b = b*3 + 1 {
		all = append(all, b)
	}
	return append(all, n)
}
