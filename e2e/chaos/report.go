package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"
)

// verdict is why a call failed.
type verdict int

const (
	unexplained verdict = iota
	deadEngine
	deadIngress
)

// explain says why a call failed.
func (t *runTrial) explain(c *call) verdict {
	for _, r := range t.rounds {
		for _, i := range r.incidents {
			switch {
			case i.ingressDead(c):
				return deadIngress
			case i.engineDead(c):
				return deadEngine
			}
		}
	}
	return unexplained
}

// tally is what faults of a kind have done.
type tally struct {
	rounds          int
	calls, degraded int64
	slowest, healed time.Duration // the most
}

func (a *tally) add(r *round) {
	a.rounds++
	a.calls += r.calls
	a.degraded += r.degraded
	a.slowest, a.healed = max(a.slowest, r.slowest), max(a.healed, r.healed)
}

// report prints what became of the run. It fails if anything was not as promised.
func (t *runTrial) report(w io.Writer) error {
	if t.load == nil {
		return nil // it never began
	}
	var lines [kinds + 1]tally
	var faults []error
	for n, r := range t.rounds {
		line := kinds // two at a time
		if len(r.incidents) == 1 {
			line = r.incidents[0].kind
		}
		lines[line].add(&r)
		if r.err != nil {
			faults = append(faults, fmt.Errorf("round %d, %s: %w", n+1, names(r.incidents), r.err))
		}
	}
	var failed [deadIngress + 1]int
	for _, c := range t.load.failures() {
		v := t.explain(&c)
		failed[v]++
		if v == unexplained {
			faults = append(faults, fmt.Errorf("a call to %s that began %.1f s and ended %.1f s after the start failed: %w",
				c.ingress.name, c.began.Sub(t.began).Seconds(), c.ended.Sub(t.began).Seconds(), c.err))
		}
	}
	fmt.Fprintf(w, "seed %d, %d rounds in %.0f s, %s/%s, %d cores, %s\n\n", t.options.seed, len(t.rounds), time.Since(t.began).Seconds(),
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), hosts(t.site))
	tw := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(tw, "| Fault\t| rounds\t| calls\t| degraded\t| slowest short call\t| healed within |")
	fmt.Fprintln(tw, "|-\t|-\t|-\t|-\t|-\t|- |")
	for k, line := range lines {
		name := "two at a time"
		if kind(k) < kinds {
			name = kind(k).String()
		}
		if line.rounds > 0 {
			fmt.Fprintf(tw, "| %s\t| %d\t| %d\t| %d\t| %.1f s\t| %.1f s |\n", name, line.rounds, line.calls, line.degraded, line.slowest.Seconds(), line.healed.Seconds())
		}
	}
	err := tw.Flush()
	fmt.Fprintf(w, "\ncalls %d, of clients that left %d, sent to the other ingress %d\n", t.load.calls.Load(), t.load.left.Load(), t.load.rerouted.Load())
	fmt.Fprintf(w, "failed: %d whose ingress was killed, %d whose engine was killed, %d for no such reason\n", failed[deadIngress], failed[deadEngine], failed[unexplained])
	fmt.Fprintf(w, "at rest %.1f s after the last request\n", t.final.Seconds())
	return errors.Join(append(faults, err)...)
}

func hosts(s *site) string {
	if s.net.split() {
		return "two hosts"
	}
	return "one host, so no partition"
}
