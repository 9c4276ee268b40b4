package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"smg/bench/load"
	"smg/stats"
)

// The goals.
const (
	mostRatio  = 1.3              // G11: cost of a request, large fleet against small
	mostShare  = 0.05             // G12: of a core at rest
	mostMemory = 20 << 10         // G12: bytes a worker
	mostReady  = 10 * time.Second // G12: start to ready
)

// compare measures all sites and prints what came of them.
func compare(ctx context.Context, o *options, w io.Writer) error {
	version, err := exec.CommandContext(ctx, o.smg, "--version").Output()
	if err != nil {
		return fmt.Errorf("asking %s for its version: %w", o.smg, err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(version)), "\n")
	fmt.Fprintf(w, "%s, %s/%s, %s, %d CPUs shared by all, loopback, seed %d, loads polled every 10 s, unused connections kept %s\n",
		first, runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU(), o.seed, kept(o.keep))
	failed := 0
	for _, t := range topologies {
		if !strings.Contains(t.name, o.only) {
			continue
		}
		few, err := measure(ctx, o, t, o.few)
		if err != nil {
			return err
		}
		many, err := measure(ctx, o, t, o.workers)
		if err != nil {
			return err
		}
		for _, out := range []*outcome{few, many} {
			if err := out.print(w); err != nil {
				return err
			}
		}
		failed += printCosts(w, o, few, many)
		judge(w, o, few, many)
	}
	if failed > 0 {
		return fmt.Errorf("%d requests were not answered with 200", failed)
	}
	return nil
}

func kept(seconds int) string {
	if seconds == 0 {
		return "for ever"
	}
	return fmt.Sprintf("%d s", seconds)
}

// print prints what a fleet costs at rest.
func (out *outcome) print(w io.Writer) error {
	r := &out.rest
	fmt.Fprintf(w, "\n%s, %d workers: all ready after %.1f s; at rest for %.0f s\n", out.topology.name, out.workers, r.ready.Seconds(), r.span.Seconds())
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "process\tCPU s until ready\tat rest, % of a core\tMB resident\t")
	for i := range r.usages {
		u := &r.usages[i]
		fmt.Fprintf(tab, "%s\t%.1f\t%.1f\t%.0f\t\n", u.name, u.start.Seconds(), 100*u.share(r.span), float64(u.resident)/1e6)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "without load polls all processes use %.1f %% of a core at rest\nGET /workers: %.1f ms of CPU time, %.2f MB\n",
		100*out.quiet.share(), float64(r.list)/1e6, float64(r.bytes)/1e6)
	return err
}

// rising is the CPU time of a request of a kind, with what is spent at rest meanwhile.
func (out *outcome) rising(k kind) stats.Spread {
	var costs []float64
	for _, s := range out.costs[k.name] {
		costs = append(costs, s.cost())
	}
	return stats.Of(costs)
}

// beside is what a second at rest costs, in microseconds a request.
func (out *outcome) beside(o *options) float64 { return out.rest.share() * 1e6 / o.rate }

// printCosts prints what requests cost, and returns how many failed.
func printCosts(w io.Writer, o *options, few, many *outcome) (failed int) {
	fmt.Fprintf(w, "\n%s, µs of CPU time a request at %g/s, all processes: medians (least–most) of %d loads of %s\n",
		few.topology.name, o.rate, o.rounds, o.length)
	for _, p := range policies {
		for _, k := range p.kinds {
			fmt.Fprintf(w, "  %s: %d workers %s, %d workers %s (of which at rest about %.0f and %.0f)",
				k.name, few.workers, few.rising(k).Format(0), many.workers, many.rising(k).Format(0), few.beside(o), many.beside(o))
			all := load.Result{Failed: map[error]int{}}
			for _, out := range []*outcome{few, many} {
				for _, s := range out.costs[k.name] {
					all.Sent += s.Sent
					all.Marked += s.Marked
					for kind, n := range s.Failed {
						all.Failed[kind] += n
					}
				}
			}
			fmt.Fprintf(w, "; %d sent, %d failed", all.Sent, all.Errors())
			if all.Marked > 0 {
				fmt.Fprintf(w, ", %d DEGRADED", all.Marked)
			}
			if faults := all.Faults(); faults != "" {
				fmt.Fprintf(w, " (%s)", faults)
			}
			fmt.Fprintln(w)
			failed += all.Errors()
		}
	}
	return failed
}

// judge says what became of the goals.
func judge(w io.Writer, o *options, few, many *outcome) {
	fmt.Fprintln(w)
	for _, p := range policies {
		for _, k := range p.kinds {
			ratio := many.rising(k).Median / few.rising(k).Median
			beyond := (many.rising(k).Median - many.beside(o)) / (few.rising(k).Median - few.beside(o))
			verdict(w, fmt.Sprintf("G11 %s, %s: %.2f times the CPU time of a request among %d workers, at most %g (without what is spent at rest %.2f times)",
				few.topology.name, k.name, ratio, few.workers, mostRatio, beyond), ratio <= mostRatio)
		}
	}
	share := many.rest.share()
	verdict(w, fmt.Sprintf("G12 %s, CPU: %.1f %% of a core, at most %.0f %%", many.topology.name, 100*share, 100*mostShare), share <= mostShare)
	quiet := many.quiet.share()
	verdict(w, fmt.Sprintf("G12 %s, CPU without load polls: %.1f %% of a core, at most %.0f %%", many.topology.name, 100*quiet, 100*mostShare), quiet <= mostShare)
	resident := func(u *usage) float64 { return float64(u.resident) }
	each := (many.rest.total(resident) - few.rest.total(resident)) / float64(many.workers-few.workers)
	verdict(w, fmt.Sprintf("G12 %s, memory: %.1f KB resident a worker, all processes, at most %d KB", many.topology.name, each/1024, mostMemory>>10), each <= mostMemory)
	verdict(w, fmt.Sprintf("G12 %s, start: all ready after %.1f s, at most %.0f s", many.topology.name, many.rest.ready.Seconds(), mostReady.Seconds()), many.rest.ready <= mostReady)
}

func verdict(w io.Writer, what string, met bool) {
	word := "missed"
	if met {
		word = "met"
	}
	fmt.Fprintf(w, "%s: %s\n", what, word)
}
