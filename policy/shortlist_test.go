package policy_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// TestShortlistModel holds the list to sorting all scores.
func TestShortlistModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		queued := rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 40).Draw(rt, "queued")
		f := policytest.NewFleet(t, len(queued))
		f.ReportAll(func(i int) worker.Report { return report(1000*queued[i], 1000, 0) })
		p := newLeastLoad(t, nil, policy.Deps{})
		req := plain(f)
		req.Seen = new(policy.Shortlist)
		for range 3 { // the list is used again
			for _, tried := range [][]int{nil, {0}} {
				if len(tried) == len(queued) {
					continue
				}
				req.Ask = f.Ask(tried...)
				req.Ask.Tokens = 0
				order := []int{}
				for i := range queued {
					if !slices.Contains(tried, i) {
						order = append(order, i)
					}
				}
				slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(queued[a], queued[b]) })
				d, err := p.Pick(req, f.Pool())
				if err != nil {
					rt.Fatal(err)
				}
				f.End(req.Ask.Lease, true) // gives its credit back
				var want, got []string
				for _, i := range order[:min(5, len(order))] {
					want = append(want, fmt.Sprintf("%s: %d s", f.Spec(i).URL, queued[i]))
				}
				for _, c := range req.Seen.Best() {
					got = append(got, fmt.Sprintf("%s: %v s", c.Worker.URL, c.Score))
				}
				if diff := gocmp.Diff(want, got); diff != "" {
					rt.Fatalf("list (-want +got):\n%s", diff)
				}
				if req.Seen.Compared != len(order) || req.Seen.Score != float64(queued[order[0]]) {
					rt.Fatalf("%d compared, the best has %v; want %d, %d", req.Seen.Compared, req.Seen.Score, len(order), queued[order[0]])
				}
				if d.Candidates != len(order) {
					rt.Fatalf("%d candidates, want %d", d.Candidates, len(order))
				}
			}
		}
	})
}

// What is known of a worker is as of before the choice, and of one that says nothing
// there is no report.
func TestShortlistKnown(t *testing.T) {
	f := reporting(t, report(4000, 1000, 0), report(0, 1000, 0), report(0, 0, 0))
	f.Silence(2)
	f.Hold(2, 1, 0) // one call: 1,024 tokens behind the best
	credit(f, 1, 500)
	f.Advance(2 * time.Second)
	req := plain(f)
	req.Seen = new(policy.Shortlist)
	d, err := newLeastLoad(t, nil, policy.Deps{}).Pick(req, f.Pool())
	if err != nil {
		t.Fatal(err)
	}
	type known struct {
		Worker  int
		Score   float64
		Active  int
		Credit  int64
		Reports bool
		Age     time.Duration
	}
	want := []known{{1, 0.5, 0, 500, true, 2 * time.Second}, {2, 1.524, 1, 0, false, 0}, {0, 4, 0, 0, true, 2 * time.Second}}
	var got []known
	for _, c := range req.Seen.Best() {
		k := known{slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return f.Spec(i) == c.Worker }), c.Score, c.Active, c.Credit, c.Report != nil, 0}
		if c.Report != nil {
			k.Age = f.Now().Sub(c.Report.PolledAt)
		}
		got = append(got, k)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("known (-want +got):\n%s", diff)
	}
	if d.Active != 0 || d.Credit != 500 || d.Report == nil || d.Candidates != 3 {
		t.Errorf("of the one that was taken: %d in flight, credit %d, report %v, %d candidates; want 0, 500, one, 3", d.Active, d.Credit, d.Report, d.Candidates)
	}
}

// Policies that compare no scores leave the list alone.
func TestShortlistStaysEmpty(t *testing.T) {
	for _, name := range []string{policy.Random, policy.RoundRobin, policy.ConsistentHashing, policy.Manual, policy.PrefixHash} {
		p, err := policy.New(name, policy.DefaultConfig(), policy.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		f := policytest.NewFleet(t, 3)
		req := plain(f)
		req.Seen = new(policy.Shortlist)
		d, err := p.Pick(req, f.Pool())
		if err != nil {
			t.Fatal(err)
		}
		if req.Seen.Compared != 0 || len(req.Seen.Best()) != 0 {
			t.Errorf("%s: %d compared", name, req.Seen.Compared)
		}
		if d.Candidates != 3 {
			t.Errorf("%s: %d candidates, want 3", name, d.Candidates)
		}
	}
}
