package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/sim/simctl"
)

// burst sends 64 requests at once, none of which ends before all are there, to
// workers that are equal.
func burst(t *testing.T, w *watched) {
	const requests = 64
	w.rules(t, slices.Insert(slices.Clone(w.usual), 0, simctl.Rule{Match: simctl.Match{Path: "/v1/chat/completions"}, Hold: true})...)
	held := map[string]int{}
	holding := func() (sum int) {
		for _, e := range w.workers["regular"] {
			held[e.URL] = e.Server.Ledger().Held
			sum += held[e.URL]
		}
		return sum
	}
	answered := w.atOnce("burst-", requests, requests, func(i int) request {
		await(t, "requests to have a worker", func() bool { return i < w.clients(requests) || holding() > i-w.clients(requests) })
		return chatOf("Wait for it.", "")
	})
	await(t, "all to be held", func() bool { return holding() == requests })
	even(t, held, len(w.engines))
	for _, gauge := range countsOfCalls {
		awaitSame(t, gauge, held, func() map[string]int { return w.active("regular", gauge) })
	}
	w.rules(t, w.usual...)
	if diff := cmp.Diff(held, tally(slices.Collect(maps.Values(answered()))...)); diff != "" {
		t.Errorf("who held and who answered (-held +answered):\n%s", diff)
	}
	var told []string
	for _, d := range w.decided("regular", "load selection", requests) {
		told = append(told, d.worker)
	}
	if diff := cmp.Diff(held, tally(told...)); diff != "" {
		t.Errorf("who held and who was chosen (-held +log):\n%s", diff)
	}
}

// burstByCredit is burst with workers whose reports say the same, and to whom as much
// was sent since: three times in a row each was chosen once, all by the same score.
func burstByCredit(t *testing.T, w *watched) {
	const rounds = 3
	n, asked := len(w.engines), 0
	var picks []decision
	await(t, "workers with the same credit", func() bool {
		w.asks(fmt.Sprintf("level-%d", asked), chatOf("Hello", ""))
		asked++
		picks = append(picks, w.decided("regular", "load selection", 1)...)
		if len(picks) < rounds*n {
			return false
		}
		for round := range slices.Chunk(picks[len(picks)-rounds*n:], n) {
			workers, scores := map[string]bool{}, map[string]bool{}
			for _, d := range round {
				workers[d.worker], scores[d.score] = true, true
			}
			if len(workers) != n || len(scores) != 1 || scores["0"] {
				return false
			}
		}
		return true
	})
	burst(t, w)
}
