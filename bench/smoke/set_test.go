package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRouting(t *testing.T) {
	two := []string{"http://a:1", "http://b:2"}
	for _, tt := range []struct {
		name  string
		which kind
		urls  []string
		want  string
	}{
		{name: "gateway", which: gateway, urls: two[:1], want: "--policy passthrough --worker-urls http://a:1"},
		{name: "base", which: base, urls: two[:1], want: "--policy passthrough --worker-urls http://a:1"},
		{name: "single", which: single, urls: two, want: "--policy round_robin --pd-disaggregation --prefill http://a:1 8998 --decode http://b:2"},
		{name: "split", which: split, urls: two, want: "--policy round_robin --pd-disaggregation --prefill http://a:1 8998 --decode http://b:2 --topology split"},
		{name: "base_of_a_pair", which: base, urls: two, want: "--policy round_robin --pd-disaggregation --prefill http://a:1 8998 --decode http://b:2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, strings.Join(routing(tt.which, tt.urls), " ")); diff != "" {
				t.Errorf("routing (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefused: what an older build does not know is not run; everything else that
// keeps a subject from starting is an error.
func TestRefused(t *testing.T) {
	exit := func(code string) error { return exec.Command("sh", "-c", "exit "+code).Run() }
	for _, tt := range []struct {
		name  string
		err   error
		which kind
		want  bool
	}{
		{name: "started", which: split},
		{name: "split_is_unknown", err: fmt.Errorf("%w: unknown flag\n --topology", exit("2")), which: split, want: true},
		{name: "pairs_are_unknown", err: fmt.Errorf("%w: --pd-disaggregation", exit("2")), which: base, want: true},
		{name: "another_flag", err: fmt.Errorf("%w: --policy", exit("2")), which: split},
		{name: "another_status", err: fmt.Errorf("%w: --topology", exit("1")), which: split},
		{name: "another_subject", err: fmt.Errorf("%w: --topology", exit("2")), which: single},
		{name: "did_not_end", err: errors.New("not ready: --topology"), which: split},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said, ok := refused(tt.err, tt.which)
			if ok != tt.want || ok != (said != "") || strings.Contains(said, "\n") {
				t.Errorf("refused(%v) = %q, %v; want %v", tt.err, said, ok, tt.want)
			}
		})
	}
}
