package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"smg/worker"
)

// Prober asks a worker over its own protocol. It is safe for concurrent use.
type Prober interface {
	// Health is nil when the worker answers well. The error says in words what is
	// wrong.
	Health(ctx context.Context, s *worker.Spec, endpoint string) error
	// Discover learns what runs behind the worker's URL.
	Discover(ctx context.Context, s *worker.Spec) (Found, error)
	// MooncakeEngines asks a bootstrap server of vLLM's Mooncake for the engine ids of
	// its ranks. An error says why there is none.
	MooncakeEngines(ctx context.Context, url string) (map[int]string, error)
}

// Found is what a worker tells about itself.
type Found struct {
	Runtime worker.Runtime
	Models  []string // ids in the worker's order, empty when it names none
	Labels  map[string]string
}

// Store keeps worker records where every service sees them. It is safe for
// concurrent use.
type Store interface {
	Put(ctx context.Context, s *worker.Spec) error
	// Delete removes a record, whoever put it. That there is none is no error.
	Delete(ctx context.Context, id worker.ID) error
	// Change stores what change makes of a record, whoever put it; nil deletes it. What
	// others write meanwhile is not lost: change is asked anew for that. old is nil where
	// there is none. An error of change is returned as it is.
	Change(ctx context.Context, id worker.ID, change func(old *worker.Spec) (*worker.Spec, error)) error
}

// Config is which workers are brought in, and how patiently.
type Config struct {
	Workers []Candidate // in the order that workers get

	Endpoint      string        // path of the health probe
	ProbeTimeout  time.Duration // of one question to a worker
	DisableHealth bool          // register without a good probe
	DPAware       bool          // a worker is each data-parallel rank of an engine
	Settle        time.Duration // how long a worker drains before it is removed, 0 is not at all

	RemoveFailed bool // remove a worker that is registered here and does not get well again

	Delay    time.Duration // before the first try
	Interval time.Duration // between tries
	Timeout  time.Duration // after which Retry is the interval
	Retry    time.Duration // between tries of a worker that is given up on
}

// DefaultConfig is a gateway's that was given no flags.
func DefaultConfig() Config {
	return Config{
		Endpoint: "/health", ProbeTimeout: 5 * time.Second,
		Interval: 30 * time.Second, Timeout: 30 * time.Minute, Retry: time.Minute,
		Settle: 5 * time.Second,
	}
}

// Validate reports every value out of range, each by its flag.
func (c Config) Validate() error {
	var errs []error
	seen := map[string]bool{}
	for _, w := range c.Workers {
		u, err := worker.CanonicalURL(w.URL)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s worker: %w", w.Leg, err))
		case seen[u]:
			errs = append(errs, fmt.Errorf("worker %s is given twice", u))
		}
		seen[u] = true
	}
	for flag, d := range map[string]time.Duration{
		"health-check-timeout-secs":     c.ProbeTimeout,
		"worker-startup-check-interval": c.Interval,
		"worker-startup-timeout-secs":   c.Timeout,
		"health-check-interval-secs":    c.Retry,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s must be greater than 0", flag))
		}
	}
	if c.Delay < 0 {
		errs = append(errs, errors.New("--worker-startup-delay must not be negative"))
	}
	if c.Settle < 0 {
		errs = append(errs, errors.New("--drain-settle-secs must not be negative"))
	}
	if !strings.HasPrefix(c.Endpoint, "/") {
		errs = append(errs, fmt.Errorf("--health-check-endpoint %q must begin with /", c.Endpoint))
	}
	return errors.Join(errs...)
}

// Why a worker is not added or removed. What of it is said to people is said where
// its URL is known.
var (
	ErrRegistered  = errors.New("the worker is registered already")
	ErrRegistering = errors.New("the worker is being registered already")
	ErrUnknown     = errors.New("there is no such worker")
	ErrFull        = errors.New("too many workers are being registered")
)

const (
	maxJobs  = 1000 // that wait for their worker
	maxTries = 200  // at the same time
	// settleEvery is the least time between two looks at all workers for conflicts.
	settleEvery = 50 * time.Millisecond
	// goneWithin bounds the wait to hear of a removal of one's own.
	goneWithin = 2 * time.Second
)

// Registrar registers workers, each as soon as it answers, and removes them. It is
// safe for concurrent use.
type Registrar struct {
	cfg    Config
	prober Prober
	store  Store
	log    *slog.Logger
	poke   chan struct{} // holds one: who exists has changed
	slots  chan struct{} // holds the tries that run, at most

	// Held while a worker that is registered is stored again or removed, and before mu.
	writing sync.Mutex

	mu       sync.Mutex
	start    func(*job)                  // nil unless Run runs
	again    func(func(context.Context)) // as start, for a worker that is asked anew
	jobs     map[worker.ID]*job
	known    map[worker.ID]*known        // of those in own
	own      map[worker.ID]*worker.Spec  // registered here
	heard    map[worker.ID]*worker.Spec  // registered by anybody, as the store tells
	gone     map[worker.ID]chan struct{} // closed when the store tells of the removal
	leaving  map[worker.ID]departure     // who is going to be removed here
	failed   map[worker.ID]Job           // changes that failed, for a while
	remarked []remark                    // what was told last
	last     time.Time                   // the youngest time of registration given out
}

// NewRegistrar is a registrar that does nothing yet. See [Registrar.Run].
func NewRegistrar(cfg Config, prober Prober, store Store, log *slog.Logger) (*Registrar, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Registrar{
		cfg: cfg, prober: prober, store: store, log: log, poke: make(chan struct{}, 1), slots: make(chan struct{}, maxTries),
		jobs: map[worker.ID]*job{}, own: map[worker.ID]*worker.Spec{}, heard: map[worker.ID]*worker.Spec{}, gone: map[worker.ID]chan struct{}{},
		known: map[worker.ID]*known{}, leaving: map[worker.ID]departure{}, failed: map[worker.ID]Job{},
	}, nil
}

// Run registers the workers of the configuration and those that are added, until
// ctx ends. One of the configuration that does not answer is asked until it does.
func (r *Registrar) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if err := r.open(func(j *job) {
		ctx, cancel := context.WithCancel(ctx)
		j.cancel = cancel
		wg.Go(func() {
			defer cancel()
			r.run(ctx, j)
		})
	}, func(ask func(context.Context)) { wg.Go(func() { ask(ctx) }) }); err != nil {
		return err
	}
	for {
		select {
		case <-r.poke:
			r.settle(ctx)
			r.remark()
			sleep(ctx, settleEvery) // a fleet that comes worker by worker costs one look for many
		case <-ctx.Done():
			r.mu.Lock()
			r.start, r.again = nil, nil
			r.mu.Unlock()
			return nil
		}
	}
}

// open starts the jobs there are, those of the configuration first.
func (r *Registrar) open(start func(*job), again func(func(context.Context))) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.cfg.Workers {
		s, err := specOf(c)
		if err != nil {
			return err // NewRegistrar has checked them all
		}
		// Now, and each after the one before, so that workers keep the order they were
		// given in.
		s.RegisteredAt = r.stamp()
		r.begin(&job{asked: s, forever: true})
	}
	r.start, r.again = start, again
	r.escortAll()
	for _, j := range r.jobs {
		start(j)
	}
	return nil
}

// begin starts a job, now or with Run. r.mu is held.
func (r *Registrar) begin(j *job) {
	j.done, j.since = make(chan struct{}), time.Now()
	r.jobs[j.asked.ID] = j
	if r.start != nil {
		r.start(j)
	}
}

// Add begins to register a worker, of which s is what [SpecOf] gave and what the
// caller added to it, and returns at once. The worker is registered as soon as it
// answers; one that does not within Config.Timeout is not. The error is
// ErrRegistered, ErrRegistering or ErrFull.
func (r *Registrar) Add(s *worker.Spec) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.jobs[s.ID] != nil:
		return ErrRegistering
	case r.own[s.ID] != nil || r.heard[s.ID] != nil, r.cfg.DPAware && r.overlaps(s):
		return ErrRegistered
	case len(r.jobs) >= maxJobs:
		return ErrFull
	}
	s = s.Clone()
	s.RegisteredAt = time.Time{}
	s.Revision, s.DrainingSince = 0, time.Time{}
	r.begin(&job{asked: s})
	r.log.Info("worker is going to be registered", slog.String("worker", s.URL), slog.String("worker_id", s.ID.String()), slog.String("leg", s.Leg.String()))
	return nil
}

// Remove removes a worker, whoever registered it, and ends a registration of it
// that runs here. The id of an engine is all its data-parallel ranks. When it returns nil the worker can be added again. The error is
// ErrUnknown, or the store's, and then the worker may still be there.
func (r *Registrar) Remove(ctx context.Context, id worker.ID) error {
	err := r.remove(ctx, id)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	for _, rank := range r.ranksOf(id) {
		err = r.remove(ctx, rank)
		if err != nil && !errors.Is(err, ErrUnknown) { // else somebody else has removed it
			return err
		}
	}
	return err
}

// remove removes one worker, as Remove does it.
func (r *Registrar) remove(ctx context.Context, id worker.ID) error {
	stored, err := r.stop(ctx, id)
	if err != nil || !stored {
		return err
	}
	heard, err := r.delete(ctx, id)
	if err != nil {
		return fmt.Errorf("removing the worker: %w", err)
	}
	r.changed()
	r.log.Info("worker removed", slog.String("worker_id", id.String()))
	// A little later everybody knows, if there is a bus. Until it is known here a worker
	// that is added again would look registered.
	ctx, cancel := context.WithTimeout(ctx, goneWithin)
	defer cancel()
	select {
	case <-heard:
	case <-ctx.Done():
		r.mu.Lock()
		if r.gone[id] == heard { // nobody is going to tell of it: it was told before
			delete(r.gone, id)
		}
		r.mu.Unlock()
	}
	return nil
}

// stop ends the job of a worker, if it has one, and says whether there may be a
// record of it.
func (r *Registrar) stop(ctx context.Context, id worker.ID) (stored bool, err error) {
	r.mu.Lock()
	j := r.jobs[id]
	stored = r.own[id] != nil || r.heard[id] != nil
	switch {
	case j == nil && !stored:
		r.mu.Unlock()
		return false, ErrUnknown
	case j == nil:
		r.mu.Unlock()
		return true, nil
	case j.cancel == nil: // Run has not begun
		delete(r.jobs, id)
		close(j.done)
	default:
		j.cancel()
	}
	r.mu.Unlock()
	select {
	case <-j.done:
	case <-ctx.Done():
		return false, fmt.Errorf("waiting for the worker's registration to end: %w", ctx.Err())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !stored && !j.stored {
		r.log.Info("worker is not going to be registered", slog.String("worker", j.asked.URL), slog.String("worker_id", id.String()))
	}
	return stored || j.stored, nil
}

// delete deletes a worker's record. heard is closed once the store has told of it.
func (r *Registrar) delete(ctx context.Context, id worker.ID) (heard <-chan struct{}, err error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	gone := r.gone[id]
	if gone == nil { // else somebody else removes it too
		gone = make(chan struct{})
		r.gone[id] = gone
	}
	r.mu.Unlock()
	if err := r.store.Delete(ctx, id); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disown(id)
	return gone, nil
}

// Heard takes what the store tells: that s is registered under id, by whomever, or,
// if s is nil, that nobody is.
func (r *Registrar) Heard(id worker.ID, s *worker.Spec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.changed()
	if s != nil {
		r.heard[id] = s
		if own := r.own[id]; own != nil && s.RegisteredAt.After(own.RegisteredAt) {
			r.disown(id) // another process has registered it since
		}
		r.adopt(s)
		if s.Draining() {
			r.escort(s, r.settleOf(s)+orphaned)
		}
		return
	}
	if r.heard[id] != nil { // else it was removed before it was registered here
		r.disown(id)
	}
	delete(r.heard, id)
	if gone := r.gone[id]; gone != nil {
		close(gone)
		delete(r.gone, id)
	}
}

// Job is the registration of a worker that runs here, or whose end the store has
// not told of yet.
func (r *Registrar) Job(id worker.ID) (Job, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[id]; j != nil {
		return Job{Type: j.kind, Worker: j.asked, Trying: j.trying, Reason: j.reason, Since: j.since}, true
	}
	s := r.heard[id]
	if own := r.own[id]; own != nil {
		if s == nil {
			return Job{Worker: own, Trying: true, Since: own.RegisteredAt}, true
		}
		s = own
	}
	if s != nil && s.Draining() {
		return Job{Type: RemoveWorker, Worker: s, Trying: true, Since: s.DrainingSince}, true
	}
	if j, ok := r.failed[id]; ok {
		if time.Since(j.Since) < keepFailed {
			return j, true
		}
		delete(r.failed, id)
	}
	return Job{}, false
}

// changed has Run look at conflicts anew.
func (r *Registrar) changed() {
	select {
	case r.poke <- struct{}{}:
	default: // it is going to
	}
}
