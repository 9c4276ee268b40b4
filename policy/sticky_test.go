package policy_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// rotating is round_robin without sticky sessions.
func rotating() policy.Config {
	cfg := policy.DefaultConfig()
	cfg.Policy = policy.RoundRobin
	return cfg
}

func stickyOverRotation(t *testing.T) {
	d := newDesk(t, 2, stickyConfig(policy.RoundRobin, policy.AssignDelegate), nil, policy.Deps{})
	d.end(d.want(t, keyed(d.Fleet, "s"), 0, "vacant"))
	for range 5 {
		d.end(d.want(t, keyed(d.Fleet, "s"), 0, "occupied_hit"))
	}
	wantPicks(t, d.policy(), d.Fleet, 1, 0, 1)
	if name, _ := d.For(policytest.Model); name != policy.RoundRobin {
		t.Errorf("the policy is called %s, want %s", name, policy.RoundRobin)
	}
	// What has no key is no decision of sticky sessions.
	wantCounts(t, d.reg, pinMetric, map[string]float64{"vacant": 1, "occupied_hit": 5, "no_routing_id": 0})
	wantCounts(t, d.reg, sourceMetric, map[string]float64{"header": 6, "rid": 0})

	off := newDesk(t, 2, rotating(), nil, policy.Deps{})
	for i := range 4 {
		off.want(t, keyed(off.Fleet, "s"), i%2, "")
	}
}

// turn is a request whose routing-key header names a conversation and a turn, as the
// ingress reads it with sticky sessions (on) and without.
func turn(f *policytest.Fleet, conversation string, n int, on bool) *policy.Request {
	req := plain(f)
	req.Keys.Header = worker.HashKey(fmt.Sprintf("%s_t%d", conversation, n))
	if on {
		req.Keys.Conversation = worker.HashKey(conversation)
	}
	req.Ask.Key = worker.Scoped(policytest.Model, req.Keys.Counted())
	return req
}

func stickyTurns(t *testing.T) {
	on := newDesk(t, 2, stickyConfig(policy.RoundRobin, policy.AssignDelegate), nil, policy.Deps{})
	on.want(t, turn(on.Fleet, "conv", 1, true), 0, "vacant")
	on.want(t, turn(on.Fleet, "conv", 2, true), 0, "occupied_hit")
	off := newDesk(t, 2, rotating(), nil, policy.Deps{})
	off.want(t, turn(off.Fleet, "conv", 1, false), 0, "")
	off.want(t, turn(off.Fleet, "conv", 2, false), 1, "")
	wantEntries(t, off.reg, 0)
}

func stickyRID(t *testing.T) {
	d := newDesk(t, 4, stickyConfig(policy.RoundRobin, policy.AssignRandom), nil, seeded(1))
	first := d.call(t, by(d.Fleet, "conv42", "x"))
	d.end(first)
	for i := range 5 {
		d.end(d.want(t, by(d.Fleet, "conv42", fmt.Sprint("header-", i)), first.worker, "occupied_hit"))
	}
	wantEntries(t, d.reg, 1)
	wantCounts(t, d.reg, sourceMetric, map[string]float64{"rid": 6, "header": 0})
}

// holders is a policy that knows who holds which text.
type holders map[string]int

func (h holders) Pick(req *policy.Request, pool *worker.Pool) (policy.Decision, error) {
	taken, err := pool.Take(&req.Ask, func(v *worker.View) int { return v.Slot(h[req.Text]) })
	return policy.Decision{Taken: taken}, err
}

func stickyDelegates(t *testing.T) {
	d := newDesk(t, 3, stickyConfig(policy.RoundRobin, policy.AssignDelegate), holders{"cached": 1, "unrelated": 2}, policy.Deps{})
	text := func(s string) *policy.Request {
		req := keyed(d.Fleet, "s")
		req.Text = s
		return req
	}
	d.want(t, text("cached"), 1, "vacant")
	d.want(t, text("unrelated"), 1, "occupied_hit")

	cached := newDesk(t, 3, stickyConfig(policy.CacheAware, policy.AssignDelegate), nil, policy.Deps{})
	cached.end(cached.want(t, texted(cached.Fleet, "hello world, this is cached", 0, 2), 1, "expected_wait_fallback"))
	turn := func(s string) *policy.Request {
		req := keyed(cached.Fleet, "s")
		req.Text, req.Chars = s, int64(len(s))
		return req
	}
	cached.end(cached.want(t, turn("hello world, this is cached too"), 1, "vacant"))
	cached.end(cached.want(t, turn("something else"), 1, "occupied_hit"))
}

// placements are the two ways in which a key of sticky sessions gets a worker. Both
// find the idle one.
func placements(t *testing.T, run func(t *testing.T, cfg policy.Config)) {
	t.Helper()
	for _, mode := range []string{policy.AssignDelegate, policy.AssignMinLoad} {
		t.Run(mode, func(t *testing.T) { run(t, stickyConfig(policy.LeastLoad, mode)) })
	}
}

func stickyCapMoves(t *testing.T) {
	placements(t, func(t *testing.T, cfg policy.Config) {
		d := newDesk(t, 2, cfg, nil, seeded(1))
		first := d.wantBranch(t, keyed(d.Fleet, "s"), "vacant")
		other := 1 - first.worker
		second := d.want(t, keyed(d.Fleet, "s"), first.worker, "occupied_hit")
		third := d.want(t, keyed(d.Fleet, "s"), other, "cap_respill")
		fourth := d.want(t, keyed(d.Fleet, "s"), other, "occupied_hit")
		d.end(first, second, third, fourth)
		d.want(t, keyed(d.Fleet, "s"), other, "occupied_hit")
		wantEntries(t, d.reg, 1)
	})
}

func stickyCapEverywhere(t *testing.T) {
	d := newDesk(t, 2, stickyConfig(policy.LeastLoad, policy.AssignDelegate), &scripted{[]int{0, 1, 0, 1, 0}}, policy.Deps{})
	calls := []call{
		d.want(t, keyed(d.Fleet, "s"), 0, "vacant"),
		d.want(t, keyed(d.Fleet, "s"), 0, "occupied_hit"),
		d.want(t, keyed(d.Fleet, "s"), 1, "cap_respill"), // the pin follows
		d.want(t, keyed(d.Fleet, "s"), 1, "occupied_hit"),
		d.want(t, keyed(d.Fleet, "s"), 0, "cap_respill"), // and stays from here on
		d.want(t, keyed(d.Fleet, "s"), 1, "cap_respill"),
		d.want(t, keyed(d.Fleet, "s"), 0, "cap_respill"),
	}
	d.end(calls...)
	d.want(t, keyed(d.Fleet, "s"), 1, "occupied_hit")
}

func stickyIgnoresLoad(t *testing.T) {
	placements(t, func(t *testing.T, cfg policy.Config) {
		d := newDesk(t, 2, cfg, nil, seeded(1))
		pin := d.call(t, keyed(d.Fleet, "s")).worker
		for i := range 10 {
			d.to(t, pin, keyed(d.Fleet, fmt.Sprint("other-", i)))
			d.to(t, pin, plain(d.Fleet))
		}
		d.want(t, keyed(d.Fleet, "s"), pin, "occupied_hit")
	})
}

func stickyAlone(t *testing.T) {
	placements(t, func(t *testing.T, cfg policy.Config) {
		d := newDesk(t, 1, cfg, nil, policy.Deps{})
		calls := []call{
			d.want(t, keyed(d.Fleet, "s"), 0, "vacant"),
			d.want(t, keyed(d.Fleet, "s"), 0, "occupied_hit"),
			d.want(t, keyed(d.Fleet, "s"), 0, "cap_respill"),
			d.want(t, keyed(d.Fleet, "s"), 0, "cap_respill"),
		}
		d.end(calls...)
		d.want(t, keyed(d.Fleet, "s"), 0, "occupied_hit")
	})
}

func stickyOverloaded(t *testing.T) {
	placements(t, func(t *testing.T, cfg policy.Config) {
		d := newDesk(t, 2, cfg, nil, policy.Deps{})
		pin := d.wantBranch(t, keyed(d.Fleet, "s"), "vacant").worker
		d.Overload(pin, true)
		d.want(t, keyed(d.Fleet, "s"), 1-pin, "occupied_miss")
		d.Overload(1-pin, true)
		if got := wantNobody(t, d.policy(), d.Fleet, keyed(d.Fleet, "s"), worker.ErrOverloaded); got.Branch != "no_healthy_workers" {
			t.Errorf("branch %s", got.Branch)
		}
		if got := wantNobody(t, d.policy(), d.Fleet, keyed(d.Fleet, "new"), worker.ErrOverloaded); got.Branch != "no_healthy_workers" {
			t.Errorf("branch %s", got.Branch)
		}
		wantEntries(t, d.reg, 1)
	})
}

// stickyScopes: the pins and the cap of one model say nothing of another (W-12).
func stickyScopes(t *testing.T) {
	d := newDesk(t, 1, stickyConfig(policy.RoundRobin, policy.AssignDelegate), nil, policy.Deps{})
	both := d.Spec(0).Clone()
	both.Models = append(both.Models, worker.Model{ID: "n"})
	d.Registry.Put(both)
	ask := func(model string) string {
		t.Helper()
		req := keyed(d.Fleet, "s")
		req.Ask.Key = worker.Scoped(model, req.Keys.Counted())
		_, p := d.For(model)
		got, err := p.Pick(req, d.Registry.Pool(worker.Regular, model))
		if err != nil {
			t.Fatal(err)
		}
		return got.Branch
	}
	var got []string
	for _, model := range []string{"m", "m", "m", "n", "n", "n"} {
		got = append(got, ask(model))
	}
	want := []string{"vacant", "occupied_hit", "cap_respill", "vacant", "occupied_hit", "cap_respill"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("branches (-want +got):\n%s", diff)
	}
	wantEntries(t, d.reg, 2)

	reg := prometheus.NewRegistry()
	for range 2 { // the books of prefill and decode
		leg := newDesk(t, 2, stickyConfig(policy.RoundRobin, policy.AssignDelegate), nil, policy.Deps{Registerer: reg})
		leg.wantBranch(t, keyed(leg.Fleet, "s"), "vacant")
	}
	wantEntries(t, reg, 2)
}

func stickyReplaced(t *testing.T) {
	placements(t, func(t *testing.T, cfg policy.Config) {
		d := newDesk(t, 4, cfg, nil, seeded(1))
		d.Remove(3)
		where := make([]int, 60)
		for i := range where {
			c := d.call(t, keyed(d.Fleet, fmt.Sprint("key-", i)))
			where[i] = c.worker
			d.end(c)
		}
		d.Remove(1)
		d.Removed(d.ID(1))
		d.Add(3) // the same engine, elsewhere
		moved := 0
		for i := range where {
			req := keyed(d.Fleet, fmt.Sprint("key-", i))
			if where[i] != 1 {
				d.end(d.want(t, req, where[i], "occupied_hit"))
				continue
			}
			moved++
			d.end(d.wantBranch(t, req, "occupied_miss"))
		}
		if moved == 0 {
			t.Error("no key was on the worker that went")
		}
	})
}

// TestStickyFollowsWhereThereIsRoom: a key at its cap moves only to a worker that has
// fewer than two other calls of it.
func TestStickyFollowsWhereThereIsRoom(t *testing.T) {
	placements(t, func(t *testing.T, cfg policy.Config) {
		for held, follows := range []bool{true, true, false, false} {
			d := newDesk(t, 2, cfg, nil, seeded(1))
			calls := []call{d.call(t, keyed(d.Fleet, "s")), d.call(t, keyed(d.Fleet, "s"))}
			pin := calls[0].worker
			for i := range 9 {
				d.to(t, pin, keyed(d.Fleet, fmt.Sprint("other-", i)))
			}
			for range held {
				calls = append(calls, d.to(t, 1-pin, keyed(d.Fleet, "s")))
			}
			calls = append(calls, d.want(t, keyed(d.Fleet, "s"), 1-pin, "cap_respill"))
			d.end(calls...)
			want := pin
			if follows {
				want = 1 - pin
			}
			d.want(t, keyed(d.Fleet, "s"), want, "occupied_hit")
		}
	})
}

// TestStickyReturns: the worker of a key that comes back is the key's again, but not
// where the policy itself has chosen another for the conversation.
func TestStickyReturns(t *testing.T) {
	for mode, back := range map[string]bool{policy.AssignDelegate: false, policy.AssignMinLoad: true, policy.AssignRandom: true} {
		t.Run(mode, func(t *testing.T) {
			d := newDesk(t, 3, stickyConfig(policy.RoundRobin, mode), nil, seeded(1))
			first := d.call(t, keyed(d.Fleet, "s")).worker
			d.Down(first)
			second := d.wantBranch(t, keyed(d.Fleet, "s"), "occupied_miss").worker
			d.Up(first)
			want := second
			if back {
				want = first
			}
			d.want(t, keyed(d.Fleet, "s"), want, "occupied_hit")
			d.Down(want)
			d.want(t, keyed(d.Fleet, "s"), first+second-want, "occupied_hit") // the other is remembered
		})
	}
}

// TestStickyPolicyChoosesNobody: then nobody is chosen, and nothing is pinned.
func TestStickyPolicyChoosesNobody(t *testing.T) {
	d := newDesk(t, 2, stickyConfig(policy.LeastLoad, policy.AssignDelegate), &scripted{[]int{-1, 0, -1}}, policy.Deps{})
	if got := wantNobody(t, d.policy(), d.Fleet, keyed(d.Fleet, "s"), worker.ErrDeclined); got.Branch != "vacant" {
		t.Errorf("branch %s, want vacant", got.Branch)
	}
	wantEntries(t, d.reg, 0)
	calls := []call{d.want(t, keyed(d.Fleet, "s"), 0, "vacant"), d.want(t, keyed(d.Fleet, "s"), 0, "occupied_hit")}
	if got := wantNobody(t, d.policy(), d.Fleet, keyed(d.Fleet, "s"), worker.ErrDeclined); got.Branch != "cap_respill" {
		t.Errorf("branch %s, want cap_respill", got.Branch)
	}
	d.end(calls...)
	d.want(t, keyed(d.Fleet, "s"), 0, "occupied_hit")
}

// TestStickyCapIsExact (W-12): however many calls of a key come at the same time,
// its worker has no more than two of them. A check that looks first and counts later
// lets more through.
func TestStickyCapIsExact(t *testing.T) {
	const calls = 40
	for range 100 {
		d := newDesk(t, 32, stickyConfig(policy.LeastLoad, policy.AssignMinLoad), nil, policy.Deps{})
		pool, p := d.Pool(), d.policy()
		var wg sync.WaitGroup
		var waiting sync.WaitGroup
		waiting.Add(calls)
		// The pool is held until everybody is at its door.
		_, _ = pool.Peek(&worker.Ask{Now: plain(d.Fleet).Ask.Now}, func(*worker.View) int {
			for range calls {
				req := keyed(d.Fleet, "s")
				wg.Go(func() {
					waiting.Done()
					if _, err := p.Pick(req, pool); err != nil {
						t.Errorf("pick: %v", err)
					}
				})
			}
			waiting.Wait()
			return -1
		})
		wg.Wait()
		if got := slices.Max(d.sharing(t, "s")); got != 2 {
			t.Fatalf("a worker has %d calls of the key, want 2: %v", got, d.sharing(t, "s"))
		}
		wantEntries(t, d.reg, 1)
	}
}

// TestStickyFirstCallsTogether: of first calls of a key that come at the same time,
// each placed by the policy, one makes the pin, and it holds.
func TestStickyFirstCallsTogether(t *testing.T) {
	for round := range 50 {
		d := newDesk(t, 8, stickyConfig(policy.Random, policy.AssignDelegate), nil, policy.Deps{})
		pool, p := d.Pool(), d.policy()
		var mu sync.Mutex
		var calls []call
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				req := keyed(d.Fleet, "s")
				got, err := p.Pick(req, pool)
				if err != nil {
					t.Errorf("pick: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, call{req.Ask.Lease, d.Index(got.Worker), got.Branch})
			})
		}
		wg.Wait()
		d.end(calls...)
		pin := d.wantBranch(t, keyed(d.Fleet, "s"), "occupied_hit").worker
		if !slices.ContainsFunc(calls, func(c call) bool { return c.worker == pin }) {
			t.Fatalf("round %d: the pin is %d, chosen were %v", round, pin, calls)
		}
		wantEntries(t, d.reg, 1)
	}
}

// overtaken is a policy whose choice lasts so long that another call of the key is
// chosen, and pinned, before it is counted.
type overtaken struct {
	meanwhile func()
	policy.Policy
}

func (o *overtaken) Pick(req *policy.Request, pool *worker.Pool) (policy.Decision, error) {
	if run := o.meanwhile; run != nil {
		o.meanwhile = nil
		run()
	}
	return o.Policy.Pick(req, pool)
}

// TestStickyOvertaken: a call does not move the pin that another made meanwhile.
func TestStickyOvertaken(t *testing.T) {
	inner := &overtaken{Policy: &scripted{[]int{0, 1}}}
	d := newDesk(t, 2, stickyConfig(policy.LeastLoad, policy.AssignDelegate), inner, policy.Deps{})
	inner.meanwhile = func() { d.want(t, keyed(d.Fleet, "s"), 0, "vacant") }
	d.want(t, keyed(d.Fleet, "s"), 1, "vacant")
	d.want(t, keyed(d.Fleet, "s"), 0, "occupied_hit")
	wantEntries(t, d.reg, 1)
}

// TestStickyContract holds sticky sessions to what all policies promise.
func TestStickyContract(t *testing.T) {
	for _, name := range policy.Names() {
		if name == policy.Manual || name == policy.ConsistentHashing {
			continue
		}
		for _, mode := range []string{policy.AssignDelegate, policy.AssignMinGroup} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				policytest.Run(t, func(t *testing.T) policy.Policy {
					b, err := policy.NewBook(stickyConfig(name, mode), policy.Deps{})
					if err != nil {
						t.Fatal(err)
					}
					_, p := b.For(policytest.Model)
					return p
				}, optionsOf(name))
			})
		}
	}
}

// TestStickyBook: sticky sessions are on top of all policies of a leg but two, with
// one set of pins.
func TestStickyBook(t *testing.T) {
	d := newDesk(t, 2, stickyConfig(policy.RoundRobin, policy.AssignRandom), nil, policy.Deps{})
	d.Added(labelled(0, "random", "a"), labelled(1, "consistent_hashing", "b"), labelled(2, "manual", "c"))
	wantPolicies(t, d.Book, map[string]string{"a": "random", "b": "consistent_hashing", "c": "manual", "m": "round_robin"})
	want := policy.ReadsKey | policy.ReadsPinnedKey | policy.ReadsImplicitKey | policy.ReadsConversationKey
	if got := d.Reads(); got != want {
		t.Errorf("reads %v, want %v", got, want)
	}
	d.Added(labelled(3, "least_load", "l"))
	if !d.ReadsLoads("l") || d.ReadsLoads("a") {
		t.Error("who reads load reports is not told through sticky sessions")
	}
	d.Removed(labelled(3, "", "").ID)
	branches := map[string]string{}
	for _, model := range []string{"a", "b", "c", "m"} {
		_, p := d.For(model)
		branches[model] = decide(t, p, d.Fleet, keyed(d.Fleet, "of "+model)).Branch
	}
	wantBranches := map[string]string{"a": "vacant", "b": "routing_key_hit", "c": "vacant", "m": "vacant"}
	if diff := cmp.Diff(wantBranches, branches); diff != "" {
		t.Errorf("branches (-want +got):\n%s", diff)
	}
	wantEntries(t, d.reg, 3)
	start := plain(d.Fleet).Ask.Now
	d.Tick(start)
	d.Tick(start.Add(4 * time.Hour))
	wantEntries(t, d.reg, 0)

	read := policy.ReadsKey | policy.ReadsImplicitKey
	for _, on := range []bool{false, true} {
		cfg := policy.Config{Policy: policy.ConsistentHashing, Sticky: policy.StickyConfig{On: on, Assignment: policy.AssignDelegate}}
		hashing := newDesk(t, 2, cfg, nil, policy.Deps{})
		if got := hashing.Reads(); got != read {
			t.Errorf("consistent_hashing, sticky sessions %v: reads %v, want %v", on, got, read)
		}
		read |= policy.ReadsConversationKey
	}
}

// remembering is a policy that wants to know everything.
type remembering struct {
	memory
	undone []worker.LeaseID
	ticks  int
}

func (r *remembering) Undo(lease worker.LeaseID) { r.undone = append(r.undone, lease) }
func (r *remembering) Tick(time.Time)            { r.ticks++ }
func (*remembering) Reads() policy.Inputs        { return policy.ReadsText }

// TestStickyPassesOn: the policy underneath hears what it would hear alone.
func TestStickyPassesOn(t *testing.T) {
	inner := &remembering{memory: memory{Policy: &scripted{[]int{0}}}}
	d := newDesk(t, 2, stickyConfig(policy.RoundRobin, policy.AssignDelegate), inner, policy.Deps{})
	c := d.want(t, plain(d.Fleet), 0, "scripted")
	d.Undo(c.lease)
	d.Tick(plain(d.Fleet).Ask.Now)
	d.Added(d.Spec(0))
	d.Removed(d.ID(0))
	type heard struct {
		Forgotten []worker.ID
		Undone    []worker.LeaseID
		Ticks     int
	}
	want := heard{[]worker.ID{d.ID(0)}, []worker.LeaseID{c.lease}, 1}
	if diff := cmp.Diff(want, heard{inner.forgotten, inner.undone, inner.ticks}); diff != "" {
		t.Errorf("what the policy heard (-want +got):\n%s", diff)
	}
	if got, want := d.Reads(), policy.ReadsText|policy.ReadsConversationKey; got != want {
		t.Errorf("reads %v, want %v", got, want)
	}
}

func TestStickyLog(t *testing.T) {
	logger, lines := logLines(slog.LevelDebug)
	d := newDesk(t, 1, stickyConfig(policy.RoundRobin, policy.AssignDelegate), nil, policy.Deps{Logger: logger})
	d.call(t, by(d.Fleet, "conv", "secret"))
	d.Down(0)
	if _, err := d.policy().Pick(keyed(d.Fleet, "secret"), d.Pool()); !errors.Is(err, worker.ErrUnavailable) {
		t.Fatal(err)
	}
	shown := func(key string) string {
		h := worker.HashKey(key)
		return "1:m:" + hex.EncodeToString(h.Sum[:])
	}
	want := []map[string]any{
		{
			"level": "DEBUG", "msg": "sticky routing decision", "policy": "round_robin", "source": "rid", "key": shown("conv"),
			"branch": "vacant", "worker": "http://w1:8000", "model_id": "m",
		},
		{
			"level": "DEBUG", "msg": "sticky routing decision", "policy": "round_robin", "source": "header", "key": shown("secret"),
			"branch": "no_healthy_workers", "worker": "none", "model_id": "m",
		},
	}
	if diff := cmp.Diff(want, lines(t)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// TestStickyCredits: a call that follows its pin is credited as the policy credits.
func TestStickyCredits(t *testing.T) {
	cfg := stickyConfig(policy.LeastLoad, policy.AssignDelegate)
	cfg.LeastLoad.MeanTokens = 4000
	d := newDesk(t, 1, cfg, nil, policy.Deps{})
	for _, branch := range []string{"vacant", "occupied_hit"} {
		if got := decide(t, d.policy(), d.Fleet, keyed(d.Fleet, "s")); got.Tokens != 4000 || got.Branch != branch {
			t.Errorf("%d tokens by %s, want 4000 by %s", got.Tokens, got.Branch, branch)
		}
	}
}
