package natsd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

func TestLogger(t *testing.T) {
	for _, tt := range []struct {
		name  string
		say   func(server.Logger, string, ...any)
		level string
		last  string
	}{
		{"notice", server.Logger.Noticef, "DEBUG", ""},
		{"debug", server.Logger.Debugf, "DEBUG", ""},
		{"trace", server.Logger.Tracef, "DEBUG", ""},
		{"warning", server.Logger.Warnf, "WARN", ""},
		{"error", server.Logger.Errorf, "WARN", "disk 100% full"},
		{"fatal", server.Logger.Fatalf, "WARN", "disk 100% full"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			l := &logger{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
			if !l.debug() {
				t.Error("debug is off")
			}
			tt.say(l, "disk %d%% full", 100)
			if want := `level=` + tt.level + ` msg="embedded NATS server" line="disk 100% full"`; !strings.Contains(out.String(), want) {
				t.Errorf("got %q, want ... %s ...", out.String(), want)
			}
			if got := l.last(); got != tt.last {
				t.Errorf("last error: got %q, want %q", got, tt.last)
			}
		})
	}
}
