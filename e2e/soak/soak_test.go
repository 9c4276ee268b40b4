package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSoak is a minute of it: too short for memory to say much, long enough for
// outcomes, and for what is left behind.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/smg", "./cmd/smg-ingress", "./cmd/smg-selector", "./cmd/smg-sim")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"-for", "60s", "-rate", "40", "-topology", "split", "-bin", bin}, &stdout, &stderr); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	t.Log("\n" + stdout.String())
	for _, word := range []string{string(whole), string(failed), string(broken), string(left), "please-drop"} {
		if !strings.Contains(stdout.String(), word) {
			t.Errorf("no request was %s", word)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-for", "1s"}, {"-rate", "0"}, {"-topology", "round"}, {"-mode", "none"}, {"more"}, {"-no-such"}} {
		if _, err := parse(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestGrows(t *testing.T) {
	samples := func(n int, memory func(i int) float64) []sample {
		all := make([]sample, n)
		for i := range all {
			all[i] = sample{at: time.Unix(int64(i)*10, 0), memory: memory(i), live: memory(i) / 10, descr: 50, goroutines: 50}
		}
		return all
	}
	for _, tt := range []struct {
		name string
		all  []sample
		want string
	}{
		{"flat", samples(180, func(int) float64 { return 100 }), ""},
		{"a begin that rises", samples(180, func(i int) float64 { return 100 + 2*float64(min(i, 25)) }), ""},
		{"peaks", samples(180, func(i int) float64 { return 100 + 60*float64((i+1)%20/19) }), ""},
		{"requests that run", samples(180, func(i int) float64 { return 100 + 0.4*float64((i*i)%11)*float64(i)/180 }), ""},
		{"slowly", samples(180, func(i int) float64 { return 100 + 0.04*float64(i) }), "rises by"},
		{"fast", samples(60, func(i int) float64 { return 100 + 5*float64(i) }), "have grown"},
		{"nothing", samples(3, func(int) float64 { return 1 }), "too few"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := grows(tt.all)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
