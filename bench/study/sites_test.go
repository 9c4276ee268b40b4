package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
)

// TestSites: the table of goal Q6 has every policy on every site, and is the same
// again for the same seed.
func TestSites(t *testing.T) {
	args := []string{"-trace", synthetic(t), "-workers", "4", "-rounds", "1", "-sites"}
	var first, again strings.Builder
	if err := run(t.Context(), args, &first, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), args, &again, io.Discard); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.String(), again.String()); diff != "" {
		t.Errorf("the same study again differs:\n%s", diff)
	}
	for _, name := range []string{"one process", "8 x 3, shared", "8, private"} {
		if got, want := strings.Count(first.String(), name), len(siteLines())+1; got != want {
			t.Errorf("%q is there %d times, want %d, in\n%s", name, got, want, first.String())
		}
	}
	for _, name := range []string{policy.CacheAware, policy.LeastLoad, policy.PowerOfTwo, policy.RoundRobin, policy.Manual} {
		if !strings.Contains(first.String(), name) {
			t.Errorf("no %q in\n%s", name, first.String())
		}
	}
}
