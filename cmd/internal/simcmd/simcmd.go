package simcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"smg/cmd/internal/version"
	"smg/sim/instant"
	"smg/sim/simhttp"
	"smg/sim/simtext"
	"smg/sim/simzmq"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// Main runs the simulated engine with args, which do not contain the program's
// name, until ctx ends or a SIGTERM or SIGINT arrives. It returns the exit
// code. Only --help and --version write to stdout.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-V") {
		_, _ = fmt.Fprintln(stdout, "smg-sim "+version.String()) // nobody reads a closed stream
		return 0
	}
	cmd := Command(stderr)
	app := &cli.App{
		Name:            "smg-sim",
		Usage:           cmd.Usage,
		Description:     cmd.Description,
		Flags:           cmd.Flags,
		Action:          cmd.Action,
		OnUsageError:    cmd.OnUsageError,
		HideHelpCommand: true,
		HideVersion:     true,
		Writer:          stdout,
		ErrWriter:       stderr,
		// The exit code is ours to return.
		ExitErrHandler: func(*cli.Context, error) {},
	}
	err := app.RunContext(ctx, append([]string{app.Name}, joined(args)...))
	if err == nil {
		return 0
	}
	// Nothing is left to be done if standard error is closed.
	_, _ = fmt.Fprintf(stderr, "smg-sim: %v\n", err)
	if coded, ok := errors.AsType[cli.ExitCoder](err); ok {
		return coded.ExitCode()
	}
	return exitUsage
}

// Command is the simulated engine as a subcommand. Its errors are
// cli.ExitCoder: 2 for a command line at fault, 1 for a failure to run.
func Command(stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "sim",
		Usage: "run simulated inference engines",
		Description: "Each engine answers like SGLang or vLLM over HTTP, takes the time that a real one\n" +
			"would take, and can be told to misbehave through its control API under /_sim/.\n" +
			"See docs/sim.md.",
		Flags: Flags(),
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return cli.Exit(plainUsage(err), exitUsage)
		},
		Action: func(c *cli.Context) error {
			o, err := read(c)
			if err != nil {
				return cli.Exit(err.Error(), exitUsage)
			}
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := run(ctx, o, stderr); err != nil {
				return cli.Exit(err.Error(), exitFailure)
			}
			return nil
		},
	}
}

// plainUsage rewords the messages of the flag parser.
func plainUsage(err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return fmt.Sprintf("unknown flag --%s; see --help", strings.TrimLeft(name, "-"))
	}
	text = strings.Replace(text, " for flag -", " for flag --", 1)
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Sprintf("--%s needs a value", strings.TrimLeft(name, "-"))
	}
	return text
}

// run listens first, so that a busy port is found before anything starts, and
// then serves until ctx ends.
func run(ctx context.Context, o options, stderr io.Writer) error {
	if dir := o.engine.TokenizerPath; dir != "" {
		if err := simtext.WriteTokenizer(dir); err != nil {
			return fmt.Errorf("--byte-tokenizer: %w", err)
		}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: o.level}))
	listeners, err := listenAll(o.listen)
	if err != nil {
		return err
	}
	var control net.Listener
	if o.control != "" {
		if control, err = listen(o.control, "--control-port"); err != nil {
			return errors.Join(err, closeAll(listeners))
		}
	}
	if o.instant != nil {
		server, err := instant.New(*o.instant)
		if err != nil {
			return errors.Join(err, closeAll(listeners))
		}
		ready(stderr, "http", listeners, nil)
		g, ctx := errgroup.WithContext(ctx)
		for _, l := range listeners {
			g.Go(func() error { return server.Serve(ctx, l) })
		}
		return g.Wait()
	}
	fleet, err := simhttp.NewFleet(o.engine, listeners, control, time.Now, log)
	if err != nil {
		return err
	}
	publishers, err := publish(fleet, o)
	if err != nil {
		return err
	}
	scheme := "http"
	if o.engine.Front != nil {
		scheme = "grpc"
	}
	ready(stderr, scheme, listeners, control, fleet.PeerAddrs()...)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return fleet.Run(ctx) })
	for _, p := range publishers {
		g.Go(func() error { return p.Run(ctx) })
	}
	return g.Wait()
}

// publish has each engine publish its KV-cache events on the host that it listens on.
func publish(fleet *simhttp.Fleet, o options) (all []*simzmq.Publisher, err error) {
	if o.events == 0 {
		return nil, nil
	}
	open := func(i, port int, flag string) (net.Listener, error) {
		host, _, err := net.SplitHostPort(o.listen[i])
		if err != nil {
			return nil, err
		}
		return listen(net.JoinHostPort(strings.TrimSpace(host), strconv.Itoa(port+i)), flag)
	}
	for i, engine := range fleet.Servers() {
		events, err := open(i, o.events, "--kv-events-port")
		if err != nil {
			return nil, err
		}
		var replay net.Listener
		if o.replay > 0 {
			if replay, err = open(i, o.replay, "--kv-events-replay-port"); err != nil {
				return nil, err
			}
		}
		all = append(all, simzmq.New(engine, events, replay))
	}
	return all, nil
}

// ready says in one line where the engines are. They accept connections from
// here on, and answer as soon as they are served.
func ready(w io.Writer, scheme string, listeners []net.Listener, control net.Listener, peers ...string) {
	line := "listening on " + scheme + "://" + listeners[0].Addr().String()
	if more := len(listeners) - 1; more > 0 {
		line += fmt.Sprintf(" and %d more, up to %s://%s", more, scheme, listeners[more].Addr())
	}
	if len(peers) > 0 {
		line += ", for other engines on " + peers[0]
		if more := len(peers) - 1; more > 0 {
			line += fmt.Sprintf(" and %d more, up to %s", more, peers[more])
		}
	}
	if control != nil {
		line += ", control on http://" + control.Addr().String()
	}
	// Nobody waits for the line if standard error is closed.
	_, _ = fmt.Fprintln(w, line)
}

func listenAll(addrs []string) ([]net.Listener, error) {
	var list []net.Listener
	for _, addr := range addrs {
		l, err := listen(strings.TrimSpace(addr), "--port or --listen")
		if err != nil {
			return nil, errors.Join(err, closeAll(list))
		}
		list = append(list, l)
	}
	return list, nil
}

func listen(addr, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is already in use by another process; choose another address (%s)", addr, flag)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	return l, nil
}

func closeAll(list []net.Listener) error {
	var faults []error
	for _, l := range list {
		faults = append(faults, l.Close())
	}
	return errors.Join(faults...)
}
