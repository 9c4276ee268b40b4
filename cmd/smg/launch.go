package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
	"smg/cmd/internal/version"
)

// launch serves engines that run already.
func launch(cmd *flags.Command) int {
	con := newConsole(cmd.Launch)
	g, err := gateway.Bind(cmd.Launch, "", con.log)
	if err != nil {
		return con.fail(err)
	}
	sig := watchSignals(con.log)
	defer sig.stop()
	sig.onSecond(g.Hurry)
	introduce(con, cmd, g)
	return con.fail(g.Run(sig.ctx, func(r gateway.Ready) { reportReady(con, cmd.Launch, r) }))
}

// introduce says what is being started.
func introduce(con console, cmd *flags.Command, g *gateway.Gateway) {
	cfg := cmd.Launch
	legs := gateway.Legs(cfg)
	if con.json {
		args := []any{
			slog.String("version", version.String()), slog.String("mode", cfg.Mode.String()), slog.String("bus", "embedded"),
			slog.String("api", g.API()), slog.String("metrics", g.Metrics()),
		}
		for _, l := range legs {
			args = append(args, slog.Group(l.Name, slog.String("policy", l.Policy), slog.Any("workers", l.Workers)))
		}
		con.log.Info("startup", args...)
		con.remarks(cmd)
		return
	}
	con.say("%s\nmode      %s", version.Line("smg"), cfg.Mode)
	for _, l := range legs {
		line := fmt.Sprintf("%-9s %s   policy %s   %s", l.Name, counted(len(l.Workers), "worker"), l.Policy, abridged(l.Workers))
		con.say("%s", strings.TrimRight(line, " "))
	}
	con.say("bus       embedded NATS, in process\napi       %s     metrics %s", g.API(), g.Metrics())
	con.remarks(cmd)
	if n := named(cfg); n > 0 {
		con.say("waiting   for %s (asked every %s, for up to %s)", counted(n, "worker"), plain(cfg.WorkerStartupCheckInterval), plain(cfg.WorkerStartupTimeout))
	} else {
		con.say("note      no worker is named, so every request is answered with 404: give --worker-urls, or --prefill and --decode")
	}
}

// named is how many workers the command line names.
func named(cfg *flags.Launch) int {
	n := 0
	for _, l := range gateway.Legs(cfg) {
		n += len(l.Workers)
	}
	return n
}

// reportReady says that every worker answers.
func reportReady(con console, cfg *flags.Launch, r gateway.Ready) {
	took := r.Took.Round(time.Millisecond)
	if con.json {
		con.log.Info("ready", slog.Int("workers", r.Workers), slog.Duration("took", took))
		return
	}
	con.say("ready     %d of %s, took %s", r.Workers, counted(named(cfg), "worker"), took)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// plain leaves out the zeros of a duration that is whole minutes or hours.
func plain(d time.Duration) string {
	s := d.String()
	if short, ok := strings.CutSuffix(s, "m0s"); ok {
		s = short + "m"
	}
	if short, ok := strings.CutSuffix(s, "h0m"); ok {
		s = short + "h"
	}
	return s
}

// listed is how many workers the start-up lines name.
const listed = 5

func abridged(urls []string) string {
	if len(urls) <= listed {
		return strings.Join(urls, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(urls[:listed], ", "), len(urls)-listed)
}
