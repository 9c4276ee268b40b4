// Package terminal is how a command speaks with whoever started it: lines and log
// records on standard error, and signals, of which the first ends a command, the
// second hurries it and the third ends it at once. It does not know what commands do.
package terminal

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

// Console is where a command tells what happens, all of it on standard error: lines
// for people, or JSON objects and nothing else.
type Console struct {
	*launcher.Console
	Log *slog.Logger
	// JSON says that there are no lines for people.
	JSON bool
	// Color says that those who read it see colours.
	Color bool
}

// NewConsole is standard error, with the flags of cmd for logs. On error it is so without
// the folder of logs, which cannot be used.
func NewConsole(cmd *flags.Command) (Console, error) {
	cfg := cmd.Launch
	// Control sequences, if somebody is there who understands and wants them.
	controls := term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb" && !cfg.NoColor && os.Getenv("NO_COLOR") == ""
	out := launcher.NewConsole(os.Stderr, controls && !cfg.LogJSON)
	var err error
	if dir := cfg.Trace.LogDir; dir != "" {
		var d *logging.Daily
		if d, err = logging.NewDaily(dir, time.Now, os.Stderr); err == nil {
			out.Copy(d)
		} else {
			err = cmd.Sourced(&flags.Fault{
				What: err.Error(), Where: "--" + cmd.Prefix() + "log-dir " + dir, Hint: "give a folder that can be made and written to", Code: flags.ExitFailure,
			})
		}
	}
	return Console{
		Console: out, Log: logging.New(out, cfg.LogLevel, cfg.LogJSON), JSON: cfg.LogJSON,
		Color: controls,
	}, err
}

// Say writes lines for people.
func (c Console) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(c, format+"\n", args...) // nobody is left to tell
}

// Fail reports err, if it is one, and returns the exit code.
func (c Console) Fail(err error) int {
	if err == nil || !c.JSON {
		return flags.Report(c, err)
	}
	var report strings.Builder
	code := flags.Report(&report, err)
	c.Log.Error("failed", slog.String("error", err.Error()), slog.Int("exit_code", code),
		slog.Any("report", strings.Split(strings.TrimSpace(report.String()), "\n")))
	return code
}

// Remarks tells what the command line gave rise to.
func (c Console) Remarks(cmd *flags.Command) {
	for _, w := range cmd.Warnings {
		c.Log.Warn("command line", slog.String("warning", w))
	}
	for _, n := range cmd.Notices {
		if c.JSON {
			c.Log.Info("command line", slog.String("notice", n))
			continue
		}
		c.Say("note      %s", n)
	}
}
