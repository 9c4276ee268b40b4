package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
	"smg/cmd/internal/terminal"
	"smg/cmd/internal/version"
	"smg/launcher"
	"smg/worker"
)

// serve starts engines, waits for them and serves them. The gateway's ports are
// bound first, so that a conflict costs seconds and not a model load.
func serve(cmd *flags.Command) int {
	if cmd.Launch.DryRun {
		return planServe(cmd, os.Stdout, os.Stderr)
	}
	con, err := terminal.NewConsole(cmd)
	if err != nil {
		return con.Fail(err)
	}
	g, err := gateway.Bind(cmd, con)
	if err != nil {
		return con.Fail(err)
	}
	sig := terminal.WatchSignals(con.Log)
	defer sig.Stop()
	cfg := cmd.Serve.Engines
	cfg.Watchdog = watchdog()
	cfg.Color = con.Color
	removeMedia, err := mediaFolder(&cfg)
	if err != nil {
		return con.Fail(errors.Join(err, g.Close()))
	}
	defer removeMedia()
	engines, err := launcher.New(cfg, con.Console, con.Log)
	if err != nil {
		return con.Fail(errors.Join(err, g.Close()))
	}
	announce(con, cmd)
	sig.OnSecond(g.Hurry)
	sig.OnThird(g.Kill)
	sig.OnThird(engines.Kill)
	if err = start(sig.Context(), cmd, engines); err != nil {
		if sig.Code() != 0 {
			err = nil // whoever stops the engines knows why they are not ready
		}
		err = errors.Join(err, g.Close())
	} else {
		err = withBus(cmd, con.Log, func(server gateway.Server) error {
			return runBoth(sig.Context(), g, server, engines, func(r gateway.Ready) {
				g.ReportReady(r)
				hint(con, cmd, g, r.Model)
			})
		})
	}
	stopping(con, engines, cfg.StopTimeout, err)
	code := con.Fail(errors.Join(err, engines.Stop()))
	if stopped := sig.Code(); stopped != 0 {
		return stopped
	}
	return code
}

// announce says what is being started.
func announce(con terminal.Console, cmd *flags.Command) {
	cfg := cmd.Serve.Engines
	if con.JSON {
		con.Log.Info("startup", slog.String("version", version.String()), slog.String("mode", "serve"), slog.String("backend", cfg.Backend),
			slog.String("model", cfg.Model), slog.Int("engines", cfg.Total()), slog.String("policy", cmd.Launch.Policy))
		con.Remarks(cmd)
		return
	}
	what := terminal.Counted(cfg.Total(), cfg.Backend+" engine") + " (" + cmd.Serve.ConnectionMode + ")"
	if cfg.Model != "" {
		what += " for " + cfg.Model
	}
	con.Say("%s - starting %s", version.Line("smg"), what)
	con.Remarks(cmd)
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
		join(cmd.Launch, e)
	}
	return nil
}

// join gives an engine to the gateway as a worker.
func join(l *flags.Launch, e launcher.Endpoint) {
	w := flags.LegWorker{URL: e.URL, BootstrapPort: e.BootstrapPort}
	switch e.Role {
	case worker.Regular:
		l.WorkerURLs = append(l.WorkerURLs, e.URL)
	case worker.Encode:
		l.Encode = append(l.Encode, w)
	case worker.Prefill:
		l.Prefill = append(l.Prefill, w)
	case worker.Decode:
		l.Decode = append(l.Decode, e.URL)
	}
}

// mediaFolder makes the folder where encoders leave embeddings for other engines.
func mediaFolder(cfg *launcher.Config) (remove func(), err error) {
	if cfg.Encode == 0 || cfg.Backend != launcher.BackendVLLM {
		return func() {}, nil
	}
	cfg.MediaDir, err = os.MkdirTemp("", mediaPattern)
	if err != nil {
		return nil, fmt.Errorf("making a folder for embeddings: %w", err)
	}
	return func() { _ = os.RemoveAll(cfg.MediaDir) }, nil // what is left is in the way of nobody
}

const mediaPattern = "smg-embeddings-*"

// runBoth serves until ctx ends or no engine is left. The engines outlive the
// gateway's drain.
func runBoth(ctx context.Context, g *gateway.Gateway, server gateway.Server, engines *launcher.Group, ready func(gateway.Ready)) error {
	watched, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	serving, drain := context.WithCancel(ctx)
	var lost error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer drain()
		lost = engines.Run(watched)
	})
	err := g.Run(serving, server, ready)
	unwatch()
	wg.Wait()
	return errors.Join(lost, err)
}

// hint says where the gateway is and what to type next.
func hint(con terminal.Console, cmd *flags.Command, g *gateway.Gateway, model string) {
	policy := cmd.Serve.PolicyLine()
	if con.JSON {
		con.Log.Info("serving", slog.String("api", g.API()), slog.String("metrics", g.Metrics()), slog.String("policy", policy))
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
	key := ""
	if cmd.Launch.Auth.APIKey != "" {
		key = ` -H "Authorization: Bearer $SMG_API_KEY"` // as the user has it, and not here
	}
	con.Say("api       %s   policy %s\nmetrics   %s\ntry:      curl %s -H 'Content-Type: application/json'%s -d %s",
		g.API(), policy, g.Metrics(), terminal.ShellWord(g.API()+"/v1/chat/completions"), key, terminal.Quoted(string(body)))
}

// stopping tells that the engines are about to be stopped, which may take a while,
// and why, if that is a failure. Its whole report comes last, where it is found.
func stopping(con terminal.Console, engines *launcher.Group, limit time.Duration, why error) {
	n := len(engines.Processes())
	if n == 0 {
		return
	}
	attrs := []any{slog.Int("engines", n), slog.Duration("limit", limit)}
	if why != nil {
		attrs = append(attrs, slog.String("reason", why.Error()))
	}
	con.Log.Info("stopping engines", attrs...)
}
