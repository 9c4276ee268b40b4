package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
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
