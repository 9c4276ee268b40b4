package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// decision is what a line of the log says of a choice.
type decision struct{ leg, policy, branch, worker, score string }

var (
	decisionLine = regexp.MustCompile(`level=DEBUG msg="(cache-aware selection|prefix-hash selection|load selection|consistent-hashing selection|bucket selection|sticky routing decision)" (.*)$`)
	logField     = regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`)
)

// decisions are those of a leg that the log tells until now, in lines with a message.
func (p *process) decisions(leg, message string) (all []decision) {
	for _, line := range p.said() {
		if !strings.Contains(line, message) {
			continue
		}
		m := decisionLine.FindStringSubmatch(line)
		if m == nil || m[1] != message {
			continue
		}
		var d decision
		for _, f := range logField.FindAllStringSubmatch(m[2], -1) {
			switch f[1] {
			case "leg":
				d.leg = f[2]
			case "policy":
				d.policy = f[2]
			case "branch", "rule":
				d.branch = f[2]
			case "worker":
				d.worker = f[2]
			case "score":
				d.score = f[2]
			}
		}
		if d.leg == leg {
			all = append(all, d)
		}
	}
	return all
}

// decided waits for n decisions of a leg beyond those it has returned before.
func (w *watched) decided(leg, message string, n int) []decision {
	w.t.Helper()
	var all []decision
	key := leg + " " + message
	await(w.t, fmt.Sprintf("%d times %q of leg %s", n, message, leg), func() bool {
		all = w.decisions(leg, message)[w.seen[key]:]
		return len(all) >= n
	})
	w.seen[key] += n
	return all[:n]
}

// reached is which engine of a leg each request has come to, by their ids. None may
// come twice.
func (w *watched) reached(leg string) map[string]string {
	w.t.Helper()
	by := map[string]string{}
	for _, e := range w.workers[leg] {
		records, err := e.Records(w.t.Context(), "")
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range records {
			id := r.Header.Get("X-Request-Id")
			if r.Method != http.MethodPost || id == "" {
				continue
			}
			if by[id] != "" {
				w.t.Errorf("request %s came to %s and to %s", id, by[id], e.URL)
			}
			by[id] = e.URL
		}
	}
	return by
}

// selections are the counts of smg_worker_selection_total by type and policy.
func (w *watched) selections() map[string]int {
	w.t.Helper()
	by := map[string]int{}
	for labels, v := range gauges(w.t, w.metrics, "smg_worker_selection_total") {
		by[label(labels, "worker_type")+" "+label(labels, "policy")] += int(v)
	}
	return by
}

// branches are the counts of a policy's branches that are not 0.
func (w *watched) branches(policy string) map[string]int {
	w.t.Helper()
	by := map[string]int{}
	for labels, v := range gauges(w.t, w.metrics, "smg_"+policy+"_policy_branch_total") {
		if v != 0 {
			by[label(labels, "branch")] = int(v)
		}
	}
	return by
}

// active are the values of a gauge by worker, those of a leg's workers that are not 0.
func (w *watched) active(leg, gauge string) map[string]int {
	w.t.Helper()
	by := map[string]int{}
	values := gauges(w.t, w.metrics, gauge)
	for _, e := range w.workers[leg] {
		v, ok := values[fmt.Sprintf(`{worker=%q}`, e.URL)]
		if !ok {
			w.t.Errorf("there is no %s of %s", gauge, e.URL)
		}
		if v != 0 {
			by[e.URL] = int(v)
		}
	}
	return by
}

// countsOfCalls are the gauges that count calls in flight by worker.
var countsOfCalls = []string{"smg_worker_requests_active", "smg_selector_requests_active"}

// quiet waits until nobody counts a call in flight, and no engine has one.
func (w *watched) quiet() {
	w.t.Helper()
	for _, leg := range w.legs() {
		for _, gauge := range append([]string{"smg_worker_routing_keys_active"}, countsOfCalls...) {
			awaitSame(w.t, gauge+" of leg "+leg, map[string]int{}, func() map[string]int { return w.active(leg, gauge) })
		}
		for _, e := range w.workers[leg] {
			ctx, cancel := context.WithTimeout(w.t.Context(), patience)
			if l, err := e.WaitIdle(ctx); err != nil {
				w.t.Errorf("engine %s still holds %+v: %v", e.URL, l, err)
			}
			cancel()
		}
	}
}

// awaitSame waits until a reading is as wanted, and fails the test if it stays
// different.
func awaitSame[T any](t *testing.T, what string, want T, read func() T) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		diff := cmp.Diff(want, read())
		if diff == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// label is the value of a label, of labels as a page of metrics has them.
func label(labels, name string) string {
	_, rest, _ := strings.Cut(labels, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// tally counts how often each value comes.
func tally(values ...string) map[string]int {
	by := map[string]int{}
	for _, v := range values {
		by[v]++
	}
	return by
}
