package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"smg/worker"
)

// Prober asks a worker over its own protocol. It is safe for concurrent use.
type Prober interface {
	// Health is nil when the worker answers well. The error says in words what is
	// wrong.
	Health(ctx context.Context, url, endpoint string) error
	// Discover learns what runs behind url.
	Discover(ctx context.Context, url string) (Found, error)
}

// Found is what a worker tells about itself.
type Found struct {
	Runtime worker.Runtime
	Models  []string // ids in the worker's order, empty when it names none
	Labels  map[string]string
}

// Store keeps worker records where every service sees them.
type Store interface {
	Put(ctx context.Context, s *worker.Spec) error
}

// Candidate is a worker to be brought in.
type Candidate struct {
	URL string // as typed
	Leg worker.Leg
	// BootstrapPort is where decode workers meet a prefill worker; 0 is none.
	// BootstrapSource says who gave it.
	BootstrapPort   uint16
	BootstrapSource string
}

// Config is which workers are brought in, and how patiently.
type Config struct {
	Workers []Candidate // in the order that workers get

	Endpoint      string        // path of the health probe
	ProbeTimeout  time.Duration // of one question to a worker
	DisableHealth bool          // register without a good probe

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
	if !strings.HasPrefix(c.Endpoint, "/") {
		errs = append(errs, fmt.Errorf("--health-check-endpoint %q must begin with /", c.Endpoint))
	}
	return errors.Join(errs...)
}

// Registrar registers the workers it was given, each as soon as it answers.
type Registrar struct {
	cfg    Config
	prober Prober
	store  Store
	log    *slog.Logger
}

// NewRegistrar is a registrar that does nothing yet. See [Registrar.Run].
func NewRegistrar(cfg Config, prober Prober, store Store, log *slog.Logger) (*Registrar, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Registrar{cfg: cfg, prober: prober, store: store, log: log}, nil
}

// Run registers every worker and returns when all are, or when ctx ends. A worker
// that does not answer is asked again until it does.
func (r *Registrar) Run(ctx context.Context) error {
	begun := time.Now().Truncate(time.Millisecond)
	var wg sync.WaitGroup
	addresses := map[address]string{}
	for i, c := range r.cfg.Workers {
		s, err := specOf(c)
		if err != nil {
			return err // NewRegistrar has checked them all
		}
		// A millisecond apart, so that workers keep the order they were given in.
		s.RegisteredAt = begun.Add(time.Duration(i) * time.Millisecond)
		r.settle(s, addresses)
		wg.Go(func() { r.register(ctx, s) })
	}
	wg.Wait()
	return nil
}

// address is where decode workers meet a prefill worker.
type address struct {
	host string
	port uint16
}

// settle marks a worker whose bootstrap address an earlier one has: decode could
// not tell them apart. taken holds the addresses of the earlier ones.
func (r *Registrar) settle(s *worker.Spec, taken map[address]string) {
	if s.BootstrapPort == 0 {
		return
	}
	at := address{s.BootstrapHost, s.BootstrapPort}
	if first, ok := taken[at]; ok {
		s.Conflict = "bootstrap_port_conflict: " + first + " has the bootstrap address " + at.host + ":" + strconv.Itoa(int(at.port)) + " already"
		r.log.Warn("worker will not be chosen", slog.String("worker", s.URL), slog.String("reason", s.Conflict))
		return
	}
	taken[at] = s.URL
}

// register is one worker's job.
func (r *Registrar) register(ctx context.Context, s *worker.Spec) {
	if !sleep(ctx, r.cfg.Delay) {
		return
	}
	log := r.log.With(slog.String("worker", s.URL))
	last, interval := "", r.cfg.Interval
	tries := max(int(math.Ceil(0.9*float64(r.cfg.Timeout)/float64(r.cfg.Interval))), 3)
	for try := 1; ; try++ {
		err := r.try(ctx, s)
		if err == nil || ctx.Err() != nil {
			return
		}
		if msg := err.Error(); msg != last {
			log.Warn("worker is not answering", slog.String("reason", msg), slog.Duration("next_try", interval),
				slog.String("hint", "start it, or correct its URL"))
			last = msg
		}
		if try == tries {
			interval = r.cfg.Retry
			log.Error("worker did not answer in time", slog.Duration("startup_timeout", r.cfg.Timeout), slog.Duration("next_try", interval))
		}
		if !sleep(ctx, interval) {
			return
		}
	}
}

// try asks the worker once and, if it answers, writes its record.
func (r *Registrar) try(ctx context.Context, s *worker.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ProbeTimeout)
	defer cancel()
	if !r.cfg.DisableHealth {
		if err := r.prober.Health(ctx, s.URL, r.cfg.Endpoint); err != nil {
			return err
		}
	}
	found, err := r.prober.Discover(ctx, s.URL)
	if err != nil {
		return err
	}
	s.Runtime, s.Labels, s.Models = found.Runtime, found.Labels, nil
	for _, m := range found.Models {
		s.Models = append(s.Models, worker.Model{ID: m})
	}
	if err := r.store.Put(ctx, s.Clone()); err != nil {
		return fmt.Errorf("writing the worker's record: %w", err)
	}
	r.log.Info("worker registered", slog.String("worker", s.URL), slog.String("worker_id", s.ID.String()), slog.String("leg", s.Leg.String()),
		slog.String("model", s.ModelID()), slog.String("runtime", string(s.Runtime)))
	return nil
}

// defaultPriority is a worker's that nobody gave another.
const defaultPriority = 50

// specOf is what is known of a candidate before it answers.
func specOf(c Candidate) (*worker.Spec, error) {
	u, err := worker.CanonicalURL(c.URL)
	if err != nil {
		return nil, err
	}
	parsed, err := url.Parse(u)
	if err != nil {
		return nil, fmt.Errorf("parsing the worker's URL: %w", err)
	}
	host := parsed.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // engines expect IPv6 addresses in brackets
	}
	source := c.BootstrapSource
	if source == "" {
		source = "default"
	}
	return &worker.Spec{
		ID: worker.IDOf(u), URL: u, Leg: c.Leg, Mode: worker.HTTP, Priority: defaultPriority, Cost: 1,
		BootstrapHost: host, BootstrapPort: c.BootstrapPort, BootstrapSource: source,
	}, nil
}

// sleep waits for d and says whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
