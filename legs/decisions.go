package legs

import (
	"strings"
	"sync"
	"time"

	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// keptDecisions is how many decisions a leg remembers.
const keptDecisions = 1024

// decision is a selection as it is remembered: numbers, and pointers to what does
// not change. Of a worker only the spec is kept, which holds on to nothing else.
type decision struct {
	at         time.Time
	lease      worker.LeaseID
	model      string
	policy     string
	branch     string
	err        error
	key        uint64
	tokens     int64
	chars      int64
	skipped    int
	candidates int

	worker   *worker.Spec // nil if nobody was chosen
	probe    bool
	credited int64
	active   int
	credit   int64
	report   *worker.Report

	score    float64
	compared int
	listed   int // of best
	best     [policy.Shortlisted]policy.Contender
}

// decisions are the last decisions of a leg, in memory that is taken once: noting one
// allocates nothing. It is safe for concurrent use.
type decisions struct {
	mu    sync.Mutex
	count uint64 // of all until now
	last  [keptDecisions]decision
}

// note remembers a decision.
func (ds *decisions) note(ask *wire.Select, now time.Time, c *chosen, seen *policy.Shortlist) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := &ds.last[ds.count%keptDecisions]
	ds.count++
	d.at, d.lease, d.key = now, ask.Lease, c.key
	d.tokens, d.chars, d.skipped = ask.Tokens, ask.Chars, len(ask.Skip)
	d.model, d.policy, d.branch, d.err = c.model, c.policy, c.Branch, c.err
	d.candidates, d.worker = c.Candidates, nil
	if c.Worker != nil {
		d.worker = c.Worker.Spec
	}
	d.probe, d.credited, d.active, d.credit, d.report = c.Probe, c.Tokens, c.Active, c.Credit, c.Report
	d.score, d.compared = seen.Score, seen.Compared
	d.listed = copy(d.best[:], seen.Best())
}

// backwards yields the decisions, the newest first, until yield says no. Each is as
// it was noted; those that are overwritten meanwhile are left out.
func (ds *decisions) backwards(yield func(*decision) bool) {
	ds.mu.Lock()
	end := ds.count
	ds.mu.Unlock()
	for back := uint64(1); back <= min(end, keptDecisions); back++ {
		d, ok := ds.at(end - back)
		if !ok || !yield(&d) {
			return
		}
	}
}

// at is the decision of a number, unless it is overwritten. The lock is held for one
// alone, so that whoever looks never holds up a selection.
func (ds *decisions) at(number uint64) (d decision, ok bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.count > number+keptDecisions {
		return d, false
	}
	return ds.last[number%keptDecisions], true
}

// chosen is what came of a selection.
type chosen struct {
	policy.Decision
	model  string
	policy string
	key    uint64 // see [worker.Keys.Counted]
	err    error
}

// maxModel bounds what is kept of a model's name that nobody serves.
const maxModel = 128

// unserved is the model of a request, cut and copied: what it was cut of must not be
// kept.
func unserved(model string) string {
	return strings.ToValidUTF8(strings.Clone(model[:min(len(model), maxModel)]), "")
}
