// Package client is the ingress's side of selection. It knows whom to ask, tells
// everybody which calls are in flight, and keeps a copy of who exists and how they
// are. It does not know policies or bodies.
//
// State and its owner: the lease writers, the registry copy and the ranking are
// safe for concurrent use. One goroutine publishes; the bus's callbacks feed the
// copy.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// Local is a selector replica in this process: asking it is a function call.
type Local interface {
	Leg() worker.Leg
	Replica() worker.ReplicaID
	Reads() wire.Reads
	Select(ask *wire.Select) (wire.Pick, error)
}

// Config is who the ingress is.
type Config struct {
	Cluster wire.Cluster
	// Name tells ingresses that run at the same time apart; a restarted one keeps
	// it. Incarnation rises from start to start.
	Name        string
	Incarnation uint64
	// Legs are those that a request can have, the one that the fleet needs first.
	Legs []worker.Leg
	// AnyLeg: one leg with a ready worker is enough for the fleet to be ready.
	AnyLeg bool
	// Aliases are other names of models, for where no worker brings them. The map is the
	// client's own.
	Aliases map[string]string
	// PlanTimeout is how long a leg's selector may take to answer. Then, and while
	// nobody can be asked, the client chooses from its own copy of the fleet, unless
	// FailDegraded.
	PlanTimeout  time.Duration
	FailDegraded bool
}

// Deps is what a Client works with.
type Deps struct {
	Bus *bus.Conn
	// Workers is where worker records are kept. The client watches it, so whoever
	// puts records into it has them put again after a loss of the bucket.
	Workers *bus.Bucket[worker.ID, worker.Spec]
	// Heard, if not nil, is told of every worker that is registered, once the copy
	// knows it, and with nil of every removal. It must not block for long.
	Heard func(worker.ID, *worker.Spec)
	// Process, if not nil, is told of every process that is new behind a worker's URL, as
	// its keeper says. It must not block.
	Process func(id worker.ID, epoch uint64, p worker.Process)
	// Failed, if not nil, is told of workers that do not get well again, and again as
	// long as they are registered.
	Failed     func(id worker.ID, epoch uint64)
	Local      []Local
	Log        *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Client selects workers for an ingress. It is safe for concurrent use.
type Client struct {
	cfg      Config
	bus      *bus.Conn
	workers  *bus.Bucket[worker.ID, worker.Spec]
	told     func(worker.ID, *worker.Spec)
	process  func(worker.ID, uint64, worker.Process)
	failed   func(worker.ID, uint64)
	log      *slog.Logger
	now      func() time.Time
	plans    *worker.Plans
	legs     [legCount]*leg // by worker.Leg, nil where a request has none
	registry *worker.Registry
	ready    atomic.Pointer[readiness]
	changed  chan struct{} // holds one: the fleet has changed since readiness was taken
	joined   chan struct{} // closed once the client hears selectors
	listed   chan struct{} // closed once synced
	heard    chan struct{} // closed once the copy is complete
	synced   atomic.Bool   // the bucket of workers has been read
	inbox    wire.Topic[wire.Reply]
	metrics  *prometheus.CounterVec // degraded selections
	waiting  waiting
	late     time.Duration                   // hedgeAfter, but in tests
	post     func(*peer, *wire.Select) error // over the bus, but in tests
	replied  func(*wire.Reply)               // onReply, made once
	failures failures
	loads    *loads
}

const legCount = int(worker.Decode) + 1

// leg is what the client has of one leg.
type leg struct {
	ranking   *worker.Ranking
	newcomers newcomers
	excluded  *worker.Exclusion
	writer    *worker.LeaseWriter
	local     map[worker.ReplicaID]Local
	silent    atomic.Int64  // selects that wait although all who were asked are late
	owed      atomic.Int64  // time-outs since a replica answered last
	degraded  atomic.Bool   // the last select was
	fullUntil atomic.Int64  // until when all workers are taken to be full, in Unix nanoseconds
	waiting   atomic.Int64  // selects that wait for one with room
	mute      atomic.Bool   // a select that could not be sent was logged
	policy    atomic.Value  // string: the name that replicas announce
	reads     atomic.Uint32 // wire.Reads: what its policies read, as replicas announce
	memory    memory        // of keys that are pinned
	peers     sync.Map      // worker.ReplicaID → *peer
	recall    recall
	recalled  atomic.Int64 // when a gap was last asked about, in Unix nanoseconds
	leases    wire.Topic[worker.Batch]
	due       *time.Timer   // fires when the batch that has begun is old enough
	full      chan struct{} // holds one: a batch is full
}

// New is a client that does nothing yet. See [Client.Run].
func New(cfg Config, d Deps) (*Client, error) {
	c := &Client{
		cfg: cfg, bus: d.Bus, workers: d.Workers, log: d.Log, now: d.Now, plans: worker.NewPlans(cfg.Incarnation),
		// The copy counts nothing: what is in flight here is with the lease writers.
		registry: worker.NewRegistry(worker.NewFold(), 0),
		told:     d.Heard,
		process:  d.Process,
		failed:   d.Failed,
		changed:  make(chan struct{}, 1),
		joined:   make(chan struct{}),
		listed:   make(chan struct{}),
		heard:    make(chan struct{}),
		inbox:    cfg.Cluster.Replies(cfg.Incarnation),
		metrics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "smg_selection_degraded_total",
			Help: "Workers chosen without a selector, from the ingress's own copy of the fleet.",
		}, []string{"leg", "reason"}),
		waiting:  waiting{asks: map[worker.LeaseID]*wait{}},
		late:     hedgeAfter,
		failures: failures{at: map[worker.ID]time.Time{}},
		loads:    newLoads(),
	}
	c.replied = c.onReply
	c.post = func(p *peer, ask *wire.Select) error { return bus.Request(c.bus, p.service, ask, c.inbox) }
	if c.told == nil {
		c.told = func(worker.ID, *worker.Spec) {}
	}
	if c.process == nil {
		c.process = func(worker.ID, uint64, worker.Process) {}
	}
	if c.failed == nil {
		c.failed = func(worker.ID, uint64) {}
	}
	c.ready.Store(&readiness{})
	for _, l := range cfg.Legs {
		c.legs[l] = &leg{
			ranking:  worker.NewRanking(),
			excluded: worker.NewExclusion(),
			writer:   worker.NewLeaseWriter(cfg.Name, cfg.Incarnation, l),
			local:    map[worker.ReplicaID]Local{},
			leases:   cfg.Cluster.Leases(l),
			due:      stoppedTimer(),
			full:     make(chan struct{}, 1),
		}
	}
	for _, l := range d.Local {
		if c.legs[l.Leg()] == nil {
			return nil, fmt.Errorf("a selector of the %s leg runs here, but no request has that leg", l.Leg())
		}
		c.legs[l.Leg()].local[l.Replica()] = l
	}
	for _, col := range []prometheus.Collector{activeCollector{c}, c.conflicts(), c.metrics} {
		if err := d.Registerer.Register(col); err != nil {
			return nil, fmt.Errorf("registering the metrics of selection: %w", err)
		}
	}
	return c, nil
}

// Joined is closed once Run hears selectors: what they publish from then on is not
// missed.
func (c *Client) Joined() <-chan struct{} { return c.joined }

// Listed is closed once the client knows who was registered when it came.
func (c *Client) Listed() <-chan struct{} { return c.listed }

// Reads is what a leg's policies read of a request now, as its replicas announce.
func (c *Client) Reads(leg worker.Leg) wire.Reads {
	l := c.legs[leg]
	if l == nil {
		return 0
	}
	reads := wire.Reads(l.reads.Load())
	for _, local := range l.local { // before their first beat is heard
		reads |= local.Reads()
	}
	return reads
}

// Plan draws the identity of a new plan.
func (c *Client) Plan() worker.LeaseID { return c.plans.Lease(c.plans.Next(), worker.Regular, 0) }

// Head says that the answer to a probe has begun well.
func (c *Client) Head(id worker.LeaseID) {
	if l := c.legs[id.Leg]; l != nil {
		l.wake(l.writer.Head(id))
	}
}

// End ends a lease that Select began. Ending it twice is harmless.
func (c *Client) End(id worker.LeaseID, outcome worker.Outcome, unreached bool) {
	if l := c.legs[id.Leg]; l != nil {
		if outcome == worker.Failure {
			c.failures.note(l.writer.Worker(id), c.now())
		}
		l.wake(l.writer.End(id, outcome, unreached))
	}
}

// wake does what the writer asks for. A batch that begins starts the timer and not
// the publisher, which is woken once for it and not twice.
func (l *leg) wake(w worker.Wake) {
	switch w {
	case worker.WakeNone:
	case worker.WakeSoon:
		l.due.Reset(worker.BatchDelay)
	case worker.WakeNow:
		select {
		case l.full <- struct{}{}:
		default: // told already
		}
	}
}

// stoppedTimer is a timer that fires only once it is reset.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(0)
	t.Stop()
	return t
}

// Run joins the bus and keeps the copy and the streams going until ctx ends. Its
// last act is to publish what has ended, so ctx must outlive the requests.
func (c *Client) Run(ctx context.Context) error {
	var subs bus.Subscriptions
	if err := c.subscribe(&subs); err != nil {
		return errors.Join(err, subs.Stop())
	}
	close(c.joined)
	defer c.bus.OnReconnect(c.askSnapshots)()
	c.askSnapshots()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.watchWorkers(gctx) })
	g.Go(func() error {
		c.watchReadiness(gctx)
		return nil
	})
	for i, l := range c.legs {
		if l != nil {
			g.Go(func() error {
				c.publish(gctx, worker.Leg(i), l)
				return nil
			})
		}
	}
	return errors.Join(g.Wait(), subs.Stop())
}
