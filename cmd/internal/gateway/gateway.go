// Package gateway wires services together: message bus, selectors, selection client,
// registrar and API in one process, or the ingress's part of them, or all of them in
// child processes. It turns flags into configurations, binds what has to be bound
// before anything starts, and decides the order of start and stop. It has no
// behaviour of its own.
package gateway

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/cmd/internal/certs"
	"smg/cmd/internal/decisions"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/keys"
	"smg/cmd/internal/service"
	"smg/cmd/internal/terminal"
	"smg/ingress"
	"smg/record"
)

// Gateway is bound, but does not serve before [Gateway.Run].
type Gateway struct {
	cmd     *flags.Command
	cfg     *flags.Launch
	con     terminal.Console
	log     *slog.Logger
	reg     *prometheus.Registry
	api     net.Listener
	metrics net.Listener
	health  net.Listener // nil where only the API answers probes
	pprof   net.Listener // nil for none
	cert    *certs.Pair  // of the API, nil without TLS
	keys    *keys.Ring
	serving atomic.Bool                    // the API is, in this process
	secret  flags.Secret                   // made up here, for the children; "" where one was given
	server  atomic.Pointer[ingress.Server] // from Run on, if it is in this process
	family  atomic.Pointer[family]         // from Run on, if there are children
	hurried atomic.Bool
}

// Server is the built-in NATS server.
type Server interface {
	bus.Dialer
	// ClientURL is where it is reached by other processes, its credentials included.
	ClientURL() string
}

// Bind takes the ports that cmd names, or those that a parent has passed on: the
// metrics port first, since a conflict must end the start, as must a recording that
// cannot be written. The workers of cmd may
// still change until Run.
func Bind(cmd *flags.Command, con terminal.Console) (*Gateway, error) {
	g, err := bind(cmd, con)
	return g, cmd.Sourced(err)
}

func bind(cmd *flags.Command, con terminal.Console) (*Gateway, error) {
	cfg, prefix := cmd.Launch, cmd.Prefix() // the flags of the API's address never carry it
	if cfg.Record != "" {
		if err := record.Writable(cfg.Record); err != nil {
			return nil, &flags.Fault{
				What: "no recording can be made in the folder: " + reason(err).Error(), Where: "--" + prefix + "record " + cfg.Record,
				Hint: "give a file in a folder that can be written to", Code: flags.ExitFailure,
			}
		}
	}
	if !cfg.Bus.External() {
		if err := service.Free("--"+prefix+"nats-listen", cfg.Bus.Listen); err != nil {
			return nil, err
		}
	}
	metrics, err := service.Bind(service.EnvMetrics, "--"+prefix+"prometheus-", cfg.PrometheusHost, cfg.PrometheusPort)
	if err != nil {
		return nil, err
	}
	api, err := service.Bind(service.EnvListen, "--", cfg.Host, cfg.Port)
	if err != nil {
		return nil, errors.Join(err, metrics.Close())
	}
	health, err := bindHealth("--"+prefix+"health-check-", cfg)
	if err != nil {
		return nil, errors.Join(err, metrics.Close(), api.Close())
	}
	profiles, err := service.BindPprof(prefix, cfg.Trace.PprofAddr)
	if err != nil {
		return nil, errors.Join(err, metrics.Close(), api.Close(), closed(health))
	}
	g := &Gateway{cmd: cmd, cfg: cfg, con: con, log: con.Log, reg: service.NewRegistry(), api: api, metrics: metrics, health: health, pprof: profiles}
	if err = g.makeRing(); err == nil && cfg.Auth.TLS() {
		g.cert, err = certs.Load(cfg.Auth.TLSCert, cfg.Auth.TLSKey, g.log)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// reason is why a file could not be used, without the name of one that nobody has given.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// bindHealth is the listener for probes, nil where there is to be none.
func bindHealth(flag string, cfg *flags.Launch) (net.Listener, error) {
	if l, err := service.Inherited(service.EnvHealth); l != nil || err != nil {
		return l, err
	}
	if cfg.Trace.HealthPort == 0 {
		return nil, nil
	}
	return service.Listen(flag, cfg.Host, cfg.Trace.HealthPort)
}

// makeRing makes the ring for the keys of workers. Where nobody else can join, a secret
// that nobody was told will do.
func (g *Gateway) makeRing() (err error) {
	auth := &g.cfg.Auth
	if auth.ClusterSecret == "" && auth.APIKey == "" && !g.shared() {
		g.secret = flags.Secret(keys.NewSecret())
		auth.ClusterSecret = g.secret
	}
	g.keys, err = keys.RingOf(g.cfg)
	return err
}

// Close lets go of the ports of a gateway that was not run.
func (g *Gateway) Close() error {
	return errors.Join(g.api.Close(), g.metrics.Close(), closed(g.health), closed(g.pprof))
}

// closed closes a listener, if there is one.
func closed(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// Hurry skips the rest of a drain. It is safe to call at any time.
func (g *Gateway) Hurry() {
	g.hurried.Store(true)
	if s := g.server.Load(); s != nil {
		s.Hurry()
	}
	if f := g.family.Load(); f != nil {
		f.hurry()
	}
}

// Kill ends all child processes at once. It is safe to call at any time.
func (g *Gateway) Kill() {
	if f := g.family.Load(); f != nil {
		f.kill()
	}
}

// API is where the API listens.
func (g *Gateway) API() string {
	url := service.URL(g.cfg.Host, g.api)
	if g.cert != nil {
		url = "https" + strings.TrimPrefix(url, "http")
	}
	return url
}

// Metrics is where metrics are scraped.
func (g *Gateway) Metrics() string {
	return service.URL(g.cfg.PrometheusHost, g.metrics) + "/metrics"
}

// Ready is what is known once every worker that was named is ready.
type Ready struct {
	Workers int
	Model   string // of the first worker that was registered here, "" if it names none
	Took    time.Duration
}

// Run serves until ctx ends, then drains; it returns nil after a drain. server is the
// built-in NATS server, nil if there is another. ready is called once, when every
// worker that was named is ready.
func (g *Gateway) Run(ctx context.Context, server Server, ready func(Ready)) (err error) {
	began := time.Now()
	conn, err := service.Join(g.cfg.Bus, dialer(server), g.connectionName(), g.reg, g.log)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	build := g.build
	if g.cfg.Topology == flags.Split {
		build = g.split(server)
	}
	stages, workers, err := build(conn)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	if g.pprof != nil {
		stages = append(stages, service.Pprof(g.pprof, g.log, g.profiled()...))
	}
	stages = append(stages, service.AwaitBus(conn, g.cfg.Bus, g.busHint(), g.log), service.Stage{Name: "start-up", Run: func(ctx context.Context) error {
		if n := g.awaitReady(ctx, workers.Readiness); n > 0 {
			ready(Ready{Workers: n, Model: workers.model(), Took: time.Since(began)})
		}
		<-ctx.Done()
		return nil
	}})
	return service.RunStages(ctx, stages)
}

// profiled are the children, which show their profiles here.
func (g *Gateway) profiled() (all []service.Profiled) {
	if f := g.family.Load(); f != nil {
		for _, c := range f.all() {
			all = append(all, service.Profiled{Name: c.Name(), Page: c.page})
		}
	}
	return all
}

// connectionName is what the connection to the bus is called in log lines.
func (g *Gateway) connectionName() string {
	if g.cmd.Verb == flags.RunIngress {
		return "ingress"
	}
	return "smg"
}

// busHint is what to do when nobody is found at --nats-url.
func (g *Gateway) busHint() string {
	if g.cmd.Verb == flags.RunIngress {
		return "start it, or correct --nats-url"
	}
	return "start it, or omit --nats-url to use the built-in one"
}

// dialer is the server, and nil without one.
func dialer(s Server) bus.Dialer {
	if s == nil {
		return nil
	}
	return s
}

// fleet is what is known of the workers.
type fleet struct {
	*records
	readiness
}

// readiness tells whether the gateway can serve.
type readiness interface {
	Readiness() (ready bool, healthy, total int)
}

// readinessOf is what a parent asks a child for, nil where there is no parent.
func (g *Gateway) readinessOf(r readiness) func() (ready bool, healthy, total int) {
	if !service.IsChild() {
		return nil
	}
	return func() (ready bool, healthy, total int) {
		ready, healthy, total = r.Readiness()
		return ready && g.serving.Load(), healthy, total
	}
}

// certificate keeps the API's up to date.
func (g *Gateway) certificate() []service.Stage {
	if g.cert == nil {
		return nil
	}
	return []service.Stage{{Name: "API certificate", Run: g.cert.Run}}
}

// serveMetrics shows what gatherer has, and the decisions of selectors if there are
// any, on the metrics port.
func (g *Gateway) serveMetrics(gatherer prometheus.Gatherer, selectors []decisions.Source, ready func() (bool, int, int)) service.Stage {
	page := service.Page{Metrics: gatherer, Readiness: ready, Profiles: service.ShowsProfiles()}
	if len(selectors) > 0 {
		page.Decisions = decisions.Handler(selectors, g.log)
	}
	return service.Stage{Name: "metrics", Run: func(ctx context.Context) error {
		return service.ServePage(ctx, g.metrics, page, g.log)
	}}
}
