package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
	"smg/cmd/internal/version"
	"smg/launcher"
	"smg/worker"
)

// routerPrefix is what the gateway's flags carry in serve.
const routerPrefix = "router-"

// serve starts engines, waits for them and serves them. The gateway's ports are
// bound first, so that a conflict costs seconds and not a model load.
func serve(cmd *flags.Command) int {
	con := newConsole(cmd.Launch)
	g, err := gateway.Bind(cmd.Launch, routerPrefix, con.log)
	if err != nil {
		return con.fail(err)
	}
	sig := watchSignals(con.log)
	defer sig.stop()
	cfg := cmd.Serve.Engines
	cfg.Color = isTerminal() && !cmd.Launch.NoColor && os.Getenv("NO_COLOR") == ""
	engines, err := launcher.New(cfg, con.Console, con.log)
	if err != nil {
		return con.fail(errors.Join(err, g.Close()))
	}
	announce(con, cmd)
	sig.onSecond(g.Hurry)
	sig.onThird(engines.Kill)
	if err = start(sig.ctx, cmd, engines); err != nil {
		if sig.code() != 0 {
			err = nil // whoever stops the engines knows why they are not ready
		}
		err = errors.Join(err, g.Close())
	} else {
		err = runBoth(sig.ctx, g, engines, func(r gateway.Ready) {
			reportReady(con, cmd.Launch, r)
			hint(con, cmd, g, r.Model)
		})
	}
	con.stopping(engines, cfg.StopTimeout, err)
	code := con.fail(errors.Join(err, engines.Stop()))
	if stopped := sig.code(); stopped != 0 {
		return stopped
	}
	return code
}

// announce says what is being started.
func announce(con console, cmd *flags.Command) {
	cfg := cmd.Serve.Engines
	if con.json {
		con.log.Info("startup", slog.String("version", version.String()), slog.String("mode", "serve"), slog.String("backend", cfg.Backend),
			slog.String("model", cfg.Model), slog.Int("engines", cfg.Total()), slog.String("policy", cmd.Launch.Policy))
		con.remarks(cmd)
		return
	}
	what := counted(cfg.Total(), cfg.Backend+" engine") + " (" + cmd.Serve.ConnectionMode + ")"
	if cfg.Model != "" {
		what += " for " + cfg.Model
	}
	con.say("%s - starting %s", version.Line("smg"), what)
	con.remarks(cmd)
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
	l := cmd.Launch
	for _, e := range endpoints {
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
	return nil
}

// runBoth serves until ctx ends or no engine is left. The engines outlive the
// gateway's drain.
func runBoth(ctx context.Context, g *gateway.Gateway, engines *launcher.Group, ready func(gateway.Ready)) error {
	watched, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	serving, drain := context.WithCancel(ctx)
	var lost error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer drain()
		lost = engines.Run(watched)
	})
	err := g.Run(serving, ready)
	unwatch()
	wg.Wait()
	return errors.Join(lost, err)
}

// hint says where the gateway is and what to type next.
func hint(con console, cmd *flags.Command, g *gateway.Gateway, model string) {
	policy := cmd.Serve.PolicyLine()
	if con.json {
		con.log.Info("serving", slog.String("api", g.API()), slog.String("metrics", g.Metrics()), slog.String("policy", policy))
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
	con.say("api       %s   policy %s\nmetrics   %s\ntry:      curl %s -H 'Content-Type: application/json' -d %s",
		g.API(), policy, g.Metrics(), shellWord(g.API()+"/v1/chat/completions"), quoted(string(body)))
}

// shellWord quotes what a shell would expand, such as the brackets of an IPv6 host.
func shellWord(s string) string {
	if strings.ContainsAny(s, "[]") {
		return quoted(s)
	}
	return s
}

// quoted is s as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
