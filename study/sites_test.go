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

// TestCompareSites: a block has a row for each site, which is what the site alone
// gives.
func TestCompareSites(t *testing.T) {
	work := mixed(200)
	trial := trialOf(work, io.Discard)
	one, shared := small(3), lossy()
	sites := []Site{{"one", one}, {"shared", shared}}
	blocks, err := trial.CompareSites(t.Context(), sites, []Contender{keyed(), named(policy.Random)})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []Contender{keyed(), named(policy.Random)} {
		for j, s := range sites {
			alone := trialOf(work, io.Discard)
			alone.Site = s.Config
			rows, err := alone.Compare(t.Context(), []Contender{c})
			if err != nil {
				t.Fatal(err)
			}
			rows[0].Name = s.Name
			if diff := cmp.Diff(rows[0], blocks[i].Rows[j]); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", c.Name, s.Name, diff)
			}
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := trial.CompareSites(cancelled, sites, []Contender{keyed()}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestPrintSites(t *testing.T) {
	var b strings.Builder
	err := PrintSites(&b, DefaultMeasure(), []Block{{"p", []Row{
		{"one", []Summary{{Hits: 0.4, P99: 1000 * ms}, {Hits: 0.2, P99: 2000 * ms}}},
		{"other", []Summary{{Hits: 0.2, P99: 1500 * ms, Failed: 1}, {Hits: 0.2, P99: 2000 * ms, Failed: 1}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, line := range strings.Split(strings.TrimSpace(b.String()), "\n")[1:] {
		got = append(got, strings.Fields(line))
	}
	want := [][]string{
		{"p", "one", "0.300", "0.000", "1.500", "0.0", "0.000", "0"},
		{"p", "other", "0.200", "0.75", "(0.50–1.00)", "0.000", "1.750", "1.25", "(1.00–1.50)", "0.0", "0.000", "2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, b.String())
	}
}
