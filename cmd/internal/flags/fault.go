package flags

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// Exit codes of smg.
const (
	// ExitFailure: the configuration was refused, or start-up or running failed.
	ExitFailure = 1
	// ExitUsage: the command line itself is wrong.
	ExitUsage = 2
)

// Fault is something wrong with the command line or the configuration, as a person
// should read it.
type Fault struct {
	What  string // lower case, without the flag
	Where string // flag, value, file or port, as typed
	Hint  string // what to type, or empty
	Code  int    // exit code, ExitUsage or ExitFailure
}

// Error is the fault in one line.
func (f *Fault) Error() string {
	line := f.What
	if f.Where != "" {
		line = f.Where + ": " + line
	}
	if f.Hint != "" {
		line += "; " + f.Hint
	}
	return line
}

// Report writes err to w for a person and returns the exit code. A single fault
// takes up to three lines, "error: what", where and hint; several take one line
// each. Any error that has a method Detail() []string or Hint() string is shown with
// both. A nil error writes nothing and is 0.
func Report(w io.Writer, err error) int {
	all := leaves(err)
	code := 0
	var out strings.Builder
	for _, e := range all {
		if f, ok := errors.AsType[*Fault](e); ok {
			code = max(code, f.Code)
			if len(all) > 1 {
				fmt.Fprintf(&out, "error: %s\n", f.Error())
				continue
			}
			writeForm(&out, f.What, []string{f.Where}, f.Hint)
			continue
		}
		code = max(code, ExitFailure)
		writeForm(&out, e.Error(), detailOf(e), hintOf(e))
	}
	_, _ = io.WriteString(w, out.String()) // nobody is left to tell
	return code
}

// inOneLine are several faults as a field of a log line has them.
func inOneLine(errs []error) string {
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = err.Error()
	}
	return strings.Join(lines, " | ")
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	if err == nil {
		return nil
	}
	// Only err itself is looked at: what lies beneath a message belongs to it.
	switch e := any(err).(type) {
	case *multierror.Error:
		return flatten(e.Errors)
	case interface{ Unwrap() []error }:
		// errors.Join, but not fmt.Errorf with two causes, which has words of its own.
		if parts := e.Unwrap(); err.Error() == errors.Join(parts...).Error() {
			return flatten(parts)
		}
	}
	return []error{err}
}

func flatten(errs []error) []error {
	var out []error
	for _, e := range errs {
		out = append(out, leaves(e)...)
	}
	return out
}

func detailOf(err error) []string {
	var d interface{ Detail() []string }
	if errors.As(err, &d) {
		return d.Detail()
	}
	return nil
}

func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

func writeForm(out *strings.Builder, what string, where []string, hint string) {
	fmt.Fprintf(out, "error: %s\n", cmp.Or(what, "unknown"))
	for _, line := range where {
		if line != "" {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
	if hint != "" {
		fmt.Fprintf(out, "  hint: %s\n", hint)
	}
}

// usage is a fault of the command line itself.
func usage(where, hint, format string, args ...any) *Fault {
	return &Fault{What: fmt.Sprintf(format, args...), Where: where, Hint: hint, Code: ExitUsage}
}
