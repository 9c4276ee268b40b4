package logging

import (
	"context"
	"log/slog"
	"path"
	"strings"
)

// targetKey is the field of where a line comes from. A record that has it says so itself.
const targetKey = "target"

// origin adds to each record where it comes from: in which part of the program, and, for
// machines, in which file and line.
type origin struct {
	slog.Handler
	lines bool
}

// Handle implements [slog.Handler].
func (h origin) Handle(ctx context.Context, r slog.Record) error {
	at := r.Source()
	if at == nil {
		return h.Handler.Handle(ctx, r)
	}
	target, own := slog.String(targetKey, targetOf(at.Function)), false
	r.Attrs(func(a slog.Attr) bool {
		if own = a.Key == targetKey; own {
			target = a
		}
		return !own
	})
	placed := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case a.Key == targetKey:
		case h.lines && reserved(a.Key):
			placed.AddAttrs(slog.Attr{Key: "fields." + a.Key, Value: a.Value})
		default:
			placed.AddAttrs(a)
		}
		return true
	})
	placed.AddAttrs(target) // last, where it is in nobody's way
	if h.lines {
		placed.AddAttrs(slog.String("filename", path.Base(path.Dir(at.File))+"/"+path.Base(at.File)), slog.Int("line_number", at.Line))
	}
	return h.Handler.Handle(ctx, placed)
}

// WithAttrs implements [slog.Handler].
func (h origin) WithAttrs(attrs []slog.Attr) slog.Handler {
	return origin{h.Handler.WithAttrs(attrs), h.lines}
}

// WithGroup implements [slog.Handler].
func (h origin) WithGroup(name string) slog.Handler {
	return origin{h.Handler.WithGroup(name), h.lines}
}

// reserved says whether a field of a line has a name that every line of JSON has already.
func reserved(key string) bool {
	switch key {
	case slog.LevelKey, slog.TimeKey, slog.MessageKey, "timestamp", "message", "filename", "line_number":
		return true
	}
	return false
}

// targetOf is a function's package: "smg::legs::client" of smg/legs/client.New.
func targetOf(function string) string {
	i := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[i:], ".")
	return strings.ReplaceAll(function[:i]+name, "/", "::")
}
