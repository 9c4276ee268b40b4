package e2e

import (
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
	rules := []simctl.Rule{{Match: simctl.Match{Path: "/v1/chat/completions"}, Hold: true}}
	w.rules(t, append(rules, dark...)...)
	before := len(w.decisions("regular", "load selection"))
	answered := w.atOnce("burst-", requests, requests, func(i int) request {
		await(t, "requests to be chosen for", func() bool { // see clients
			return len(w.decisions("regular", "load selection")) > before+i-w.clients(requests)
		})
		return chatOf("Wait for it.", "")
	})
	held := map[string]int{}
	await(t, "all to be held", func() bool {
		sum := 0
		for _, e := range w.workers["regular"] {
			l, err := e.Ledger(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held[e.URL] = l.Held
			sum += l.Held
		}
		return sum == requests
	})
	even(t, held, len(w.engines))
	for _, gauge := range countsOfCalls {
		awaitSame(t, gauge, held, func() map[string]int { return w.active("regular", gauge) })
	}
	w.rules(t, dark...)
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
