package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
	"smg/cmd/internal/logging"
	"smg/cmd/internal/version"
	"smg/launcher"
)

// launch serves engines that run already.
func launch(cmd *flags.Command) int {
	con, log := outputs(cmd)
	g, err := gateway.Bind(cmd.Launch, log)
	if err != nil {
		return flags.Report(con, err)
	}
	sig := watchSignals(log)
	defer sig.stop()
	sig.onSecond(g.Hurry)
	introduce(con, log, cmd.Launch, g)
	return flags.Report(con, g.Run(sig.ctx, func(r gateway.Ready) { reportReady(con, log, cmd.Launch, r) }))
}

// introduce says what is being started.
func introduce(con io.Writer, log *slog.Logger, cfg *flags.Launch, g *gateway.Gateway) {
	n := len(cfg.WorkerURLs)
	if cfg.LogJSON {
		log.Info("startup", slog.String("version", version.String()), slog.String("mode", "regular"), slog.String("policy", cfg.Policy),
			slog.Any("workers", cfg.WorkerURLs), slog.String("bus", "embedded"), slog.String("api", g.API()), slog.String("metrics", g.Metrics()))
		return
	}
	fmt.Fprintf(con, "%s\nmode      regular\nregular   %s   policy %s   %s\nbus       embedded NATS, in process\napi       %s     metrics %s\n",
		version.Line("smg"), counted(n, "worker"), cfg.Policy, abridged(cfg.WorkerURLs), g.API(), g.Metrics())
	if n > 0 {
		fmt.Fprintf(con, "waiting   for %s (asked every %s, for up to %s)\n", counted(n, "worker"), cfg.WorkerStartupCheckInterval, cfg.WorkerStartupTimeout)
	}
}

// reportReady says that every worker answers.
func reportReady(con io.Writer, log *slog.Logger, cfg *flags.Launch, r gateway.Ready) {
	took := r.Took.Round(time.Millisecond)
	if cfg.LogJSON {
		log.Info("ready", slog.Int("workers", r.Workers), slog.Duration("took", took))
		return
	}
	fmt.Fprintf(con, "ready     %d of %s, took %s\n", r.Workers, counted(len(cfg.WorkerURLs), "worker"), took)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// listed is how many workers the start-up lines name.
const listed = 5

func abridged(urls []string) string {
	if len(urls) <= listed {
		return strings.Join(urls, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(urls[:listed], ", "), len(urls)-listed)
}

// outputs are where a command tells people what happens. What the command line
// gave rise to is said first.
func outputs(cmd *flags.Command) (io.Writer, *slog.Logger) {
	con := launcher.NewConsole(os.Stderr, isTerminal() && !cmd.Launch.LogJSON)
	log := logging.New(con, cmd.Launch.LogLevel, cmd.Launch.LogJSON)
	for _, w := range cmd.Warnings {
		log.Warn("command line", slog.String("warning", w))
	}
	for _, n := range cmd.Notices {
		if cmd.Launch.LogJSON {
			log.Info("command line", slog.String("notice", n))
			continue
		}
		fmt.Fprintln(con, "note      "+n)
	}
	return con, log
}

func isTerminal() bool { return term.IsTerminal(int(os.Stderr.Fd())) }
