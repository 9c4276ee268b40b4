package legs

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"smg/worker"
)

// LoadSource asks one worker for its load. It belongs to one stay of the worker
// among the ready ones, so that what it learns of the worker's routes is forgotten
// with the stay. Poll is called by one goroutine at a time and must return within
// seconds, or when ctx ends; an error is "no report", in words for the log.
type LoadSource interface {
	Poll(ctx context.Context) (Loads, error)
}

// Loads is what a worker says of its load.
type Loads struct {
	// Sums is the load over all ranks. When it was polled and how long it holds is
	// for the keeper to say.
	Sums worker.Report
	// Ranks is what is exported of each rank.
	Ranks []RankLoad
}

// RankLoad is the load of one rank of a worker's data parallelism.
type RankLoad = worker.RankLoad

// LoadConfig is when workers are asked for their loads, and what loads are too much.
type LoadConfig struct {
	// Interval is between two polls of a worker that asks for no other.
	Interval time.Duration
	// OnDemand polls only where somebody needs it: a policy that reads loads, Export,
	// or a limit of Overload.
	OnDemand bool
	// Export says that somebody reads the engines' gauges.
	Export bool
	// Overload is the limits of all workers that have none of their own.
	Overload worker.OverloadLimits
}

// DefaultLoadConfig holds the defaults of the flags.
func DefaultLoadConfig() LoadConfig { return LoadConfig{Interval: 10 * time.Second} }

// Validate names the flag that is at fault.
func (c LoadConfig) Validate() error {
	if c.Interval <= 0 {
		return fmt.Errorf("--load-monitor-interval is %g: it must be above 0", c.Interval.Seconds())
	}
	return nil
}

// minInterval is the shortest time between two polls of a worker, whatever anybody
// asks for.
const minInterval = time.Second

// group is workers of a leg that are polled alike.
type group struct {
	model string // "" where it is unknown
	mode  worker.Mode
}

// rhythm is what the members of a group need together.
type rhythm struct {
	every time.Duration // the shortest that any of them wants
	read  bool          // somebody needs all of the group's loads
	own   bool          // a member has limits of its own
}

// rhythms are those of groups.
type rhythms map[group]rhythm

// rhythms are what workers need by their groups. readsLoads says of a model's policy
// whether it needs loads.
func (c *LoadConfig) rhythms(workers []*worker.Spec, readsLoads func(model string) bool) rhythms {
	all := rhythms{}
	for _, w := range workers {
		all.add(c, w, readsLoads)
	}
	return all
}

// add counts a worker in, and says whether its groups' other members are polled as
// before.
func (all rhythms) add(c *LoadConfig, w *worker.Spec, readsLoads func(model string) bool) (same bool) {
	every := w.LoadInterval
	if every <= 0 {
		every = c.Interval
	}
	every = max(every, minInterval)
	same = true
	for g := range groupsOf(w) {
		old, known := all[g]
		now := rhythm{
			every: every, own: old.own || w.Overload.Set(),
			read: !c.OnDemand || c.Export || c.Overload.Set() || readsLoads(g.model),
		}
		if known {
			now.every = min(old.every, every)
			same = same && now == old
		}
		all[g] = now
	}
	return same
}

// every is how often a worker is polled: as often as the most demanding member of its
// groups wants; 0 if nobody needs it to be.
func (all rhythms) every(w *worker.Spec) time.Duration {
	every := time.Duration(0)
	for g := range groupsOf(w) {
		if r := all[g]; (r.read || r.own) && (every == 0 || r.every < every) {
			every = r.every
		}
	}
	return every
}

// groupsOf are the groups of a worker, each once.
func groupsOf(w *worker.Spec) iter.Seq[group] {
	return func(yield func(group) bool) {
		if len(w.Models) == 0 {
			yield(group{"", w.Mode})
		}
		for i, m := range w.Models {
			twice := slices.ContainsFunc(w.Models[:i], func(n worker.Model) bool { return n.ID == m.ID })
			if !twice && !yield(group{m.ID, w.Mode}) {
				return
			}
		}
	}
}
