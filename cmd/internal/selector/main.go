package selector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/cmd/internal/decisions"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/keys"
	"smg/cmd/internal/service"
	"smg/cmd/internal/terminal"
	"smg/cmd/internal/version"
	"smg/engine"
	"smg/worker"
)

// Main runs the selector command until a signal comes and returns the exit code.
func Main(cmd *flags.Command) int {
	con, err := terminal.NewConsole(cmd)
	if err != nil {
		return con.Fail(err)
	}
	page, err := service.Bind(service.EnvMetrics, "--prometheus-", cmd.Launch.PrometheusHost, cmd.Launch.PrometheusPort)
	if err != nil {
		return con.Fail(cmd.Sourced(err))
	}
	profiles, err := service.BindPprof("", cmd.Launch.Trace.PprofAddr)
	if err != nil {
		return con.Fail(errors.Join(cmd.Sourced(err), page.Close()))
	}
	sig := terminal.WatchSignals(con.Log)
	defer sig.Stop()
	introduce(con, cmd, page)
	return con.Fail(run(sig.Context(), cmd.Launch, page, profiles, con.Log))
}

// introduce says what is being started. A parent has said so already.
func introduce(con terminal.Console, cmd *flags.Command, page net.Listener) {
	if service.IsChild() {
		return
	}
	l := cmd.Launch
	metrics := service.URL(l.PrometheusHost, page) + "/metrics"
	if con.JSON {
		con.Log.Info("startup", slog.String("version", version.String()), slog.String("mode", "selector"), slog.String("leg", l.Leg.String()),
			slog.String("policy", l.Policy), slog.String("bus", l.Bus.Servers()), slog.String("metrics", metrics))
	} else {
		con.Say("%s\nmode      selector of the %s leg   policy %s\nbus       %s   cluster %s\nmetrics   %s",
			version.Line("smg-selector"), l.Leg, l.Policy, l.Bus.Servers(), l.Cluster, metrics)
	}
	con.Remarks(cmd)
}

// run serves until ctx ends.
func run(ctx context.Context, cfg *flags.Launch, page, profiles net.Listener, log *slog.Logger) (err error) {
	reg := service.NewRegistry()
	conn, err := service.Join(cfg.Bus, nil, cfg.Leg.String()+" selector", reg, log)
	if err != nil {
		return errors.Join(err, page.Close())
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ring, err := keys.RingOf(cfg)
	if err != nil {
		return errors.Join(err, page.Close())
	}
	engines, err := EnginesOf(cfg, log)
	if err != nil {
		return errors.Join(err, page.Close())
	}
	prober := Prober{engine.NewProber(engines.Config), ring}
	defer prober.Engines.Close()
	s, err := New(cfg, cfg.Leg, cfg.Policy, worker.ReplicaID(time.Now().UnixNano()), true,
		Deps{Bus: conn, Prober: prober, Log: log, Registerer: prometheus.Registerer(reg)})
	if err != nil {
		return errors.Join(fmt.Errorf("making the selector: %w", err), page.Close())
	}
	shown := service.Page{
		Metrics: reg, Decisions: decisions.Handler([]decisions.Source{decisions.Of(s.Service)}, log),
		Ready: func() bool { return conn.Connected() && s.Ready() }, Profiles: service.ShowsProfiles(),
	}
	stages := append(engines.Stages(),
		service.Stage{Name: "metrics", Run: func(ctx context.Context) error { return service.ServePage(ctx, page, shown, log) }},
		service.AwaitBus(conn, cfg.Bus, "start it, or correct --nats-url", log),
		service.Stage{Name: "selector", Run: s.Run},
	)
	if profiles != nil {
		stages = append(stages, service.Pprof(profiles, log))
	}
	return service.RunStages(ctx, stages)
}
