package simcmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDocs demands that the manual names every flag.
func TestDocs(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/sim.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range flags() {
		if name := "`--" + flag.Names()[0]; !strings.Contains(string(manual), name) {
			t.Errorf("docs/sim.md does not mention %s", name)
		}
	}
}

func TestMainInProcess(t *testing.T) {
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name string
		args []string
		code int
		want string // part of standard error
	}{
		{"serves until the context ends", []string{"--port", "0", "--control-port", "0"}, 0, "listening on http://127.0.0.1:"},
		{"instant", []string{"--port", "0", "--instant"}, 0, "listening on http://127.0.0.1:"},
		{"usage", []string{"--nope"}, 2, "smg-sim: unknown flag --nope"},
		{"range", []string{"--decode-step-ms", "-1"}, 2, "--decode-step-ms"},
		{"unusable address", []string{"--host", "256.0.0.1"}, 1, "cannot listen on 256.0.0.1"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := Main(stopped, tc.args, &stdout, &stderr); code != tc.code {
				t.Errorf("code %d, want %d", code, tc.code)
			}
			if stdout.Len() > 0 || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("standard output %q, standard error %q", &stdout, &stderr)
			}
		})
	}
}

// TestCommand runs the subcommand inside another application.
func TestCommand(t *testing.T) {
	app := &cli.App{
		Name: "other", Commands: []*cli.Command{Command(io.Discard)},
		Writer: io.Discard, ErrWriter: io.Discard,
		ExitErrHandler: func(*cli.Context, error) {},
	}
	err := app.Run([]string{"other", "sim", "--engines", "0"})
	coded, ok := errors.AsType[cli.ExitCoder](err)
	if !ok || coded.ExitCode() != 2 || !strings.Contains(err.Error(), "--engines") {
		t.Errorf("got %v", err)
	}
}
