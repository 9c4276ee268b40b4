package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"smg/bootstrap"
	"smg/bus"
	"smg/cmd/internal/selector"
	"smg/cmd/internal/service"
	"smg/engine"
	"smg/wire"
	"smg/worker"
)

// split makes the services that stay in this process, which registers the workers,
// and the children that are the others.
func (g *Gateway) split(server Server) func(*bus.Conn) ([]service.Stage, fleet, error) {
	return func(conn *bus.Conn) ([]service.Stage, fleet, error) {
		cluster, err := wire.ParseCluster(g.cfg.Cluster)
		if err != nil {
			return nil, fleet{}, err
		}
		rec := newRecords(bus.NewBucket(conn, cluster.Workers()), g.log)
		outward, err := selector.EnginesOf(g.cfg, g.log)
		if err != nil {
			return nil, fleet{}, err
		}
		prober := engine.NewProber(outward.Config)
		registrar, err := g.registrar(rec, prober)
		if err != nil {
			return nil, fleet{}, err
		}
		busURL := strings.Join(g.cfg.Bus.URLs, ",")
		if server != nil {
			busURL = server.ClientURL()
		}
		f, err := g.newFamily(busURL)
		if err != nil {
			return nil, fleet{}, err
		}
		if err := f.register(g.reg); err != nil {
			return nil, fleet{}, errors.Join(err, f.close())
		}
		if g.family.Store(f); g.hurried.Load() {
			f.hurry()
		}
		known := make(chan struct{}) // closed once the registrar has heard who is registered
		stages := append(outward.Stages(),
			g.serveMetrics(merged{own: g.reg, family: f, log: g.log}, f.decisions(), nil),
			service.Stage{Name: "children", Run: func(ctx context.Context) error {
				<-ctx.Done()
				return f.close()
			}},
			service.Stage{Name: "worker records", Run: rec.run},
			service.Stage{Name: "copy of worker records", Run: func(ctx context.Context) error {
				// It also puts again what the bucket may lose.
				heard := rec.told(registrar.Heard)
				return rec.bucket.Watch(ctx, bus.Events[worker.ID, worker.Spec]{
					Put:    heard,
					Delete: func(id worker.ID) { heard(id, nil) },
					Synced: sync.OnceFunc(func() { close(known) }),
				})
			}},
			service.Stage{Name: "processes of workers", Run: func(ctx context.Context) error {
				return hearProcesses(ctx, conn, cluster, legsOf(g.cfg), registrar)
			}},
		)
		for _, c := range f.selectors {
			stages = append(stages, service.Stage{Name: c.Name(), Run: c.Run})
		}
		return append(stages, registration(registrar, prober, func(ctx context.Context) { listed(ctx, conn, known) }), service.Stage{Name: f.ingress.Name(), Run: f.ingress.Run}),
			fleet{rec, remote{f.client, f.ingress.page}}, nil
	}
}

// hearProcesses tells the registrar what keepers say of the processes behind workers'
// URLs, until ctx ends.
func hearProcesses(ctx context.Context, conn *bus.Conn, cluster wire.Cluster, legs []worker.Leg, registrar *bootstrap.Registrar) error {
	subs := &bus.Subscriptions{}
	for _, leg := range legs {
		bus.Join(subs, conn, cluster.State(leg), func(m *wire.Records) {
			for i := range *m {
				registrar.Process((*m)[i].Worker, (*m)[i].Epoch, (*m)[i].Process)
				if (*m)[i].Status == worker.Failed {
					registrar.Failed((*m)[i].Worker, (*m)[i].Epoch)
				}
			}
		})
	}
	if err := subs.Err(); err != nil {
		return errors.Join(err, subs.Stop())
	}
	<-ctx.Done()
	return subs.Stop()
}

// remote is the readiness of an API in another process, which it shows beside its
// metrics: the API itself may be for those alone who trust its certificate.
type remote struct {
	client *http.Client
	page   string
}

// remoteWait bounds one look.
const remoteWait = time.Second

// Readiness asks the API.
func (r remote) Readiness() (ready bool, healthy, total int) {
	ctx, cancel := context.WithTimeout(context.Background(), remoteWait)
	defer cancel()
	var answer service.Readiness
	err := fetch(ctx, r.client, r.page+service.ReadinessPath, func(resp *http.Response) error {
		return json.NewDecoder(resp.Body).Decode(&answer)
	})
	return err == nil, answer.Healthy, answer.Total
}

// apiURL is where this process reaches a listener of its own machine.
func apiURL(l net.Listener) string {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsUnspecified() {
		return "http://" + l.Addr().String()
	}
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.Port)) // every wildcard takes IPv4
}
