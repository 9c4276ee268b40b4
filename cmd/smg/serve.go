package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

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
		fmt.Fprintf(con, "%s - starting %d %s engines for %s\n", version.Line("smg"), cfg.Replicas, cfg.Backend, cfg.Model)
	}
	sig.onSecond(g.Hurry)
	sig.onThird(engines.Kill)
	if err := start(sig.ctx, cmd, engines); err != nil {
		err = errors.Join(err, engines.Stop(), g.Close())
		if code := sig.code(); code != 0 {
			return code
		}
		return flags.Report(con, err)
	}
	began := func(workers int, took time.Duration) {
		reportReady(con, log, cmd.Launch, workers, took)
		hint(con, log, cmd, g)
	}
	err = errors.Join(runBoth(sig.ctx, g, engines, began), engines.Stop())
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
func runBoth(ctx context.Context, g *gateway.Gateway, engines *launcher.Group, began func(int, time.Duration)) error {
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
		return g.Run(serving, began)
	})
	return group.Wait()
}

// hint says where the gateway is and what to type next.
func hint(con io.Writer, log *slog.Logger, cmd *flags.Command, g *gateway.Gateway) {
	if cmd.Launch.LogJSON {
		log.Info("serving", slog.String("api", g.API()), slog.String("metrics", g.Metrics()), slog.String("policy", cmd.Serve.PolicyLine()))
		return
	}
	body, err := json.Marshal(map[string]any{
		"model":    cmd.Serve.Engines.Model,
		"messages": []map[string]string{{"role": "user", "content": "Hello"}},
	})
	if err != nil { // strings always marshal
		return
	}
	fmt.Fprintf(con, "api       %s   policy %s\nmetrics   %s\ntry:      curl %s/v1/chat/completions -H 'Content-Type: application/json' -d '%s'\n",
		g.API(), cmd.Serve.PolicyLine(), g.Metrics(), g.API(), body)
}
