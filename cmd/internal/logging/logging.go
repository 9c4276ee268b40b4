// Package logging makes the programs' logger: lines for people or JSON objects, on
// the stream it is given. It knows no flags.
package logging

import (
	"io"
	"log/slog"
	"time"
)

// New is a logger that writes records of level and above to w, one line each.
func New(w io.Writer, level slog.Leveler, json bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if json {
		opts.ReplaceAttr = forMachines
		return slog.New(origin{slog.NewJSONHandler(w, opts), true})
	}
	opts.ReplaceAttr = forPeople
	return slog.New(origin{slog.NewTextHandler(w, opts), false})
}

// forMachines gives the built-in fields the names that log collectors of such
// gateways expect.
func forMachines(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		a.Key = "timestamp"
		a.Value = slog.StringValue(a.Value.Time().UTC().Format(time.RFC3339Nano))
	case slog.MessageKey:
		a.Key = "message"
	}
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func forPeople(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		a.Value = slog.StringValue(a.Value.Time().UTC().Format(time.DateTime))
	}
	return a
}
