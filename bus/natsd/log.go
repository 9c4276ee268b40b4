package natsd

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
)

// logger turns the server's lines into records of ours. The server is a part of
// the program here: what it has to say of itself is detail, and what goes wrong in
// it is noticed, and reported as an error, by those who use it.
type logger struct {
	log     *slog.Logger
	failure atomic.Pointer[string]
}

var _ server.Logger = (*logger)(nil)

func (l *logger) debug() bool { return l.log.Enabled(context.Background(), slog.LevelDebug) }

// last is the last error that the server logged, "" if none.
func (l *logger) last() string {
	if s := l.failure.Load(); s != nil {
		return *s
	}
	return ""
}

func (l *logger) line(level slog.Level, format string, args []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "embedded NATS server", "line", fmt.Sprintf(format, args...))
	}
}

func (l *logger) fail(format string, args []any) {
	s := fmt.Sprintf(format, args...)
	l.failure.Store(&s)
	l.line(slog.LevelWarn, "%s", []any{s})
}

func (l *logger) Noticef(format string, args ...any) { l.line(slog.LevelDebug, format, args) }
func (l *logger) Debugf(format string, args ...any)  { l.line(slog.LevelDebug, format, args) }
func (l *logger) Tracef(format string, args ...any)  { l.line(slog.LevelDebug, format, args) }
func (l *logger) Warnf(format string, args ...any)   { l.line(slog.LevelWarn, format, args) }
func (l *logger) Errorf(format string, args ...any)  { l.fail(format, args) }
func (l *logger) Fatalf(format string, args ...any)  { l.fail(format, args) }
