package gateway

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"smg/bootstrap"
	"smg/cmd/internal/flags"
	"smg/worker"
)

// Check prints what launch would do, and returns the exit code. It starts nothing and
// asks nobody, so that it does not know what engines say of themselves.
func Check(cmd *flags.Command, stdout, stderr io.Writer) int {
	for _, w := range cmd.Warnings {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	for _, n := range cmd.Notices {
		fmt.Fprintf(stderr, "note: %s\n", n)
	}
	return flags.Report(stderr, check(cmd.Launch, stdout))
}

func check(cfg *flags.Launch, out io.Writer) error {
	specs, err := bootstrap.Planned(candidates(cfg))
	if err != nil {
		return err
	}
	remarks := bootstrap.Remarks(specs)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "mode\t%s\t%s\n", cfg.Mode, cfg.Topology)
	var faults []error
	for _, l := range Legs(cfg) {
		fmt.Fprintf(w, "%s\tpolicy %s\n", l.Name, l.Policy)
		for _, s := range specs {
			if s.Leg.String() != l.Name {
				continue
			}
			fmt.Fprintf(w, "\t%s\n", strings.Join(append([]string{s.URL}, facts(s)...), "\t"))
			for _, text := range remarks[s.ID] {
				fmt.Fprintf(w, "\t  perhaps wrong: %s\n", text)
			}
			if s.Conflict != "" {
				faults = append(faults, fmt.Errorf("worker %s would never be chosen: %s", s.URL, s.Conflict))
			}
		}
	}
	return errors.Join(append(faults, w.Flush())...)
}

// facts are what is known of a worker, and what is not yet.
func facts(s *worker.Spec) []string {
	if s.Leg == worker.Regular {
		return nil
	}
	all := []string{"protocol: asked at start"}
	switch {
	case s.BootstrapPort != 0:
		all = append(all, fmt.Sprintf("bootstrap %s:%d (%s)", s.BootstrapHost, s.BootstrapPort, s.BootstrapSource))
	case s.Leg == worker.Prefill:
		all = append(all, "bootstrap "+s.BootstrapHost+", port: asked at start")
	}
	return all
}
