package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/logging"
	"smg/launcher"
)

// console is where a command tells what happens, all of it on standard error: lines
// for people, or JSON objects and nothing else.
type console struct {
	*launcher.Console
	log  *slog.Logger
	json bool
}

func newConsole(cfg *flags.Launch) console {
	out := launcher.NewConsole(os.Stderr, isTerminal() && !cfg.LogJSON)
	return console{Console: out, log: logging.New(out, cfg.LogLevel, cfg.LogJSON), json: cfg.LogJSON}
}

func isTerminal() bool { return term.IsTerminal(int(os.Stderr.Fd())) }

// say writes lines for people.
func (c console) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c, format+"\n", args...) // nobody is left to tell
}

// fail reports err, if it is one, and returns the exit code.
func (c console) fail(err error) int {
	if err == nil || !c.json {
		return flags.Report(c, err)
	}
	var report strings.Builder
	code := flags.Report(&report, err)
	c.log.Error("failed", slog.String("error", err.Error()), slog.Int("exit_code", code),
		slog.Any("report", strings.Split(strings.TrimSpace(report.String()), "\n")))
	return code
}

// stopping tells that the engines are about to be stopped, which may take a while,
// and why, if that is a failure. Its whole report comes last, where it is found.
func (c console) stopping(engines *launcher.Group, limit time.Duration, why error) {
	n := len(engines.Processes())
	if n == 0 {
		return
	}
	attrs := []any{slog.Int("engines", n), slog.Duration("limit", limit)}
	if why != nil {
		attrs = append(attrs, slog.String("reason", why.Error()))
	}
	c.log.Info("stopping engines", attrs...)
}

// remarks tells what the command line gave rise to.
func (c console) remarks(cmd *flags.Command) {
	for _, w := range cmd.Warnings {
		c.log.Warn("command line", slog.String("warning", w))
	}
	for _, n := range cmd.Notices {
		if c.json {
			c.log.Info("command line", slog.String("notice", n))
			continue
		}
		c.say("note      %s", n)
	}
}
