package client

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// subscribe listens to the replicas and keepers of every leg.
func (c *Client) subscribe(subs *bus.Subscriptions) error {
	for i, l := range c.legs {
		if l == nil {
			continue
		}
		leg := worker.Leg(i)
		bus.Join(subs, c.bus, c.cfg.Cluster.State(leg), func(m *wire.Records) {
			if !c.onState(leg, m) {
				c.missed(l, leg, c.now())
			}
		})
		bus.Join(subs, c.bus, c.cfg.Cluster.SnapshotOf(leg, c.cfg.Incarnation), func(m *wire.Records) {
			l.recall.answered()
			c.onState(leg, m)
		})
		bus.Join(subs, c.bus, c.cfg.Cluster.Loads(leg, c.cfg.Incarnation), c.loads.hear)
		bus.Join(subs, c.bus, c.cfg.Cluster.Snapshot(leg), func(ask *wire.Snapshot) { c.onSnapshot(leg, ask) })
		bus.Join(subs, c.bus, c.cfg.Cluster.Beat(leg), func(b *wire.Beat) { c.onBeat(l, b) })
	}
	bus.JoinReplies(subs, c.bus, c.inbox, c.onReply, c.onNobody)
	return subs.Err()
}

// onBeat ranks a replica of a leg, and notes what it reads of requests.
func (c *Client) onBeat(l *leg, b *wire.Beat) {
	if len(b.Policies) > 0 {
		l.policy.Store(b.Policies[0].Name)
		reads := wire.Reads(0)
		for _, p := range b.Policies {
			reads |= p.Reads
		}
		l.reads.Store(uint32(reads))
	}
	l.newcomers.hear(b.Replica, c.now())
	if l.ranking.Apply(worker.ReplicaBeat{Replica: b.Replica, Ready: b.Ready, Draining: b.Draining}, c.now()) {
		l.forget()
	}
	if !c.hasHeard() {
		c.change()
	}
}

// onState installs what keepers say, or others who have heard them. A keeper that has
// missed what was known before it is told: it may be all that is left of its leg's
// replicas. Whole says that, as far as can be seen, nothing was missed here.
func (c *Client) onState(leg worker.Leg, m *wire.Records) (whole bool) {
	now := c.now()
	records := make([]worker.Record, len(*m))
	var corrections wire.Records
	whole = true
	for i := range *m {
		records[i] = (*m)[i].Record(now)
		held, ok := c.registry.Record(records[i].Worker)
		if held.Epoch != records[i].Epoch || held.Process != records[i].Process {
			c.process(records[i].Worker, records[i].Epoch, records[i].Process)
		}
		if !ok || held.Keeper == 0 {
			continue
		}
		if held.Corrects(records[i]) {
			corrections = append(corrections, *wire.StateOf(held, now))
		}
		whole = whole && records[i].Follows(held)
	}
	c.registry.InstallAll(records)
	for i := range records {
		if records[i].Status != worker.Failed {
			continue
		}
		if held, _ := c.registry.Record(records[i].Worker); held.Status == worker.Failed {
			c.failed(held.Worker, held.Epoch)
		}
	}
	c.change()
	if len(corrections) > 0 {
		c.tell(c.cfg.Cluster.State(leg), &corrections)
	}
	return whole
}

// Offer makes a worker known to this client alone, ready as whoever registers it has
// seen it: so that it is usable before the message bus and the leg's keepers are.
func (c *Client) Offer(s *worker.Spec) {
	c.registry.Put(s)
	c.registry.Install(worker.Record{Worker: s.ID, Seq: 1, Status: worker.Ready}) // below any keeper's
	c.change()
}

// Withdraw takes back what was offered.
func (c *Client) Withdraw(id worker.ID) {
	c.registry.Remove(id)
	c.change()
}

// watchWorkers keeps the copy of who exists. Those that are there first are taken
// in together.
func (c *Client) watchWorkers(ctx context.Context) error {
	initial, synced := map[worker.ID]*worker.Spec{}, false
	return c.workers.Watch(ctx, bus.Events[worker.ID, worker.Spec]{
		Put: func(id worker.ID, s *worker.Spec) {
			if !synced {
				initial[id] = s
				return
			}
			c.registry.Put(s)
			c.told(id, s)
			c.change()
		},
		Delete: func(id worker.ID) {
			delete(initial, id)
			c.registry.Remove(id)
			c.told(id, nil)
			c.change()
		},
		Synced: func() {
			c.registry.Put(slices.Collect(maps.Values(initial))...)
			for id, s := range initial {
				c.told(id, s)
			}
			initial, synced = nil, true
			if c.synced.CompareAndSwap(false, true) {
				close(c.listed)
			}
			c.change()
		},
	})
}

// readiness is a snapshot of how many workers are ready.
type readiness struct {
	ready          bool
	healthy, total int
	sole           string // the only model of regular workers
	several        bool
}

// change has the readiness taken anew.
func (c *Client) change() {
	select {
	case c.changed <- struct{}{}:
	default: // due already
	}
}

// watchReadiness takes the readiness on every change and every second.
func (c *Client) watchReadiness(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		c.registry.Lapse(c.now())
		c.ready.Store(c.takeReadiness())
		if !c.hasHeard() && c.complete() {
			close(c.heard)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		case <-t.C:
		}
	}
}

// Heard is closed once the copy of the fleet is complete for the first time: every
// worker and its status is known, and every leg has a selector. One who began to
// serve before would refuse what the fleet can serve.
func (c *Client) Heard() <-chan struct{} { return c.heard }

func (c *Client) hasHeard() bool {
	select {
	case <-c.heard:
		return true
	default:
		return false
	}
}

// complete is whether there is nothing left to be heard.
func (c *Client) complete() bool {
	for _, l := range c.legs {
		if l != nil && l.ranking.Len() == 0 {
			return false
		}
	}
	for i := range c.legs {
		if c.registry.Census(worker.Leg(i)).Unheard > 0 {
			return false
		}
	}
	return c.synced.Load()
}

// takeReadiness counts. The fleet is ready when every leg that requests have, or any
// where that is enough, has a ready worker, and somebody to choose it.
func (c *Client) takeReadiness() *readiness {
	r := &readiness{ready: true}
	can := false
	for i, l := range c.legs {
		of := c.registry.Census(worker.Leg(i))
		r.total += of.Workers
		r.healthy += of.Ready
		if l != nil && (of.Ready == 0 || c.cfg.FailDegraded && l.ranking.Len() == 0) {
			r.ready = false
		} else if l != nil {
			can = true
		}
	}
	if c.cfg.AnyLeg {
		r.ready = can
	}
	for p := range c.registry.Pools {
		if p.Leg() != worker.Regular || p.Model() == "" {
			continue
		}
		if r.sole != "" {
			r.sole, r.several = "", true
			break
		}
		r.sole = p.Model()
	}
	if len(c.cfg.Aliases) > 0 || c.registry.Aliased() {
		r.sole, r.several = "", true // a name in the body may not be the one that workers know
	}
	return r
}

// Sole is the only model that regular workers serve and the only name of it, "" if there
// is none or several are, from a snapshot.
func (c *Client) Sole() (model string, several bool) {
	r := c.ready.Load()
	return r.sole, r.several
}

// Readiness is whether the fleet can serve, from a snapshot.
func (c *Client) Readiness() (ready bool, healthy, total int) {
	r := c.ready.Load()
	return r.ready, r.healthy, r.total
}

// Workers is everybody who is registered, in order.
func (c *Client) Workers() []*worker.Worker { return c.registry.Workers() }

// Models are the ids of all models that workers bring, as [worker.Registry.Models] has
// them.
func (c *Client) Models() (ids []string, generation uint64) { return c.registry.Models() }

// Lookup is a worker as this copy knows it, or nil.
func (c *Client) Lookup(id worker.ID) *worker.Worker { return c.registry.Lookup(id) }

// Overloaded says whether overload protection keeps requests from a worker now, as
// far as this copy knows.
func (c *Client) Overloaded(id worker.ID) bool { return c.registry.Overloaded(id) }

// Outdated says whether a worker was restarted since an epoch, as far as this copy
// knows.
func (c *Client) Outdated(leg worker.Leg, id worker.ID, epoch uint64) bool {
	return c.registry.Outdated(leg, id, epoch)
}

// Pairing says who of a model's prefill and decode workers can share a request, as far
// as this copy knows; nil where everybody can with everybody.
func (c *Client) Pairing(model string) *worker.Pairing { return c.registry.Pairing(model) }

// Alone says whether every decode worker of a model can serve requests by itself, as far
// as this copy knows.
func (c *Client) Alone(model string) bool { return c.registry.Alone(model) }

// Serves says whether a worker serves a model on a leg, as far as this copy knows.
func (c *Client) Serves(leg worker.Leg, model string, id worker.ID) bool {
	return c.registry.Serves(leg, model, id)
}

// Active is the number of own calls in flight at a worker, on all legs.
func (c *Client) Active(id worker.ID) int {
	n := 0
	for _, l := range c.legs {
		if l != nil {
			n += l.writer.Active(id)
		}
	}
	return n
}

var activeDesc = prometheus.NewDesc("smg_worker_requests_active",
	"Calls of this ingress in flight at a worker.", []string{"worker"}, nil)

// activeCollector reads the counts when somebody scrapes.
type activeCollector struct{ c *Client }

// Describe implements [prometheus.Collector].
func (a activeCollector) Describe(ch chan<- *prometheus.Desc) { ch <- activeDesc }

// Collect implements [prometheus.Collector].
func (a activeCollector) Collect(ch chan<- prometheus.Metric) {
	for _, w := range a.c.Workers() {
		ch <- prometheus.MustNewConstMetric(activeDesc, prometheus.GaugeValue, float64(a.c.Active(w.Spec.ID)), w.Spec.URL)
	}
}

// conflicts counts, when somebody scrapes, who is never chosen.
func (c *Client) conflicts() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "smg_bootstrap_conflicts",
		Help: "Workers that are not chosen because an earlier one has their bootstrap address.",
	}, func() float64 {
		n := 0
		for _, w := range c.Workers() {
			if strings.HasPrefix(w.Spec.Conflict, "bootstrap_port_conflict") {
				n++
			}
		}
		return float64(n)
	})
}
