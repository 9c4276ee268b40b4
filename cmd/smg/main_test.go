package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
	"smg/cmd/internal/selector"
	"smg/cmd/internal/terminal"
)

func TestMain(m *testing.M) {
	alone := func(program, command string, main func(*flags.Command) int) func() {
		return func() {
			cmd, code := terminal.Read(program, command, os.Args[1:])
			if cmd != nil {
				code = main(cmd)
			}
			os.Exit(code)
		}
	}
	testscript.Main(m, map[string]func(){
		"smg":          func() { os.Exit(run(os.Args[1:])) },
		"smg-ingress":  alone("smg-ingress", "ingress", gateway.Ingress),
		"smg-selector": alone("smg-selector", "selector", selector.Main),
	})
}

// TestCLI runs the scripts of command lines that end before anything is started.
// A script whose name begins with a number is that case of the specification.
func TestCLI(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "taken": taken, "free": free},
	})
}

// exits runs a program and wants the exit code that comes first.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// taken puts a port that somebody listens on into a variable.
func taken(ts *testscript.TestScript, neg bool, args []string) {
	l := port(ts, neg, args)
	ts.Defer(func() { ts.Check(l.Close()) })
}

// free puts a port that nobody listens on into a variable.
func free(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(port(ts, neg, args).Close())
}

func port(ts *testscript.TestScript, neg bool, args []string) net.Listener {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: taken|free variable")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	return l
}
