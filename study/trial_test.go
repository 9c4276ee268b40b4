package study

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
)

func trialOf(work *Workload, progress io.Writer) *Trial {
	return &Trial{Site: small(3), Work: work, Measure: DefaultMeasure(), Rounds: 2, Progress: progress}
}

func TestCompare(t *testing.T) {
	var progress strings.Builder
	work := mixed(200)
	trial := trialOf(work, &progress)
	rows, err := trial.Compare(t.Context(), []Contender{LeastRequests(), named(policy.Random)})
	if err != nil {
		t.Fatal(err)
	}
	var want []Row
	for _, c := range []Contender{LeastRequests(), named(policy.Random)} {
		row := Row{Name: c.Name}
		for seed := range uint64(2) {
			site := small(3)
			site.Seed += seed
			row.Runs = append(row.Runs, trial.Measure.Summarize(work, mustRun(t, site, work, c)))
		}
		want = append(want, row)
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if n := strings.Count(progress.String(), "\n"); n != 4 {
		t.Errorf("%d lines of progress, want 4:\n%s", n, progress.String())
	}
}

func TestCompareFails(t *testing.T) {
	trial := trialOf(mixed(200), io.Discard)
	if _, err := trial.Compare(t.Context(), []Contender{named("fastest"), named(policy.Random)}); !errors.Is(err, policy.ErrUnknown) {
		t.Errorf("error %v, want that of the contender", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := trial.Compare(cancelled, []Contender{named(policy.Random)}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// TestFlagDefaults: the settings are ones that a command line can have.
func TestFlagDefaults(t *testing.T) {
	for _, name := range policy.Names() {
		c := FlagDefaults()
		c.Policy = name
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
