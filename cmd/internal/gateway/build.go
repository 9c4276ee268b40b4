package gateway

import (
	"context"
	"net"
	"os"
	"time"

	"smg/bootstrap"
	"smg/bus"
	"smg/cmd/internal/decisions"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/selector"
	"smg/cmd/internal/service"
	"smg/engine"
	"smg/ingress"
	"smg/legs/client"
	"smg/wire"
	"smg/worker"
)

// build makes every service of this process and says in which order they start.
func (g *Gateway) build(conn *bus.Conn) ([]service.Stage, fleet, error) {
	cfg := g.cfg
	cluster, err := wire.ParseCluster(cfg.Cluster)
	if err != nil {
		return nil, fleet{}, err
	}
	incarnation := uint64(time.Now().UnixNano())
	outward, err := selector.EnginesOf(cfg, g.log)
	if err != nil {
		return nil, fleet{}, err
	}
	prober := engine.NewProber(outward.Config)
	engines, err := engine.New(outward.Config)
	if err != nil {
		return nil, fleet{}, err
	}
	selectors, err := g.selectors(conn, incarnation, prober)
	if err != nil {
		return nil, fleet{}, err
	}
	local, sources := make([]client.Local, len(selectors)), make([]decisions.Source, len(selectors))
	for i, sel := range selectors {
		local[i], sources[i] = sel, decisions.Of(sel.Service)
	}
	rec := newRecords(bus.NewBucket(conn, cluster.Workers()), g.log)
	registrar, err := g.registrar(rec, prober)
	if err != nil {
		return nil, fleet{}, err
	}
	c, err := client.New(client.Config{
		Cluster: cluster, Name: g.name(), Incarnation: incarnation, Legs: legsOf(cfg), AnyLeg: cfg.EnableIGW, Aliases: aliases(cfg.Models.Aliases),
		PlanTimeout: cfg.PlanTimeout, FailDegraded: cfg.FailDegraded,
	}, client.Deps{Bus: conn, Workers: rec.bucket, Heard: rec.told(registrar.Heard), Process: registrar.Process, Failed: registrar.Failed, Local: local, Log: g.log, Registerer: g.reg, Now: time.Now})
	if err != nil {
		return nil, fleet{}, err
	}
	rec.alone = c
	tracer, traces, err := g.tracer()
	if err != nil {
		return nil, fleet{}, err
	}
	icfg := ingressConfig(cfg)
	if g.cert != nil {
		icfg.TLS = g.cert.Server()
	}
	server, err := ingress.New(icfg, ingress.Deps{
		Tracer:   tracer,
		Selector: c, Dispatcher: engines, Fleet: c, Registrar: registrar, Selection: c, Log: g.log, Registerer: g.reg, Now: time.Now,
		Reads: c.Reads, Loads: c.EngineLoads, MooncakeEngines: prober.MooncakeEngines, Keys: g.keys,
	})
	if err != nil {
		return nil, fleet{}, err
	}
	if g.server.Store(server); g.hurried.Load() {
		server.Hurry()
	}
	stages := append(outward.Stages(), g.certificate()...)
	if g.health != nil { // below all that requests need, so that it outlives them
		stages = append(stages, service.Stage{Name: "probes", Run: func(ctx context.Context) error {
			return service.ServeProbes(ctx, g.health, server.Probes(), g.log)
		}})
	}
	stages = append(stages,
		g.serveMetrics(g.reg, sources, g.readinessOf(c)),
		service.Stage{Name: "engine connections", Run: engines.Run},
		service.Stage{Name: "selection client", Run: c.Run},
		service.Stage{Name: "worker records", Run: rec.run},
	)
	stages = append(stages, traces...)
	for _, sel := range selectors {
		stages = append(stages, service.Stage{Name: sel.Leg().String() + " selector", Run: func(ctx context.Context) error {
			select {
			case <-c.Joined(): // its first beat is heard, or selection starts a beat later
			case <-ctx.Done():
				return nil
			}
			return sel.Run(ctx)
		}})
	}
	return append(stages,
		registration(registrar, prober, func(ctx context.Context) { listed(ctx, conn, c.Listed()) }),
		service.Stage{Name: "API", Run: func(ctx context.Context) error {
			if service.IsChild() {
				hear(ctx, c)
			}
			g.serving.Store(true)
			return server.Run(ctx, g.api)
		}},
	), fleet{rec, c}, nil
}

// hearWithin bounds how long a child waits before it serves. Keepers repeat
// themselves every 3 s.
const hearWithin = 4 * time.Second

// hear waits until an ingress that was started, perhaps again, knows the fleet. The
// listener that it inherits holds those who come meanwhile.
func hear(ctx context.Context, c *client.Client) {
	t := time.NewTimer(hearWithin)
	defer t.Stop()
	select {
	case <-c.Heard():
	case <-t.C:
	case <-ctx.Done():
	}
}

// selectors are those of the legs that requests have, each with a policy of its own;
// none where they are other processes.
func (g *Gateway) selectors(conn *bus.Conn, incarnation uint64, prober *engine.Prober) ([]*selector.Selector, error) {
	if g.cmd.Verb == flags.RunIngress {
		return nil, nil
	}
	var all []*selector.Selector
	for _, leg := range legsOf(g.cfg) {
		sel, err := selector.New(g.cfg, leg, policyOf(g.cfg, leg), worker.ReplicaID(incarnation), g.shared(),
			selector.Deps{Bus: conn, Prober: selector.Prober{Engines: prober, Keys: g.keys}, Log: g.log, Registerer: g.reg})
		if err != nil {
			return nil, err
		}
		all = append(all, sel)
	}
	return all, nil
}

// shared says whether other processes can be on the bus.
func (g *Gateway) shared() bool { return g.cfg.Bus.External() || g.cfg.Bus.Listen != "" }

// name tells this ingress from others on the bus. It is the same after a restart.
func (g *Gateway) name() string {
	_, port, err := net.SplitHostPort(g.api.Addr().String())
	host, hostErr := os.Hostname()
	if err != nil || hostErr != nil {
		return "ingress"
	}
	return host + ":" + port
}

// registrar registers the workers that the command line names, and those that are
// added.
func (g *Gateway) registrar(rec *records, prober *engine.Prober) (*bootstrap.Registrar, error) {
	cfg, err := registrarConfig(g.cfg, g.keys)
	if err != nil {
		return nil, err
	}
	return bootstrap.NewRegistrar(cfg, discoverer{selector.Prober{Engines: prober, Keys: g.keys}, g.cfg.Models.Backend}, rec, g.log)
}

// registration registers workers, after wait.
func registration(r *bootstrap.Registrar, prober *engine.Prober, wait func(context.Context)) service.Stage {
	return service.Stage{Name: "registration", Run: func(ctx context.Context) error {
		defer prober.Close()
		wait(ctx)
		return r.Run(ctx)
	}}
}

// listedWithin bounds the wait for the bucket of workers.
const listedWithin = time.Second

// listed waits until it is known who is registered already, so that nobody is taken for
// a new worker because an ingress has come. Where there is no bus nobody waits: the
// workers of the command line can be used at once.
func listed(ctx context.Context, conn *bus.Conn, known <-chan struct{}) {
	if !conn.Connected() {
		return
	}
	t := time.NewTimer(listedWithin)
	defer t.Stop()
	select {
	case <-known:
	case <-t.C:
	case <-ctx.Done():
	}
}
