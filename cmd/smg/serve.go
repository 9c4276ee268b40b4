package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sync/errgroup"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
	"smg/cmd/internal/version"
	"smg/launcher"
)

// serve starts engines, waits for them and serves them. The gateway's ports are
// bound first, so that a conflict costs seconds and not a model load.
func serve(cmd *flags.Command) int {
	con, log := outputs(cmd)
	g, err := gateway.Bind(cmd.Launch, log)
	if err != nil {
		return flags.Report(con, err)
	}
	sig := watchSignals(log)
	defer sig.stop()
	cfg := cmd.Serve.Engines
	cfg.Color = isTerminal() && !cmd.Launch.NoColor && os.Getenv("NO_COLOR") == ""
	engines, err := launcher.New(cfg, con, log)
	if err != nil {
		return flags.Report(con, errors.Join(err, g.Close()))
	}
	if !cmd.Launch.LogJSON {
		fmt.Fprintf(con, "%s - starting %s\n", version.Line("smg"), counted(cfg.Replicas, cfg.Backend+" engine"))
	}
	sig.onSecond(g.Hurry)
	sig.onThird(engines.Kill)
	if err := start(sig.ctx, cmd, engines); err != nil {
		stopErr := errors.Join(engines.Stop(), g.Close())
		if code := sig.code(); code != 0 {
			flags.Report(con, stopErr)
			return code
		}
		return flags.Report(con, errors.Join(err, stopErr))
	}
	err = runBoth(sig.ctx, g, engines, func(r gateway.Ready) {
		reportReady(con, log, cmd.Launch, r)
		hint(con, log, cmd, g, r.Model)
	})
	err = errors.Join(err, engines.Stop())
	if err != nil {
		return flags.Report(con, err)
	}
	return sig.code()
}

// start starts the engines, waits until all are ready and gives them to the
// gateway.
func start(ctx context.Context, cmd *flags.Command, engines *launcher.Group) error {
	endpoints, err := engines.Start()
	if err != nil {
		return err
	}
	if err := engines.WaitReady(ctx); err != nil {
		return err
	}
	for _, e := range endpoints {
		cmd.Launch.WorkerURLs = append(cmd.Launch.WorkerURLs, e.URL)
	}
	return nil
}

// runBoth serves until ctx ends or no engine is left. The engines outlive the
// gateway's drain.
func runBoth(ctx context.Context, g *gateway.Gateway, engines *launcher.Group, ready func(gateway.Ready)) error {
	watched, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	serving, drain := context.WithCancel(ctx)
	defer drain()
	var group errgroup.Group
	group.Go(func() error {
		defer drain()
		return engines.Run(watched)
	})
	group.Go(func() error {
		defer unwatch()
		return g.Run(serving, ready)
	})
	return group.Wait()
}

// hint says where the gateway is and what to type next.
func hint(con io.Writer, log *slog.Logger, cmd *flags.Command, g *gateway.Gateway, model string) {
	if cmd.Launch.LogJSON {
		log.Info("serving", slog.String("api", g.API()), slog.String("metrics", g.Metrics()), slog.String("policy", cmd.Serve.PolicyLine()))
		return
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body, err := json.Marshal(struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
	}{model, []message{{"user", "Hello"}}})
	if err != nil { // strings always marshal
		return
	}
	fmt.Fprintf(con, "api       %s   policy %s\nmetrics   %s\ntry:      curl %s/v1/chat/completions -H 'Content-Type: application/json' -d '%s'\n",
		g.API(), cmd.Serve.PolicyLine(), g.Metrics(), g.API(), body)
}
