// Package selector wires the selector of one leg: it turns flags into the
// configuration of package legs, and runs one as a process of its own. It does not
// know the API or the built-in NATS server, so that the program of a leg links
// neither.
package selector

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/keys"
	"smg/cmd/internal/version"
	"smg/engine"
	"smg/engine/rpc"
	"smg/legs"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// Deps is what a selector works with.
type Deps struct {
	Bus        *bus.Conn
	Prober     Prober
	Log        *slog.Logger
	Registerer prometheus.Registerer
	RPC        *rpc.Client // nil: engines over gRPC are not asked for their events
}

// New is the selector of a leg that does nothing yet. replica is unique for each
// start. shared says that others may be on the bus, whom a new replica has to hear
// first.
func New(cfg *flags.Launch, leg worker.Leg, policyName string, replica worker.ReplicaID, shared bool, d Deps) (*Selector, error) {
	cluster, err := wire.ParseCluster(cfg.Cluster)
	if err != nil {
		return nil, err
	}
	c := legs.Config{
		Cluster: cluster, Leg: leg, Replica: replica, Build: version.String(),
		Policy: cfg.PolicyConfig(policyName), Keeper: keeperConfig(cfg), Loads: loadConfig(cfg), Endpoint: cfg.HealthCheckEndpoint,
		Rooms: legs.Rooms{Bound: leg == worker.Decode, Most: cfg.Sharing.MaxRooms},
	}
	if shared {
		c.Settle = worker.Settle
	}
	deps := legs.Deps{
		Bus: d.Bus, Prober: d.Prober, Loads: loadsFrom(d.Prober), Events: eventsFrom(cfg, d.Prober, d.RPC), Pins: pinStore(d.Bus, cluster.Pins(leg), c.Policy.Pins),
		Log: d.Log, Registerer: d.Registerer, Now: time.Now,
	}
	rec, err := recorder(cfg, leg, policyName, replica, d)
	if err != nil {
		return nil, err
	}
	if rec != nil {
		deps.Recorder = rec
		d.Log.Info("recording", slog.String("leg", leg.String()), slog.String("file", rec.Path()))
	}
	s, err := legs.New(c, deps)
	return &Selector{s, rec}, err
}

// maxPinMemory bounds the pins in a bus that is kept in memory, some 600,000 of
// them: there is to be room for the records of workers beside them.
const maxPinMemory = 128 << 20

// pinStore is the bucket of a leg's pins, which is made once there are any.
func pinStore(conn *bus.Conn, table wire.Table[worker.PinKey, worker.Pin], cfg policy.PinConfig) legs.PinStore {
	limits := bus.Limits{MaxMemory: maxPinMemory}
	if cfg.EvictionInterval > 0 { // else they are kept for ever
		limits.MaxIdle = cfg.MaxIdle
	}
	return bus.NewVersioned(conn, table, limits)
}

func keeperConfig(cfg *flags.Launch) worker.KeeperConfig {
	k := worker.DefaultKeeperConfig()
	k.Health = worker.HealthConfig{
		Interval: cfg.HealthCheckInterval, Timeout: cfg.HealthCheckTimeout,
		FailureThreshold: cfg.HealthFailureThreshold, SuccessThreshold: cfg.HealthSuccessThreshold,
		Disabled: cfg.DisableHealthCheck,
	}
	k.Breaker = worker.BreakerConfig{
		FailureThreshold: cfg.Breaker.FailureThreshold, SuccessThreshold: cfg.Breaker.SuccessThreshold,
		Timeout: cfg.Breaker.Timeout, Window: cfg.Breaker.Window, Disabled: cfg.Breaker.Disabled,
	}
	return k
}

// Prober lets selectors and registrars probe engines, each with its worker's key. One
// whose key cannot be opened here is not asked.
type Prober struct {
	Engines *engine.Prober
	Keys    *keys.Ring
}

// Health is nil when the worker answers well. It is safe for concurrent use.
func (p Prober) Health(ctx context.Context, s *worker.Spec, endpoint string) error {
	key, err := p.Keys.Open(s)
	if err != nil {
		return err
	}
	return p.Engines.Health(ctx, s.Base(), endpoint, key)
}

// Identify is which process a worker is, as far as its engine shows it. It is safe for
// concurrent use.
func (p Prober) Identify(ctx context.Context, s *worker.Spec) (worker.Process, error) {
	key, err := p.Keys.Open(s)
	if err != nil {
		return worker.Process{}, err
	}
	id, err := p.Engines.Identify(ctx, s.Base(), key, string(s.Runtime))
	return worker.Process{ID: id.ID, BootstrapPort: id.BootstrapPort}, err
}
