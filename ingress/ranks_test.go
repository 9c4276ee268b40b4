package ingress

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// TestMinimumTokens has requests go to the rank that has least to do.
func TestMinimumTokens(t *testing.T) {
	at := time.Unix(1000, 0)
	reported := func(at time.Time, used ...int64) *worker.Worker {
		w := &worker.Worker{Spec: &worker.Spec{URL: "http://w:1@0", BaseURL: "http://w:1", DPSize: len(used)}, Record: worker.Record{Report: &worker.Report{PolledAt: at}}}
		for i, n := range used {
			w.Record.Report.Ranks = append(w.Record.Report.Ranks, worker.RankUse{Rank: i, Used: n})
		}
		return w
	}
	m := newMinRanks()
	choose := func(w *worker.Worker, costs ...int64) (ranks []int) {
		for _, c := range costs {
			r, ok := m.choose(w, c)
			if !ok {
				r = -1
			}
			ranks = append(ranks, r)
		}
		return ranks
	}
	for _, tt := range []struct {
		name string
		got  []int
		want []int
	}{
		{"nothing is known", append(choose(nil, 1), choose(&worker.Worker{Spec: &worker.Spec{URL: "http://w:1"}}, 1)...), []int{-1, -1}},
		{"a report without ranks", choose(reported(at), 1), []int{-1}},
		{"fewest first, the lowest of several, and costs add up", choose(reported(at, 10, 5, 5), 3, 3, 3, 3, 1), []int{1, 2, 1, 2, 0}},
		{"an older report changes nothing", choose(reported(at.Add(-time.Second), 0, 99, 99), 1), []int{0}},
		{"the next one overwrites", choose(reported(at.Add(time.Second), 100, 50, 60), 1, 20, 1), []int{1, 1, 2}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	for text, want := range map[string]int64{"": 0, "  ": 0, "one": 1, " two\twords\n": 2, "drei Wörter hier": 3} {
		if got := words(text); got != want {
			t.Errorf("%d words in %q, want %d", got, text, want)
		}
	}
	for _, tt := range []struct {
		tokens int64
		text   string
		want   int64
	}{{7, "a b c", 7}, {0, "a b c", 4}, {0, "", 1}} {
		x := &exchange{}
		x.query.inputs.count, x.query.inputs.text = tt.tokens, tt.text
		if got := x.cost(); got != tt.want {
			t.Errorf("cost %d of %d tokens and %q, want %d", got, tt.tokens, tt.text, tt.want)
		}
	}
}
