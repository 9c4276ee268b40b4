package admin

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"smg/cmd/internal/flags"
)

// Main runs the command workers or status and returns the exit code.
func Main(command string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := program{out: os.Stdout, people: term.IsTerminal(int(os.Stdout.Fd())), env: os.LookupEnv}
	return flags.Report(os.Stderr, p.run(ctx, command, args))
}

// program is one run.
type program struct {
	out io.Writer
	// people read out: columns stand under each other, and a line sums them up.
	people bool
	env    func(string) (string, bool)
}

// run does what a command line says.
func (p *program) run(ctx context.Context, command string, args []string) error {
	name, do, args := pick(command, args)
	o, err := p.read(name, args)
	if err != nil || o == nil { // nil: help has been printed
		return err
	}
	c := newClient(o)
	defer c.http.CloseIdleConnections()
	return do(p, ctx, c, o)
}

// action is what a command does.
type action func(*program, context.Context, *client, *options) error

// pick finds the command that the words name, and the rest of the line.
func pick(command string, args []string) (name string, do action, rest []string) {
	if command == "status" {
		return command, (*program).status, args
	}
	if len(args) > 0 {
		switch args[0] {
		case "list", "ls":
			return "workers list", (*program).list, args[1:]
		case "add":
			return "workers add", (*program).add, args[1:]
		case "rm", "remove":
			return "workers rm", (*program).remove, args[1:]
		}
	}
	return "workers", (*program).list, args
}
