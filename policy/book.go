package policy

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"smg/policy/kvindex"
	"smg/worker"
)

// policyLabel is the label of a worker that names its model's policy.
const policyLabel = "policy"

// Book knows which policy answers for which model of one leg: the default one, or
// the one that the label of the model's first registered worker names. It is told
// of registrations and is safe for concurrent use; [Book.For] takes no lock.
//
// A book of a leg whose policy is fixed, labels or not, is simply told nothing.
//
// With sticky sessions it puts them on top of every policy that does not follow keys
// by itself. The pins are the book's: one set for all policies of the leg.
type Book struct {
	config   Config
	deps     Deps
	fallback *chapter

	models atomic.Pointer[map[string]*chapter]

	mu      sync.Mutex
	workers map[worker.ID]*worker.Spec
	counts  map[string]int // registered workers of a model
}

// chapter is one policy and what it can do besides.
type chapter struct {
	name   string
	policy Policy
	forget func(worker.ID)
	undo   func(worker.LeaseID)
	tick   func(time.Time)
	end    func()
	events func(model string) *kvindex.Index
	reads  Inputs
	loads  bool // it reads load reports
	pins   bool
}

// NewBook is a book in which every model has the policy of cfg.
func NewBook(cfg Config, deps Deps) (*Book, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b, err := newBook(cfg, deps)
	if err != nil {
		return nil, err
	}
	if b.fallback, err = b.chapter(cfg.Policy, cfg); err != nil {
		return nil, err
	}
	return b, nil
}

func newBook(cfg Config, deps Deps) (*Book, error) {
	b := &Book{config: cfg, deps: deps.withDefaults(), workers: map[worker.ID]*worker.Spec{}, counts: map[string]int{}}
	b.models.Store(&map[string]*chapter{})
	var err error
	b.deps.pins, err = newPins(cfg.Pins, b.deps)
	return b, err
}

// Added tells of workers that were registered, or replaced under the same id. The
// workers of one call count as registered in the order of [worker.Spec.Compare].
// Call it before the workers can be chosen.
func (b *Book) Added(specs ...*worker.Spec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	models := maps.Clone(*b.models.Load())
	ordered := slices.Clone(specs)
	slices.SortStableFunc(ordered, (*worker.Spec).Compare)
	for _, s := range ordered {
		old := b.workers[s.ID]
		b.workers[s.ID] = s
		for _, model := range modelsOf(s) {
			b.counts[model]++
			if b.counts[model] == 1 {
				if c := b.labelled(s, model); c != nil {
					models[model] = c
				}
			}
		}
		// After the new models, so that a model in both never runs out.
		b.drop(models, old)
	}
	b.models.Store(&models)
}

// Removed tells of workers that are gone; policies with state per worker forget
// them. Call it when the workers can be chosen no more.
func (b *Book) Removed(ids ...worker.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	models := maps.Clone(*b.models.Load())
	for _, id := range ids {
		b.fallback.forget(id)
		for _, model := range modelsOf(b.workers[id]) {
			if c := models[model]; c != nil {
				c.forget(id)
			}
		}
		b.drop(models, b.workers[id])
		delete(b.workers, id)
	}
	b.models.Store(&models)
}

// Replaced tells of workers behind whose URLs another process has come: what the
// policies remember of the old one is worth nothing.
func (b *Book) Replaced(ids ...worker.ID) {
	for c := range b.chapters {
		for _, id := range ids {
			c.forget(id)
		}
	}
}

// For is the policy of a model, by its canonical id ([worker.Pool.Model]), and the
// policy's name. Requests without a model have the policy of model "".
func (b *Book) For(model string) (name string, p Policy) {
	c := b.of(model)
	return c.name, c.policy
}

// ReadsLoads says whether the policy of a model reads what workers report of their
// load.
func (b *Book) ReadsLoads(model string) bool { return b.of(model).loads }

// Events is where the KV-cache events of a model's workers go, as the model's policy
// says, or nil.
func (b *Book) Events(model string) *kvindex.Index { return b.of(model).events(model) }

func (b *Book) of(model string) *chapter {
	if c := (*b.models.Load())[model]; c != nil {
		return c
	}
	return b.fallback
}

// Undo tells the policies that the call of a lease never got to its worker; the one
// that chose it takes back what it noted.
func (b *Book) Undo(lease worker.LeaseID) {
	b.deps.pins.undo(lease)
	for c := range b.chapters {
		c.undo(lease)
	}
}

// Tick does what time brings to the policies. One goroutine calls it, a few times a
// second.
func (b *Book) Tick(now time.Time) {
	b.deps.pins.tick(now)
	for c := range b.chapters {
		c.tick(now)
	}
}

func (b *Book) chapters(yield func(*chapter) bool) {
	if !yield(b.fallback) {
		return
	}
	for _, c := range *b.models.Load() {
		if !yield(c) {
			return
		}
	}
}

// Reads is what at least one of the policies reads of a request now.
func (b *Book) Reads() Inputs {
	in := ReadsNothing
	for c := range b.chapters {
		in |= c.reads
	}
	return in
}

// Pins says whether one of the policies pins keys now.
func (b *Book) Pins() bool {
	for c := range b.chapters {
		if c.pins {
			return true
		}
	}
	return false
}

// drop counts a worker down; a model without workers loses its policy.
func (b *Book) drop(models map[string]*chapter, s *worker.Spec) {
	for _, model := range modelsOf(s) {
		b.counts[model]--
		if b.counts[model] == 0 {
			delete(b.counts, model)
			if c := models[model]; c != nil {
				c.end()
			}
			delete(models, model)
		}
	}
}

// labelled is the policy that the worker's label asks for, or nil for the default.
func (b *Book) labelled(s *worker.Spec, model string) *chapter {
	label, ok := s.Labels[policyLabel]
	if !ok {
		return nil
	}
	name, err := ParseName(label)
	if err == nil {
		cfg := DefaultConfig()
		if name == b.config.Policy {
			cfg = b.config
		}
		var c *chapter
		if c, err = b.chapter(name, cfg); err == nil {
			return c
		}
	}
	b.deps.Logger.Warn("the policy label of a worker cannot be followed; its model has the default policy",
		"worker_id", s.ID.String(), "worker", s.URL, "model_id", model, "label", label, "policy", b.config.Policy, "error", err)
	return nil
}

func (b *Book) chapter(name string, cfg Config) (*chapter, error) {
	p, err := New(name, cfg, b.deps)
	if err != nil {
		return nil, fmt.Errorf("making policy %s: %w", name, err)
	}
	c := newChapter(name, p)
	if cfg.Sticky = b.config.Sticky; cfg.Sticky.On {
		err = c.stick(cfg, b.deps)
	}
	return c, err
}

// stick adds sticky sessions: pins, or for a policy that follows keys by itself the
// keys of conversations.
func (c *chapter) stick(cfg Config, deps Deps) error {
	c.reads |= ReadsConversationKey
	if !sticks(c.name) {
		return nil
	}
	p, err := newSticky(c.policy, c.name, cfg, deps)
	if err != nil {
		return fmt.Errorf("making sticky sessions on top of policy %s: %w", c.name, err)
	}
	c.policy, c.pins = p, true
	return nil
}

func newChapter(name string, p Policy) *chapter {
	c := &chapter{
		name: name, policy: p, reads: Reads(p), loads: ReadsLoads(p), pins: name == Manual,
		forget: func(worker.ID) {}, undo: func(worker.LeaseID) {}, tick: func(time.Time) {}, end: func() {},
		events: func(string) *kvindex.Index { return nil },
	}
	if f, ok := p.(Forgetter); ok {
		c.forget = f.Forget
	}
	if u, ok := p.(Undoer); ok {
		c.undo = u.Undo
	}
	if t, ok := p.(Ticker); ok {
		c.tick = t.Tick
	}
	if e, ok := p.(Ender); ok {
		c.end = e.End
	}
	if e, ok := p.(EventReader); ok {
		c.events = e.Events
	}
	return c
}

// modelsOf is the worker's models, "" standing for an unknown one, without doubles.
// It is empty for no worker.
func modelsOf(s *worker.Spec) []string {
	if s == nil {
		return nil
	}
	models := make([]string, 0, max(1, len(s.Models)))
	for _, m := range s.Models {
		models = append(models, m.ID)
	}
	if len(models) == 0 {
		models = append(models, "")
	}
	slices.Sort(models)
	return slices.Compact(models)
}
