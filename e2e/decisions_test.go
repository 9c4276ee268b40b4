package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

// trial is a policy, or one of each leg, as it is tried.
type trial struct {
	name     string
	args     []string
	policies map[string]string // by leg
	// sticky says that requests have keys, which are pinned on top of the policy.
	sticky bool
	fleet  func(t *testing.T) fleet
	rules  []simctl.Rule                  // of the engines
	then   func(t *testing.T, w *watched) // what else is tried with the same gateway
}

// message is that of the lines that tell of a policy's decisions, "" if none does.
func (tr *trial) message(policy string) string {
	if tr.sticky {
		return "sticky routing decision"
	}
	return map[string]string{
		"cache_aware": "cache-aware selection", "prefix_hash": "prefix-hash selection", "consistent_hashing": "consistent-hashing selection",
		"power_of_two": "load selection", "least_load": "load selection", "manual": "sticky routing decision", "bucket": "bucket selection",
	}[policy]
}

// counter is the policy by whose name a policy's decisions are counted, "" for none.
func (tr *trial) counter(policy string) string {
	if tr.sticky {
		return "manual"
	}
	if slices.Contains([]string{"cache_aware", "prefix_hash", "consistent_hashing", "manual"}, policy) {
		return policy
	}
	return ""
}

// alone is a trial of a policy that is the only one.
func alone(policy string, workers int, then func(t *testing.T, w *watched), args ...string) trial {
	return trial{
		name: policy, args: append([]string{"--policy", policy}, args...), policies: map[string]string{"regular": policy},
		fleet: func(t *testing.T) fleet { return regular(t, workers) }, then: then,
	}
}

// onLegs is a trial of the policies of two legs.
func onLegs(prefill, decode string, then func(t *testing.T, w *watched), args ...string) trial {
	return trial{
		name: prefill + " and " + decode, args: append([]string{"--prefill-policy", prefill, "--decode-policy", decode}, args...),
		policies: map[string]string{"prefill": prefill, "decode": decode},
		fleet:    func(t *testing.T) fleet { return prefillDecode(t, 2, 2, simtest.Config()) }, then: then,
	}
}

// dark are rules by which engines tell nothing of their load.
var dark = []simctl.Rule{
	{Match: simctl.Match{Path: "/v1/loads"}, Status: 404},
	{Match: simctl.Match{Path: "/metrics"}, Status: 404},
}

// inTheDark is a trial with engines that tell nothing of their load.
func inTheDark(tr trial) trial {
	tr.name, tr.rules = tr.name+" in the dark", dark
	return tr
}

// onePoll has loads asked for at the start and not again.
var onePoll = []string{"--load-monitor-interval", "3600"}

// TestDecisions tries every policy in both topologies: who gets a request is who the
// answer, the log and the metrics say.
func TestDecisions(t *testing.T) {
	for _, tr := range []trial{
		alone("random", 3, nil),
		alone("round_robin", 3, inTurn),
		alone("passthrough", 3, alwaysTheFirst),
		alone("cache_aware", 3, whoHasThePrompt),
		alone("least_load", 5, burstByCredit, onePoll...),
		inTheDark(alone("least_load", 5, burst, onePoll...)),
		alone("power_of_two", 5, burst, append(onePoll, "--power-of-two-load-metric", "least_requests")...),
		alone("prefix_hash", 3, sameHeads, "--prefix-token-count", "8"),
		alone("consistent_hashing", 3, sameKeys),
		alone("manual", 3, failover, "--health-check-interval-secs", "1", "--health-failure-threshold", "1", "--health-success-threshold", "1"),
		onLegs("bucket", "power_of_two", shortAndLong, "--balance-abs-threshold", "1000000", "--bucket-adjust-interval-secs", "3600"),
		onLegs("cache_aware", "manual", nil),
	} {
		t.Run(tr.name, func(t *testing.T) {
			parallel(t)
			inBoth(t, tr.start, func(t *testing.T, w *watched) { tr.run(t, w) })
		})
	}
}

func (tr *trial) start(t *testing.T, topology ...string) *watched {
	t.Helper()
	return startWatched(t, tr.fleet(t), tr.rules, append(topology, tr.args...)...)
}

func (tr *trial) run(t *testing.T, w *watched) {
	t.Helper()
	tr.accounts(t, w)
	w.documented()
	if tr.then != nil {
		tr.then(t, w)
	}
	w.quiet()
}

// mixed is one of many different requests, with a key or without.
func mixed(i int, keyed bool) request {
	text := fmt.Sprintf("%d is the subject of which I want to know all.", i%7)
	r := chatOf(text, "")
	switch i % 4 {
	case 1:
		r = chatOf(text, `,"stream":true`)
	case 2:
		r = request{path: "/v1/completions", body: fmt.Sprintf(`{"model":"sim","prompt":%q,"max_tokens":3}`, text)}
	case 3:
		r = request{path: "/generate", body: fmt.Sprintf(`{"text":%q,"sampling_params":{"max_new_tokens":3}}`, text)}
	}
	if keyed || i%2 == 0 {
		r = r.with("X-SMG-Routing-Key", "user-"+strconv.Itoa(i%5))
	}
	return r
}

// accounts sends requests one after another, and some more at once. Then it holds to
// one another what the answers say, what the engines have received, what the log
// tells and what the metrics count.
func (tr *trial) accounts(t *testing.T, w *watched) {
	t.Helper()
	const oneByOne, atOnce = 24, 12
	answered := map[string]string{}
	for i := range oneByOne {
		id := "one-" + strconv.Itoa(i)
		answered[id], _ = w.asks(id, mixed(i, tr.sticky))
	}
	maps.Copy(answered, w.atOnce("more-", atOnce, w.clients(atOnce), func(i int) request { return mixed(i, tr.sticky) })())
	selections, branches := map[string]int{}, map[string]map[string]int{}
	for leg, policy := range tr.policies {
		selections[leg+" "+policy] = oneByOne + atOnce
		reached := w.reached(leg)
		if leg != "prefill" {
			if diff := cmp.Diff(answered, reached); diff != "" {
				t.Errorf("who answered and who was asked (-answers +engines):\n%s", diff)
			}
		}
		if len(reached) != oneByOne+atOnce {
			t.Errorf("%d requests reached leg %s, want %d", len(reached), leg, oneByOne+atOnce)
		}
		if tr.message(policy) == "" {
			continue
		}
		lines := w.decided(leg, tr.message(policy), oneByOne+atOnce)
		var told, got []string
		for i, d := range lines {
			if d.policy != policy {
				t.Errorf("a line of leg %s names policy %s, want %s", leg, d.policy, policy)
			}
			if by := reached["one-"+strconv.Itoa(i)]; i < oneByOne && d.worker != by {
				t.Errorf("request %d of leg %s went to %s, but the log says %s", i, leg, by, d.worker)
			}
			told = append(told, d.worker)
		}
		for _, by := range reached {
			got = append(got, by)
		}
		if diff := cmp.Diff(tally(told...), tally(got...)); diff != "" {
			t.Errorf("workers of leg %s (-log +engines):\n%s", leg, diff)
		}
		if c := tr.counter(policy); c != "" {
			branches[c] = map[string]int{}
			for _, d := range lines {
				branches[c][d.branch]++
			}
		}
	}
	awaitSame(t, "selections", selections, w.selections)
	for c, want := range branches {
		awaitSame(t, "branches of "+c, want, func() map[string]int { return w.branches(c) })
	}
}

// reachedBy is how many requests each engine of a leg has got.
func (w *watched) reachedBy(leg string) map[string]int {
	w.t.Helper()
	return tally(slices.Collect(maps.Values(w.reached(leg)))...)
}

// even fails the test if counts of n workers differ by more than 1.
func even(t *testing.T, by map[string]int, n int) {
	t.Helper()
	counts := slices.Sorted(maps.Values(by))
	if len(counts) != n || counts[n-1]-counts[0] > 1 {
		t.Errorf("the counts of %d workers differ by more than 1: %v", n, by)
	}
}

func inTurn(t *testing.T, w *watched) { even(t, w.reachedBy("regular"), len(w.engines)) }

func alwaysTheFirst(t *testing.T, w *watched) {
	if by := w.reachedBy("regular"); len(by) != 1 {
		t.Errorf("requests went to %v, want one worker", by)
	}
	if n := w.count(`level=WARN msg="passthrough sends every request to the first available worker`); n != 1 {
		t.Errorf("%d lines say that the other workers get nothing, want one", n)
	}
}

// document is a text of a few hundred characters that begins like no other.
func document(name string) string {
	return name + ": " + strings.Repeat("what "+name+" says of the matter at hand. ", 10)
}

// whoHasThePrompt asks about the same texts again and again: those who have them
// answer, and their caches say that they have. Partitions share nothing.
func whoHasThePrompt(t *testing.T, w *watched) {
	matches := w.branches("cache_aware")["tree_match"]
	home := map[string]string{}
	for i, c := range []struct{ text, salt, want string }{
		{"Aristotle", "", "expected_wait_fallback"},
		{"Aristotle", "", "tree_match"},
		{"Boethius", "", "expected_wait_fallback"},
		{"Aristotle", "", "tree_match"},
		{"Boethius", "", "tree_match"},
		{"Aristotle", "mine", "expected_wait_fallback"},
		{"Aristotle", "mine", "tree_match"},
		{"Aristotle", "yours", "expected_wait_fallback"},
		{"Aristotle", "mine", "tree_match"},
		{"Aristotle", "", "tree_match"},
		{"Aristotle", "yours", "tree_match"},
	} {
		fields := ""
		if c.salt != "" {
			fields = fmt.Sprintf(`,"cache_salt":%q`, c.salt)
		}
		by, body := w.asks(fmt.Sprintf("prompt-%d", i), chatOf(document(c.text), fields))
		d := w.decided("regular", "cache-aware selection", 1)[0]
		if d.branch != c.want || d.worker != by {
			t.Errorf("prompt %d (%s, salt %q): %s chose %s, want %s to choose %s", i, c.text, c.salt, d.branch, d.worker, c.want, by)
		}
		if c.want != "tree_match" {
			home[c.text+c.salt] = by
			continue
		}
		matches++
		if by != home[c.text+c.salt] {
			t.Errorf("prompt %d (%s, salt %q) went to %s, want %s", i, c.text, c.salt, by, home[c.text+c.salt])
		}
		if strings.Contains(body, `"cached_tokens":0`) || !strings.Contains(body, `"cached_tokens":`) {
			t.Errorf("prompt %d (%s, salt %q): the engine has not had it: %s", i, c.text, c.salt, body)
		}
	}
	if got := w.branches("cache_aware")["tree_match"]; got != matches {
		t.Errorf("%d matches are counted, want %d", got, matches)
	}
}

// sameHeads has prompts that begin alike go to one worker, whatever follows.
func sameHeads(t *testing.T, w *watched) {
	used := map[string]bool{}
	for head := range 16 {
		first := ""
		for tail := range 3 {
			text := fmt.Sprintf("%02d is the head of a text, which is longer than what is hashed of it; tail %d", head, tail)
			by, _ := w.asks(fmt.Sprintf("head-%d-%d", head, tail), chatOf(text, ""))
			if first == "" {
				first = by
			}
			d := w.decided("regular", "prefix-hash selection", 1)[0]
			if by != first || d.worker != by || d.branch != "ring_hit" {
				t.Errorf("head %d, tail %d: %s chose %s, and %s answered; want %s", head, tail, d.branch, d.worker, by, first)
			}
		}
		used[first] = true
	}
	if len(used) < 2 {
		t.Error("all heads went to one worker")
	}
}

// sameKeys has requests of a key go to one worker, and those for a worker to that one.
func sameKeys(t *testing.T, w *watched) {
	used := map[string]bool{}
	for key := range 16 {
		r := chatOf("Who is it?", "").with("X-SMG-Routing-Key", fmt.Sprintf("key-%d", key))
		first, _ := w.asks(fmt.Sprintf("key-%d", key), r)
		if again, _ := w.asks(fmt.Sprintf("key-%d-again", key), r); again != first {
			t.Errorf("key %d went to %s, then to %s", key, first, again)
		}
		used[first] = true
	}
	if len(used) < 2 {
		t.Error("all keys went to one worker")
	}
	for i, url := range w.engines {
		if by, _ := w.asks(fmt.Sprintf("target-%d", i), chatOf("Who is it?", "").with("X-SMG-Target-Worker", strconv.Itoa(i))); by != url {
			t.Errorf("target %d is %s, want %s", i, by, url)
		}
	}
}

// failover takes the worker of a key away, and gives it back.
func failover(t *testing.T, w *watched) {
	asked := 0
	ask := func() string {
		t.Helper()
		asked++
		by, _ := w.asks(fmt.Sprintf("pinned-%d", asked), chatOf(fmt.Sprintf("Turn %d.", asked), "").with("X-SMG-Routing-Key", "pinned"))
		return by
	}
	stays := func(want, when string) {
		t.Helper()
		for range 4 {
			if by := ask(); by != want {
				t.Errorf("%s the key went to %s, want %s", when, by, want)
			}
		}
	}
	first := ask()
	stays(first, "at first")
	i := slices.Index(w.engines, first)
	if i < 0 {
		t.Fatalf("%s is no worker", first)
	}
	engine, healthy := w.workers["regular"][i], fmt.Sprintf(`{worker=%q}`, first)
	await(t, "nobody to be connected any more", func() bool {
		if err := engine.SetFaults(t.Context(), simctl.Faults{Record: true, Refuse: true}); err != nil {
			t.Fatal(err)
		}
		l, err := engine.Ledger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l.Connections == 0
	})
	second := ask()
	if second == first {
		t.Fatalf("%s answers and is not there", first)
	}
	stays(second, "while its worker fails")
	await(t, "the worker to be lost", func() bool { return gauges(t, w.metrics, "smg_worker_health")[healthy] == 0 })
	stays(second, "once its worker is lost")
	w.rules(t)
	await(t, "the worker to be back", func() bool { return gauges(t, w.metrics, "smg_worker_health")[healthy] == 1 })
	await(t, "the key to be back", func() bool { return ask() == first })
	stays(first, "once its worker is back")
	if b := w.branches("manual"); b["occupied_miss"] != 1 {
		t.Errorf("branches %v, want one occupied_miss", b)
	}
}

// shortAndLong has prompts of different lengths go to different prefill workers.
func shortAndLong(t *testing.T, w *watched) {
	w.decided("prefill", "bucket selection", 0)
	by := map[string][]string{}
	for i, text := range []string{"short", "long", "long", "short", "short", "long"} {
		n := map[string]int{"short": 10, "long": 3000}[text]
		id := fmt.Sprintf("%s-%d", text, i)
		w.asks(id, chatOf(strings.Repeat("x ", n), ""))
		d := w.decided("prefill", "bucket selection", 1)[0]
		if at := w.reached("prefill")[id]; d.worker != at || d.branch != "range" {
			t.Errorf("prompt %s: %s chose %s, and %s got it", id, d.branch, d.worker, at)
		}
		by[text] = append(by[text], d.worker)
	}
	short, long := slices.Compact(by["short"]), slices.Compact(by["long"])
	if len(short) != 1 || len(long) != 1 || short[0] == long[0] {
		t.Errorf("short prompts went to %v, long ones to %v", short, long)
	}
}
