// Package gateway wires one process's services together: message bus, selector,
// selection client, registrar and API, in one process. It turns flags into
// configurations, binds what has to be bound before anything starts, and decides
// the order of start and stop. It has no behaviour of its own.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"smg/bootstrap"
	"smg/bus"
	"smg/bus/natsd"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/version"
	"smg/engine"
	"smg/ingress"
	"smg/legs"
	"smg/legs/client"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// Gateway is bound, but does not serve before [Gateway.Run].
type Gateway struct {
	cfg     *flags.Launch
	log     *slog.Logger
	reg     *prometheus.Registry
	api     net.Listener
	metrics net.Listener
	server  atomic.Pointer[ingress.Server] // from Run on
	hurried atomic.Bool
}

// Bind takes the ports that cfg names: the metrics port first, since a conflict
// must end the start. prefix is what the flags of the gateway carry in the command
// that runs it, such as "router-"; the flags of the API's address never carry it. The
// workers may still change until Run.
func Bind(cfg *flags.Launch, prefix string, log *slog.Logger) (*Gateway, error) {
	metrics, err := listen("--"+prefix+"prometheus-", cfg.PrometheusHost, cfg.PrometheusPort)
	if err != nil {
		return nil, err
	}
	api, err := listen("--", cfg.Host, cfg.Port)
	if err != nil {
		return nil, errors.Join(err, metrics.Close())
	}
	g := &Gateway{cfg: cfg, log: log, reg: prometheus.NewRegistry(), api: api, metrics: metrics}
	g.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return g, nil
}

// Close lets go of the ports of a gateway that was not run.
func (g *Gateway) Close() error { return errors.Join(g.api.Close(), g.metrics.Close()) }

// Hurry skips the rest of a drain. It is safe to call at any time.
func (g *Gateway) Hurry() {
	g.hurried.Store(true)
	if s := g.server.Load(); s != nil {
		s.Hurry()
	}
}

// API is where the API listens.
func (g *Gateway) API() string { return at(g.cfg.Host, g.api) }

// Metrics is where metrics are scraped.
func (g *Gateway) Metrics() string { return at(g.cfg.PrometheusHost, g.metrics) + "/metrics" }

// at is the URL of a listener, with the host as the operator wrote it.
func at(host string, l net.Listener) string {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil { // a TCP listener's address always has a port
		return "http://" + l.Addr().String()
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Ready is what is known once every worker that was named is ready.
type Ready struct {
	Workers int
	Model   string // of the first worker, "" if it names none
	Took    time.Duration
}

// Run serves until ctx ends, then drains; it returns nil after a drain. ready is
// called once, when every worker that was named is ready.
func (g *Gateway) Run(ctx context.Context, ready func(Ready)) (err error) {
	began := time.Now()
	server, err := natsd.Start(natsd.DefaultConfig(), g.log)
	if err != nil {
		return errors.Join(fmt.Errorf("starting the embedded message bus: %w", err), g.Close())
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	busConfig := bus.DefaultConfig()
	busConfig.Server = server
	conn, err := bus.Connect(busConfig, g.reg, g.log)
	if err != nil {
		return errors.Join(fmt.Errorf("joining the embedded message bus: %w", err), g.Close())
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	stages, fleet, err := g.build(conn)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	stages = append(stages, stage{"start-up", func(ctx context.Context) error {
		if n := g.awaitReady(ctx, fleet); n > 0 {
			ready(Ready{Workers: n, Model: fleet.Workers()[0].Spec.ModelID(), Took: time.Since(began)})
		}
		<-ctx.Done()
		return nil
	}})
	return runStages(ctx, stages)
}

// build makes every service and says in which order they start.
func (g *Gateway) build(conn *bus.Conn) ([]stage, *client.Client, error) {
	cfg := g.cfg
	cluster, err := wire.ParseCluster(cfg.Cluster)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now
	incarnation := uint64(now().UnixNano())
	prober := engine.NewProber(nil)
	engineConfig := engine.DefaultConfig()
	engineConfig.IdleTimeout = cfg.UpstreamPoolIdleTimeout
	engines, err := engine.New(engineConfig)
	if err != nil {
		return nil, nil, err
	}
	selectors, err := g.selectors(conn, cluster, incarnation, prober)
	if err != nil {
		return nil, nil, err
	}
	local := make([]client.Local, len(selectors))
	for i, sel := range selectors {
		local[i] = sel
	}
	workers := bus.NewBucket(conn, cluster.Workers())
	c, err := client.New(client.Config{
		Cluster: cluster, Name: "ingress", Incarnation: incarnation, Legs: modeOf(cfg).Legs(),
	}, client.Deps{Bus: conn, Workers: workers, Local: local, Log: g.log, Registerer: g.reg, Now: now})
	if err != nil {
		return nil, nil, err
	}
	registrar, err := bootstrap.NewRegistrar(registrarConfig(cfg), discoverer{health{prober}}, store{workers}, g.log)
	if err != nil {
		return nil, nil, err
	}
	server, err := ingress.New(ingressConfig(cfg), ingress.Deps{
		Selector: c, Dispatcher: engines, Fleet: c, Log: g.log, Registerer: g.reg, Now: now,
		ReadsKey: func() bool {
			return slices.ContainsFunc(selectors, func(sel *legs.Service) bool {
				_, reads := sel.Policy()
				return reads&policy.ReadsKey != 0
			})
		},
	})
	if err != nil {
		return nil, nil, err
	}
	if g.server.Store(server); g.hurried.Load() {
		server.Hurry()
	}
	stages := []stage{
		{"metrics", g.serveMetrics},
		{"engine connections", engines.Run},
		{"selection client", c.Run},
	}
	for _, sel := range selectors {
		stages = append(stages, stage{sel.Leg().String() + " selector", func(ctx context.Context) error {
			select {
			case <-c.Joined(): // its first beat is heard, or selection starts a beat later
			case <-ctx.Done():
				return nil
			}
			return sel.Run(ctx)
		}})
	}
	return append(stages,
		stage{"registration", func(ctx context.Context) error {
			defer prober.Close()
			return idle(ctx, registrar.Run)
		}},
		stage{"API", func(ctx context.Context) error { return server.Run(ctx, g.api) }},
	), c, nil
}

// selectors are the services of the legs that requests have, each with a policy of
// its own.
func (g *Gateway) selectors(conn *bus.Conn, cluster wire.Cluster, incarnation uint64, prober *engine.Prober) ([]*legs.Service, error) {
	var all []*legs.Service
	for _, leg := range modeOf(g.cfg).Legs() {
		sel, err := legs.New(legs.Config{
			Cluster: cluster, Leg: leg, Replica: worker.ReplicaID(incarnation), Build: version.String(),
			Policy: policy.Config{Policy: policyOf(g.cfg, leg)}, Keeper: keeperConfig(g.cfg), Endpoint: g.cfg.HealthCheckEndpoint,
			// The embedded bus has no listener: nobody else can be on it.
			Settle: 0,
		}, legs.Deps{Bus: conn, Prober: health{prober}, Log: g.log, Registerer: g.reg, Now: time.Now})
		if err != nil {
			return nil, err
		}
		all = append(all, sel)
	}
	return all, nil
}

// idle runs f and then waits for ctx: a stage that ends ends the gateway.
func idle(ctx context.Context, f func(context.Context) error) error {
	if err := f(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
