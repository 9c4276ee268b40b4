package legs

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"smg/bus"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// Prober asks a worker whether it is well. It is safe for concurrent use.
type Prober interface {
	Health(ctx context.Context, s *worker.Spec, endpoint string) error
}

// Identifier is a [Prober] that can tell the processes behind a worker's URL apart. It
// is safe for concurrent use.
type Identifier interface {
	Identify(ctx context.Context, s *worker.Spec) (worker.Process, error)
}

// Config is what one replica of a leg's selector is.
type Config struct {
	Cluster wire.Cluster
	Leg     worker.Leg
	Replica worker.ReplicaID // unique for each start
	Build   string           // version of the program

	Policy   policy.Config
	Keeper   worker.KeeperConfig
	Loads    LoadConfig
	Rooms    Rooms
	Endpoint string // path of the health probe

	// Settle is how long a new replica listens before it answers: [worker.Settle],
	// or 0 where nobody else can be on the bus.
	Settle time.Duration
}

// Deps is what a Service works with.
type Deps struct {
	Bus    *bus.Conn
	Prober Prober
	// Loads is a new source of a worker's loads. With nil nobody is polled.
	Loads func(*worker.Spec) LoadSource
	// Events is a source of a worker's KV-cache events, nil if its engine publishes
	// none. With a nil function nobody is followed.
	Events     func(*worker.Spec) EventSource
	Recorder   Recorder // nil: nothing is recorded
	Pins       PinStore // shared by the leg's replicas; nil where each has its own pins
	Log        *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Service answers selects for one leg. It is safe for concurrent use.
type Service struct {
	cfg       Config
	bus       *bus.Conn
	prober    Prober
	identify  func(context.Context, *worker.Spec) (worker.Process, error)
	loads     func(*worker.Spec) LoadSource  // nil: nobody is polled
	sources   func(*worker.Spec) EventSource // nil: nobody is followed
	recorder  Recorder
	log       *slog.Logger
	now       func() time.Time
	book      *policy.Book
	fold      *worker.Fold
	registry  *worker.Registry
	ranking   *worker.Ranking
	ready     atomic.Bool
	others    sync.Map  // worker.ReplicaID → time.Time: who was told to have another policy, and when they were heard last
	asked     sync.Pool // of *asked
	decisions decisions
	outcomes  *outcomes
	keySeed   maphash.Seed // of shown keys
	pins      *sharing     // nil if nobody else is told
	queue     *queue

	probes  chan struct{} // bounds the probes under way
	poke    chan struct{} // holds one: a worker is due to be probed, the loop need not wait
	lanes   *lanes        // bound the polls under way
	turned  chan struct{} // holds one: a worker has turned ready
	newsDue *time.Timer   // fires when news have waited long enough

	mu        sync.Mutex // below it: the keepers and what they need
	readiness *worker.Readiness
	informed  bool // the workers' bucket has been read
	keepers   map[worker.ID]*keeping
	agenda    agenda
	ranked    uint64          // version of the ranking that the keepers know
	crowded   bool            // a probe waits for a slot
	grouped   bool            // every keeping knows how often it is polled
	rhythms   rhythms         // by which it does
	events    []worker.Event  // scratch of onLeases
	news      []worker.Record // to be published
	gone      map[worker.ID]gone
	recall    worker.Recall
	recalled  time.Time // when a gap was last asked about
}

// maxProbes is how many workers are probed at the same time.
const maxProbes = 128

// New is a service that does nothing yet. See [Service.Run].
func New(cfg Config, d Deps) (*Service, error) {
	if err := cfg.Keeper.Validate(); err != nil {
		return nil, err
	}
	if d.Loads != nil {
		if err := cfg.Loads.Validate(); err != nil {
			return nil, err
		}
	}
	log := d.Log.With(slog.String("leg", cfg.Leg.String()))
	book, err := policy.NewBook(cfg.Policy, policy.Deps{Registerer: d.Registerer, Logger: log, Warned: &atomic.Bool{}})
	if err != nil {
		return nil, err
	}
	fold := worker.NewFold()
	s := &Service{
		cfg: cfg, bus: d.Bus, prober: d.Prober, loads: d.Loads, sources: d.Events, recorder: d.Recorder, log: log, now: d.Now,
		book: book, fold: fold, registry: worker.NewRegistry(fold, cfg.Keeper.Breaker.SuccessThreshold),
		ranking: worker.NewRanking(), readiness: worker.NewReadiness(cfg.Settle),
		keepers: map[worker.ID]*keeping{}, agenda: agenda{base: d.Now()}, gone: map[worker.ID]gone{},
		probes: make(chan struct{}, maxProbes), poke: make(chan struct{}, 1),
		lanes: newLanes(), turned: make(chan struct{}, 1), newsDue: stoppedTimer(),
		asked: sync.Pool{New: func() any { return new(asked) }}, keySeed: maphash.MakeSeed(), queue: newQueue(),
	}
	if cfg.Rooms.Bound {
		s.registry.Bound(cfg.Rooms.Most)
	}
	s.identify = func(context.Context, *worker.Spec) (worker.Process, error) { return worker.Process{}, nil }
	if i, ok := d.Prober.(Identifier); ok {
		s.identify = i.Identify
	}
	if d.Pins != nil {
		s.pins = &sharing{
			store: d.Pins, log: log, now: d.Now, begun: make(chan struct{}),
			heard: func() { s.tick(true) }, // a replica may be ready now
		}
		s.sharePins()
	}
	if err := export(d.Registerer, s); err != nil {
		return nil, fmt.Errorf("registering the metrics of the %s leg: %w", cfg.Leg, err)
	}
	return s, nil
}

// stoppedTimer is a timer that fires only once it is reset.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(0)
	t.Stop()
	return t
}

// Replica is this replica's id.
func (s *Service) Replica() worker.ReplicaID { return s.cfg.Replica }

// Leg is the leg that the service answers for.
func (s *Service) Leg() worker.Leg { return s.cfg.Leg }

// Policy is the name of the policy that answers for models whose workers name
// none, and what is to be sent of a request.
func (s *Service) Policy() (name string, reads policy.Inputs) {
	name, _ = s.book.For("")
	return name, s.reads()
}

// Reads is what is to be sent of a request now: what the leg's policies read, and
// what is recorded.
func (s *Service) Reads() wire.Reads { return announced(s.reads()) }

// asked is the memory of one selection, used again and again.
type asked struct {
	policy.Request
	seen policy.Shortlist
}

// Select picks a worker and counts the ask's lease on it. It does not wait: see Enqueue.
// The error is wire.ErrSelectionUnavailable while the replica is not ready, or one of
// package worker's Err values, possibly wrapped.
func (s *Service) Select(ask *wire.Select) (wire.Pick, error) {
	if !s.ready.Load() {
		return wire.Pick{}, wire.ErrSelectionUnavailable
	}
	now := ask.Now
	if now.IsZero() {
		now = s.now()
	}
	return s.pick(ask, now, false)
}

// pick is Select for an ask that waits, or for one that does not and must not pass
// those.
func (s *Service) pick(ask *wire.Select, now time.Time, waited bool) (wire.Pick, error) {
	key := ask.Keys.Counted()
	pool := s.registry.Pool(s.cfg.Leg, ask.Model)
	if pool == nil {
		s.decisions.note(ask, now, &chosen{model: unserved(ask.Model), key: key, err: worker.ErrNoWorkers}, &policy.Shortlist{})
		return s.told(ask, ask.Model, wire.Pick{}, worker.ErrNoWorkers, now)
	}
	name, p := s.book.For(pool.Model())
	if !waited && s.queue.waits(pool.Model(), ask.Priority) {
		s.decisions.note(ask, now, &chosen{model: pool.Model(), policy: name, key: key, err: worker.ErrFull}, &policy.Shortlist{})
		return s.told(ask, pool.Model(), wire.Pick{}, worker.ErrFull, now)
	}
	a := s.asked.Get().(*asked)
	defer func() {
		a.Request = policy.Request{} // keep no prompt
		a.seen.Reset()
		s.asked.Put(a)
	}()
	a.Request = policy.Request{
		Ask:      worker.Ask{Lease: ask.Lease, Key: worker.Scoped(ask.Model, key), Units: ask.Units, Skip: ask.Skip, Fit: ask.Fit, Now: now},
		Keys:     ask.Keys,
		Target:   ask.Target,
		Text:     ask.Text,
		Chars:    ask.Chars,
		TokenIDs: ask.TokenIDs, Tokens: ask.Tokens,
		Namespace: ask.Namespace,
		Seen:      &a.seen,
	}
	s.hide(&a.Request)
	c := chosen{model: pool.Model(), policy: name, key: key}
	c.Decision, c.err = p.Pick(&a.Request, pool)
	if waited && isFull(c.err) {
		return wire.Pick{}, c.err // which is no news
	}
	s.decisions.note(ask, now, &c, &a.seen)
	if c.err != nil {
		return s.told(ask, pool.Model(), wire.Pick{}, c.err, now)
	}
	pick := wire.Pick{Worker: c.Worker.Spec, Epoch: c.Worker.Record.Epoch, Probe: c.Probe, Policy: name, Branch: c.Branch, Tokens: c.Tokens, Matched: c.Matched}
	return s.told(ask, pool.Model(), pick, nil, now)
}

// told is the answer to an ask, of which the recorder has been told.
func (s *Service) told(ask *wire.Select, model string, pick wire.Pick, err error, now time.Time) (wire.Pick, error) {
	if s.recorder != nil {
		p := pick // which moves to the heap here, and not for services without a recorder
		s.recorder.Selected(ask, model, &p, err, now)
	}
	return pick, err
}

// sharePins begins to share pins once a policy has some. It is called under s.mu.
func (s *Service) sharePins() {
	if s.pins != nil && s.book.Pins() {
		s.pins.begin(s.book, s.cfg.Replica)
	}
}

// heard says whether this replica knows what others know.
func (s *Service) heard() bool { return s.fold.Complete() && (s.pins == nil || s.pins.known()) }

// Run joins the bus and serves until ctx ends. It returns after every goroutine it
// began.
func (s *Service) Run(ctx context.Context) error {
	var subs bus.Subscriptions
	if err := s.subscribe(&subs); err != nil {
		return errors.Join(err, subs.Stop())
	}
	remove := s.bus.OnReconnect(func() {
		now := s.now()
		s.fold.Reconnected(now)
		s.ranking.Reconnected(now)
		s.mu.Lock()
		s.readiness.Connected(now)
		s.askSnapshot(s.recall.Begin(now))
		s.mu.Unlock()
	})
	defer remove()
	if s.bus.Connected() { // after the line above, so that no connection is missed
		now := s.now()
		s.mu.Lock()
		s.readiness.Connected(now)
		s.askSnapshot(s.recall.Begin(now))
		s.mu.Unlock()
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watchWorkers(ctx) })
	if s.pins != nil {
		g.Go(func() error { return s.pins.run(ctx) })
	}
	g.Go(func() error {
		s.loop(ctx)
		return nil
	})
	g.Go(func() error {
		s.pollLoads(ctx)
		return nil
	})
	g.Go(func() error {
		s.followEvents(ctx)
		return nil
	})
	return errors.Join(g.Wait(), subs.Stop())
}
