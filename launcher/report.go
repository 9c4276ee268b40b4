package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"smg/worker"
)

// ErrExited marks the report of an engine that ended before it was ready.
var ErrExited = errors.New("engine ended during start-up")

// ErrStartupTimeout marks the report of engines that did not become ready in time.
var ErrStartupTimeout = errors.New("engine start-up timed out")

// reportLines is how many lines of output a failure report shows.
const reportLines = 20

// LaunchError is a failure as a person should read it: one sentence, the facts, one
// hint. Its sentinel, where callers branch, is found with errors.Is.
type LaunchError struct {
	what   string
	detail []string
	hint   string
	cause  error
}

// Error is the sentence alone.
func (e *LaunchError) Error() string { return e.what }

// Detail returns the facts, one a line: flag and value, command line, last output.
func (e *LaunchError) Detail() []string { return slices.Clone(e.detail) }

// Hint says what to do, or is empty.
func (e *LaunchError) Hint() string { return e.hint }

// Unwrap returns the sentinel or the error beneath, if any.
func (e *LaunchError) Unwrap() error { return e.cause }

// exitError reports an engine that has ended.
func (g *Group) exitError(p *Process, when string, cause error) *LaunchError {
	lines := p.Tail(reportLines)
	return &LaunchError{
		what:   fmt.Sprintf("%s %s: %s", p.name, when, p.state),
		detail: append(commandDetail(p.argv), g.outputDetail(p, lines)...),
		hint:   hintFor(lines, nil),
		cause:  cause,
	}
}

// timeoutError reports the engines that are still loading.
func (g *Group) timeoutError(waiting []waitState) *LaunchError {
	var detail []string
	for _, w := range waiting {
		detail = append(detail, fmt.Sprintf("%s (pid %d, port %d) was still alive; last probe: %s",
			w.p.name, w.p.PID(), w.p.place.Port, w.last))
	}
	seconds := fmt.Sprintf("%g", g.cfg.StartupTimeout.Seconds())
	detail = append([]string{"--worker-startup-timeout " + seconds}, detail...)
	first := waiting[0].p
	detail = append(detail, g.outputDetail(first, first.Tail(reportLines))...)
	return &LaunchError{
		what:   fmt.Sprintf("%s not ready after %s s", enginesInWords(waiting), seconds),
		detail: detail,
		hint:   "if loading simply takes longer, raise --worker-startup-timeout",
		cause:  ErrStartupTimeout,
	}
}

// enginesInWords names them: "engine 0", "engines 1, 2", "prefill 0, decode 1".
func enginesInWords(waiting []waitState) string {
	alike := len(waiting) > 1
	var names, ranks []string
	for _, w := range waiting {
		alike = alike && w.p.place.Role == worker.Regular
		names = append(names, w.p.name)
		ranks = append(ranks, strconv.Itoa(w.p.place.Rank))
	}
	if alike {
		return "engines " + strings.Join(ranks, ", ")
	}
	return strings.Join(names, ", ")
}

func commandDetail(argv []string) []string {
	return []string{"command: " + shellJoin(redactArgs(argv))}
}

func (g *Group) outputDetail(p *Process, lines []string) []string {
	switch {
	case g.cfg.Log == LogRaw && p.output == nil:
		return []string{"its output was not captured (--engine-log raw)"}
	case len(lines) == 0:
		return []string{"it wrote nothing"}
	}
	head := fmt.Sprintf("last output of %s:", p.name)
	if p.logFile != "" {
		head = fmt.Sprintf("last output of %s (all of it: %s):", p.name, p.logFile)
	}
	out := []string{head}
	for _, line := range lines {
		out = append(out, "  "+line)
	}
	return out
}

// shellJoin quotes what a shell would split, so that the line can be pasted.
func shellJoin(argv []string) string {
	quoted := make([]string, len(argv))
	for i, a := range argv {
		quoted[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$&|;<>()*?[]{}~`#!") {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// hints are tried in order; a line of output that contains all words of one, in any
// case, selects it.
func hints() []hint {
	return []hint{
		{[]string{"no module named"}, "the engine is not installed in the Python that runs it: install it there, or name another with --engine-python"},
		{[]string{"error while loading shared libraries"}, "a library of the engine is missing: install it, or add its folder to LD_LIBRARY_PATH"},
		{[]string{"out of memory"}, "the device is full: choose a smaller model, a smaller context, or fewer engines"},
		{[]string{"already in use", "bootstrap-port"}, "something else took the port: give another --bootstrap-base-port"},
		{[]string{"already in use", "side-channel"}, "something else took a port of the engines meanwhile: start again"},
		{[]string{"already in use by another process"}, "something else took the port: give another --worker-base-port"},
		{[]string{"address already in use"}, "something else took the port: give another --worker-base-port"},
		{[]string{"couldn't bind"}, "something else took the port: give another --worker-base-port"},
		{[]string{"gated repo"}, "access to the model must be granted: ask for it and set HF_TOKEN"},
		{[]string{"401", "unauthorized"}, "the model cannot be fetched without credentials: set HF_TOKEN"},
		{[]string{"unrecognized argument"}, wrongArgument},
		{[]string{"unrecognised argument"}, wrongArgument},
		{[]string{"invalid argument"}, wrongArgument},
		{[]string{"unknown argument"}, wrongArgument},
		{[]string{"unknown flag"}, wrongArgument},
		{[]string{"unexpected argument"}, wrongArgument},
		{[]string{"flag provided but not defined"}, wrongArgument},
		{[]string{"failed to load model"}, "the engine cannot use this model: check --model"},
		{[]string{"failed to open gguf"}, "the engine cannot use this model: check --model"},
	}
}

const wrongArgument = "the engine does not know one of the flags it was given: every flag that smg does not know is passed on to it"

type hint struct {
	words []string
	text  string
}

// hintFor finds the one hint for an engine's last output, the latest line first, or
// for the error of a start.
func hintFor(lines []string, err error) string {
	if err != nil {
		lines = append(slices.Clone(lines), err.Error())
		if strings.Contains(err.Error(), "permission denied") {
			return "the engine program must be executable"
		}
	}
	for _, line := range slices.Backward(lines) {
		low := strings.ToLower(line)
		for _, h := range hints() {
			if !slices.ContainsFunc(h.words, func(w string) bool { return !strings.Contains(low, w) }) {
				return h.text
			}
		}
	}
	return ""
}
