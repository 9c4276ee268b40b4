package tokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// atATime is how many models load at the same time.
const atATime = 2

// Why there is nothing to tokenise a model's requests with.
var (
	// ErrLoading says that it is being loaded: soon there will be.
	ErrLoading = errors.New("the tokenizer is still loading")
	// ErrUnknown says that nobody has spoken of the model, or that its tokenizer is not
	// to be loaded.
	ErrUnknown = errors.New("no tokenizer is known")
	// ErrFailed says that it cannot be found or read; the error that wraps it says why.
	ErrFailed = errors.New("the tokenizer cannot be loaded")
)

// Config is where tokenizers come from. The zero Config knows no files.
type Config struct {
	// Flags are what the operator has named. It counts before what workers say.
	Flags Source
	// Template is the file of a chat template for all models, "" for their own.
	Template string
	// Hub is the folder of copies of models by name, "" for none.
	Hub string
	// NoAutoload leaves alone what only workers name.
	NoAutoload bool
	// CacheBytes is the memory for parts of prompts, of each model; 0 for none.
	CacheBytes int64
	// Retry is how long after a failure a model that is announced again is tried again.
	Retry time.Duration
}

// DefaultConfig is what flags begin with.
func DefaultConfig() Config { return Config{CacheBytes: 50 << 20, Retry: 30 * time.Second} }

// Validate finds all faults.
func (c Config) Validate() error {
	var errs []error
	if c.CacheBytes < 0 {
		errs = append(errs, fmt.Errorf("--tokenizer-cache-l1-max-memory must not be negative, got %d", c.CacheBytes))
	}
	if c.Retry < 0 {
		errs = append(errs, fmt.Errorf("the time between tries must not be negative, got %v", c.Retry))
	}
	return errors.Join(errs...)
}

// Registry has the models. It is safe for concurrent use; it loads while Run runs.
type Registry struct {
	cfg   Config
	log   *slog.Logger
	clock func() time.Time
	load  func(path, template string, cache int64) (*Model, error)

	wake chan struct{} // holds one: there is something to load

	mu     sync.RWMutex
	models map[string]*entry
	queue  []string // ids to load
}

type entry struct {
	source Source
	model  *Model // ready if there is one
	failed error
	at     time.Time // of the failure
	queued bool      // waits, or is being loaded
}

// New makes a registry. log is told of what is loaded and what fails.
func New(cfg Config, log *slog.Logger) (*Registry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Registry{
		cfg: cfg, log: log, clock: time.Now, load: load,
		wake: make(chan struct{}, 1), models: map[string]*entry{},
	}, nil
}

// Announce says that a model is served, and what is known of its files. Said again it
// changes nothing, unless the source is another or the last try failed a while ago.
// A model that is ready stays so until what replaces it is.
func (r *Registry) Announce(id string, s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.models[id]
	switch {
	case e == nil:
		e = &entry{}
		r.models[id] = e
	case e.queued && e.source.same(s):
		return
	case e.source.same(s) && (e.model != nil || r.clock().Sub(e.at) < r.cfg.Retry):
		return
	}
	e.source = s
	if e.queued {
		return // its source is looked at when its turn comes, and again after that
	}
	e.queued = true
	r.queue = append(r.queue, id)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Forget says that nobody serves a model any more.
func (r *Registry) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.models, id)
}

// Model is a model that is ready. Otherwise the error is, or wraps, ErrLoading,
// ErrFailed or ErrUnknown.
func (r *Registry) Model(id string) (*Model, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch e := r.models[id]; {
	case e == nil:
		return nil, fmt.Errorf("model %s: %w", id, ErrUnknown)
	case e.model != nil:
		return e.model, nil
	case e.failed != nil:
		return nil, e.failed
	default:
		return nil, fmt.Errorf("model %s: %w", id, ErrLoading)
	}
}

// Pending are the models that are not ready yet and have not failed, in order.
func (r *Registry) Pending() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var ids []string
	for id, e := range r.models {
		if e.model == nil && e.failed == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Failed are the models that could not be loaded, and why.
func (r *Registry) Failed() map[string]error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	failed := map[string]error{}
	for id, e := range r.models {
		if e.model == nil && e.failed != nil {
			failed[id] = e.failed
		}
	}
	return failed
}

// Models are the ids of all that were announced, in order.
func (r *Registry) Models() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.models))
}

// Run loads models until ctx ends, two at a time. It returns when no load is running.
func (r *Registry) Run(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(atATime)
	defer func() { _ = g.Wait() }() // loads return no errors
	for {
		for id, s, ok := r.next(); ok && ctx.Err() == nil; id, s, ok = r.next() {
			g.Go(func() error {
				r.try(ctx, id, s)
				return nil
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
	}
}

// next is what is to be loaded next.
func (r *Registry) next() (id string, s Source, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		id, r.queue = r.queue[0], r.queue[1:]
		if e := r.models[id]; e != nil {
			return id, e.source, true
		}
	}
	return "", Source{}, false
}

// try loads a model and notes what came of it.
func (r *Registry) try(ctx context.Context, id string, s Source) {
	begun := r.clock()
	m, err := r.open(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.models[id]
	if e == nil {
		return // forgotten meanwhile
	}
	e.queued = false
	if !e.source.same(s) {
		// Something else was said meanwhile.
		e.queued = true
		r.queue = append(r.queue, id)
		select {
		case r.wake <- struct{}{}:
		default:
		}
		return
	}
	if err != nil {
		e.at = r.clock()
		if errors.Is(err, ErrUnknown) {
			e.failed = fmt.Errorf("model %s: %w", id, err)
			return
		}
		e.failed = fmt.Errorf("model %s: %w: %w", id, ErrFailed, err)
		r.log.WarnContext(ctx, "tokenizer cannot be loaded", "model", id, "error", err)
		return
	}
	e.model, e.failed = m, nil
	r.log.InfoContext(ctx, "tokenizer loaded", "model", id, "path", m.From, "tokens", m.Tokenizer.Size(),
		"chat_template", m.Chat != nil, "duration", r.clock().Sub(begun))
}

// open finds and loads the files of a source. A panic over a bad file is an error.
func (r *Registry) open(s Source) (m *Model, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, fmt.Errorf("its files cannot be read: %v", p)
		}
	}()
	names := r.cfg.Flags.names()
	if !r.cfg.NoAutoload {
		names = append(names, s.names()...)
	} else if len(names) == 0 {
		return nil, fmt.Errorf("%w (--disable-tokenizer-autoload)", ErrUnknown)
	}
	path, err := find(r.cfg.Hub, names)
	if err != nil {
		return nil, err
	}
	if m, err = r.load(path, r.cfg.Template, r.cfg.CacheBytes); err != nil {
		return nil, err
	}
	if len(s.Ends) > 0 {
		m.Ends = append(m.Ends, s.Ends...)
		slices.Sort(m.Ends)
		m.Ends = slices.Compact(m.Ends)
	}
	m.Context = s.Context
	return m, nil
}
