package policy_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// TestPolicies runs the numbered cases of the specification.
func TestPolicies(t *testing.T) {
	cases := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"RR-1 rotates", rotates},
		{"RR-2 skips who is down", rotatesAroundDown},
		{"RR-3 none and one", rotatesNoneAndOne},
		{"RR-4 two sets in turn", rotatesTwoSets},
		{"RR-5 a returning set continues", rotationContinues},
		{"RR-6 at most 4096 sets", rotationsAreBounded},
		{"RR-7 starts at the first worker", rotationReset},
		{"RR-8 exact from many goroutines", rotatesExactly},
		{"RD-1 none", randomNone},
		{"RD-2 one", randomOne},
		{"RD-3 all are seen", randomSeesAll},
		{"RD-4 one of two down", randomOneDown},
		{"RD-5 chi-square", randomIsUniform},
		{"PT-1 one worker", passesToOne},
		{"PT-2 first of two and one warning", passesToFirst},
		{"PT-3 first down and back", passesToNext},
		{"PT-4 none", passesToNone},
		{"CH-1 none", hashNone},
		{"CH-2 one", hashOne},
		{"CH-3 same key same worker", hashStable},
		{"CH-4 verified owners", hashVerified},
		{"CH-5 target", hashTarget},
		{"CH-6 target counts available workers", hashTargetShifts},
		{"CH-7 no usable key is random", hashNoKey},
		{"CH-8 owner down and back", hashOwnerDown},
		{"CH-9 only the keys of a lost worker move", hashLostWorker},
		{"CH-10 no key spreads", hashSpreads},
		{"CH-11 implicit key", hashImplicit},
		{"CH-12 rid before header", hashRID},
		{"CH-13 overloaded owner", hashOverloaded},
		{"CH-14 no model uses the ring of all", hashUnion},
		{"CH-15 one by one equals at once", hashOneByOne},
		{"CH-16 replicas agree", hashReplicasAgree},
		{"CA-1 none", cacheNone},
		{"CA-2 one", cacheOne},
		{"CA-3 repeats", cacheRepeats},
		{"CA-4 partly", cachePartly},
		{"CA-5 strictly above the threshold", cacheStrict},
		{"CA-6 tokens", cacheTokens},
		{"CA-7 least loaded holder", cacheLeastLoadedHolder},
		{"CA-8 spills", cacheSpills},
		{"CA-9 gate of the flags", cacheGate},
		{"CA-10 gate over four", cacheGateOfFour},
		{"CA-11 gate needs both margins", cacheGateNeedsBoth},
		{"CA-12 a busy stranger", cacheBusyStranger},
		{"CA-13 spill avoids the hot", cacheSpillAvoidsHot},
		{"CA-14 all hot", cacheAllHot},
		{"CA-15 KV pressure", cachePressure},
		{"CA-16 KV pressure is noted", cachePressureIsNoted},
		{"CA-17 overlap decay", cacheDecay},
		{"CA-18 temperature", cacheTemperature},
		{"CA-19 KV events", cacheEvents},
		{"CA-20 no other tie-breaks", cacheNoOtherTieBreaks},
		{"CA-21 forgets a worker", cacheForgets},
		{"CA-22 ties on a miss", cacheMissTies},
		{"CA-23 hash index", cacheHashIndex},
		{"CA-24 deepest head", cacheHashDeepest},
		{"CA-25 nothing to hash", cacheHashNothingToHash},
		{"CA-26 placements expire", cacheHashExpires},
		{"CA-27 turns", cacheHashTurns},
		{"CA-28 sweep", cacheHashSweep},
		{"CA-29 partitions", cachePartitions},
		{"CA-30 eviction", cacheEviction},
		{"BK-1 initial ranges", bucketInitialRanges},
		{"BK-2 first adjustment", func(t *testing.T) { bucketFirstAdjustment(t) }},
		{"BK-3 adjusts", bucketAdjusts},
		{"BK-4 keeps within a factor of two", bucketKeepsWithinFactorOfTwo},
		{"BK-5 one request", bucketOneRequest},
		{"BK-6 balances", bucketBalances},
		{"BK-7 below the margin", bucketBelowMargin},
		{"BK-8 sizes", bucketSizes},
		{"BK-9 no buckets on this leg", bucketWithoutBuckets},
		{"BK-10 owner down W-14", bucketOwnerDown},
		{"BK-11 last range is open", bucketLastRangeIsOpen},
		{"BK-12 one by one W-16", bucketOneByOne},
		{"BK-13 idle W-15", bucketIdle},
		{"BK-14 bimodal W-17", bucketBimodal},
		{"PH-1 verified hashes and owners", prefixVectors},
		{"PH-2 shared heads", prefixSharedHeads},
		{"PH-3 key, tokens, text", prefixPrecedence},
		{"PH-4 nothing to hash W-11", prefixNothing},
		{"PH-5 thresholds", prefixThresholds},
		{"PH-6 boundaries", prefixBoundaries},
		{"PH-7 walks", prefixWalks},
		{"PH-8 turns", prefixTurns},
		{"PH-9 text boundary", prefixTextBoundary},
		{"PH-10 owner overloaded", prefixOwnerOverloaded},
		{"PH-11 one and none", prefixOneAndNone},
		{"EW-1 EW-2 EW-3 EW-4 EW-5 EW-8 EW-10", waitExamples},
		{"EW-6 credit turns the choice", waitCreditTurns},
		{"EW-7 a silent peer", waitSilentPeer},
		{"EW-9 a silent peer against a full cache", waitSilentAgainstFull},
		{"EW-11 levels fill like water", waitWaterFill},
		{"LL-1 none", leastNone},
		{"LL-2 one", leastOne},
		{"LL-3 no reports", leastDark},
		{"LL-4 ties", leastTies},
		{"LL-5 a newcomer", leastNewcomer},
		{"LL-6 twice the queue", leastQueue},
		{"LL-7 three times the speed", leastSpeed},
		{"LL-8 credit turns the choice", waitCreditTurns},
		{"LL-9 depth alone", leastByDepth},
		{"LL-10 tokens before depth", leastTokensBeatDepth},
		{"LL-11 usage", leastByUsage},
		{"LL-12 default throughput", leastDefaultThroughput},
		{"LL-13 cap", leastCap},
		{"LL-14 cap counts what was sent", leastCapCountsSent},
		{"LL-15 cap without reports", leastCapDark},
		{"LL-16 nominal throughput of candidates", leastNominalOfCandidates},
		{"LL-17 two picks two workers", leastSpreads},
		{"LL-18 a report clears credit", leastReportClears},
		{"LL-19 a removed worker's credit", leastForgets},
		{"LL-20 a burst spreads", leastBurst},
		{"P2-1 one", pairOne},
		{"P2-2 PT-5 who has reports polled", readsLoads},
		{"P2-3 expected wait", pairByWait},
		{"P2-4 depth", pairByDepth},
		{"P2-5 usage", pairByUsage},
		{"P2-6 one is silent", pairSilent},
		{"P2-7 both are silent", pairDark},
		{"P2-8 three in the dark", pairDarkThree},
		{"P2-9 credit", pairCredit},
		{"P2-10 twins", pairTwins},
		{"P2-11 a dropped report", pairReportDropped},
		{"P2-12 requests", pairByRequests},
		{"P2-13 least requests", fewestOfAll},
		{"P2-14 a tie of requests", fewestThenWait},
		{"P2-15 equal loads are uniform", pairRequestsUniform},
		{"P2-16 pairs are uniform", pairFrequencies},
		{"MN-1 same key same worker", manualStays},
		{"MN-2 keys spread", manualSpreads},
		{"MN-3 no key", manualNoKey},
		{"MN-4 failover and back", manualFailsOver},
		{"MN-5 two workers are remembered", manualTwoWorkers},
		{"MN-6 new workers move no key", manualNewWorkers},
		{"MN-7 assignment modes", manualModes},
		{"MN-8 legs", manualLegs},
		{"MN-9 idle keys", manualForgets},
		{"MN-10 rid with the override", manualOverride},
		{"MN-11 one new key from many goroutines", manualOnce},
		{"ST-3 on top of round_robin", stickyOverRotation},
		{"ST-4 turns of a conversation", stickyTurns},
		{"ST-5 rid whatever the header", stickyRID},
		{"ST-6 the policy places", stickyDelegates},
		{"ST-7 at the cap the pin follows", stickyCapMoves},
		{"ST-8 all at the cap", stickyCapEverywhere},
		{"ST-9 other calls do not count", stickyIgnoresLoad},
		{"ST-10 one worker", stickyAlone},
		{"ST-11 overloaded pin", stickyOverloaded},
		{"ST-12 models and legs", stickyScopes},
		{"ST-13 worker elsewhere", stickyReplaced},
		{"ST-14 manual with the override", manualOverride},
		{"LB-1 first label decides", labelDecides},
		{"LB-2 forgotten with the last worker", labelForgotten},
		{"LB-3 settings of a label's policy", labelSettings},
		{"LB-4 unknown label", labelUnknown},
		{"LB-5 a label races with time", labelRaces},
	}
	for _, tt := range cases {
		t.Run(tt.name, tt.run)
	}
	for _, name := range policy.Names() {
		t.Run("AV-8 "+name, func(t *testing.T) { overloadedLosesRequests(t, name) })
	}
}

// overloadedLosesRequests vetoes whoever is chosen until nobody is left.
func overloadedLosesRequests(t *testing.T, name string) {
	f, p := policytest.NewFleet(t, 3), newPolicy(t, name)
	vetoed := map[int]bool{}
	for range 3 {
		got := pick(t, p, f, keyed(f, "user-123"))
		if vetoed[got] {
			t.Fatalf("worker %d is overloaded and was chosen", got)
		}
		vetoed[got] = true
		f.Overload(got, true)
	}
	wantNobody(t, p, f, keyed(f, "user-123"), worker.ErrOverloaded)
}

// TestContract holds the policies to what all of them promise.
func TestContract(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			policytest.Run(t, func(t *testing.T) policy.Policy { return newPolicy(t, name) }, optionsOf(name))
		})
	}
}

// optionsOf is how a policy differs under the contract.
func optionsOf(name string) policytest.Options {
	switch name {
	case policy.Bucket:
		return policytest.Options{Leg: worker.Prefill, Allocates: true} // its window grows
	case policy.CacheAware:
		return policytest.Options{Allocates: true} // its memory grows
	}
	return policytest.Options{}
}

func newPolicy(t *testing.T, name string) policy.Policy {
	t.Helper()
	return newPolicyWith(t, name, policy.Deps{})
}

func newPolicyWith(t *testing.T, name string, deps policy.Deps) policy.Policy {
	t.Helper()
	p, err := policy.New(name, policy.DefaultConfig(), deps)
	if err != nil {
		t.Fatalf("making %s: %v", name, err)
	}
	return p
}

// seeded is chance that repeats itself, for one goroutine.
func seeded(seed uint64) policy.Deps {
	return policy.Deps{IntN: rand.New(rand.NewPCG(seed, seed)).IntN}
}

func plain(f *policytest.Fleet, tried ...int) *policy.Request {
	return &policy.Request{Ask: f.Ask(tried...)}
}

func keyed(f *policytest.Fleet, key string, tried ...int) *policy.Request {
	req := plain(f, tried...)
	h := worker.HashKey(key)
	req.Keys = worker.Keys{Header: h, Conversation: h, Pinned: h}
	req.Ask.Key = worker.Scoped(policytest.Model, h.Short)
	return req
}

// decide is what p decides about req.
func decide(t *testing.T, p policy.Policy, f *policytest.Fleet, req *policy.Request) policy.Decision {
	t.Helper()
	d, err := p.Pick(req, f.Pool())
	if err != nil {
		t.Fatalf("pick: %v", err)
	}
	return d
}

// pick is the index of the worker that p chooses for req.
func pick(t *testing.T, p policy.Policy, f *policytest.Fleet, req *policy.Request) int {
	t.Helper()
	return f.Index(decide(t, p, f, req).Worker)
}

// wantPicks compares the workers of successive plain requests.
func wantPicks(t *testing.T, p policy.Policy, f *policytest.Fleet, want ...int) {
	t.Helper()
	got := make([]int, 0, len(want))
	for range want {
		got = append(got, pick(t, p, f, plain(f)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
}

// logLines is a logger and what it has written, one line each.
func logLines(level slog.Level) (*slog.Logger, func(t *testing.T) []map[string]any) {
	var buf bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&buf, &slog.HandlerOptions{Level: level}))
	return logger, func(t *testing.T) []map[string]any {
		t.Helper()
		var lines []map[string]any
		for d := json.NewDecoder(bytes.NewReader(buf.Bytes())); d.More(); {
			var line map[string]any
			if err := d.Decode(&line); err != nil {
				t.Fatalf("log line: %v", err)
			}
			delete(line, "time")
			lines = append(lines, line)
		}
		return lines
	}
}
