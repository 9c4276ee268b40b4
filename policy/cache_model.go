package policy

import (
	"cmp"
	"sync"
	"time"

	"smg/policy/kvindex"
	"smg/policy/radix"
	"smg/worker"
)

// cacheModel is what cache_aware remembers of one model.
type cacheModel struct {
	name       string
	text       *radix.Text
	tokens     *radix.Tokens
	placements *placements
	events     *kvindex.Index
	shown      memory // guarded by cacheAware.mu
}

// model is the memory of a model, made on first use.
func (p *cacheAware) model(name string) *cacheModel {
	p.mu.RLock()
	m := p.models[name]
	p.mu.RUnlock()
	if m != nil {
		return m
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m = p.models[name]; m == nil {
		m = &cacheModel{
			name:       name,
			text:       radix.NewText(int(p.treeSize)),
			tokens:     radix.NewTokens(int(p.blockSize), int(p.treeSize)),
			placements: newPlacements(p.ttl),
			events:     kvindex.New(p.bounds, time.Now()),
		}
		p.models[name] = m
	}
	return m
}

// match looks the prompt up in its tree and returns its length in the tree's units.
// More than fits into the tree is not looked at: it could not be remembered.
func (w *walk) match(most int64) int {
	if len(w.req.TokenIDs) > 0 {
		ids := w.req.TokenIDs
		w.model.tokens.Match(&w.place, w.req.Namespace, ids[:min(int64(len(ids)), most)])
		return w.place.Input
	}
	text := w.req.Text
	if int64(len(text)) > most {
		end, _ := runes(text, int(most))
		text = text[:end]
	}
	w.model.text.Match(&w.place, w.req.Namespace, text)
	return w.place.Input
}

// insert notes in the tree that matched that the prompt goes to the worker taken.
func (w *walk) insert() receipt {
	id := w.decision.Worker.Spec.ID
	if len(w.req.TokenIDs) > 0 {
		return receipt{tokens: true, tree: w.model.tokens.Insert(&w.place, id)}
	}
	return receipt{tree: w.model.text.Insert(&w.place, id)}
}

func (w *walk) matchAndInsert(most int64) receipt {
	w.match(most)
	return w.insert()
}

// Forget implements [Forgetter]: the worker's engine is gone, and what it held.
func (p *cacheAware) Forget(id worker.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.models {
		m.text.Remove(id)
		m.tokens.Remove(id)
		m.placements.forget(id)
		m.events.Untrack(id)
	}
}

// unknownModel is the label of requests that name no model.
const unknownModel = "unknown"

// pruneInterval is how often the bounds of the index of KV-cache events are kept.
const pruneInterval = 30 * time.Second

// Tick implements [Ticker]. Trees keep their bounds at every insert; what is left is
// to drop old placements and memory that nobody uses, and to show sizes.
func (p *cacheAware) Tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.pruneDue) {
		p.pruneDue = now.Add(pruneInterval)
		for _, m := range p.models {
			m.events.Prune(now)
		}
	}
	if now.Before(p.due) {
		return
	}
	p.due = now.Add(p.interval)
	for name, m := range p.models {
		size := memory{heads: m.placements.sweep(now), text: m.text.Stats(), tokens: m.tokens.Stats()}
		p.metrics.sizes.show(cmp.Or(name, unknownModel), m.shown, size)
		if m.shown = size; size == (memory{}) && m.events.Workers() == 0 { // a tracked worker's events would go nowhere
			delete(p.models, name)
		}
	}
}

// End implements [Ender].
func (p *cacheAware) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, m := range p.models {
		p.metrics.sizes.show(cmp.Or(name, unknownModel), m.shown, memory{})
		m.shown = memory{}
	}
}

// Undo implements [Undoer].
func (p *cacheAware) Undo(lease worker.LeaseID) {
	m, r, ok := p.undo.take(lease)
	switch {
	case !ok:
	case len(r.heads) > 0:
		m.placements.undo(r.heads, r.worker, r.at)
	case r.tokens:
		m.tokens.Undo(r.tree)
	default:
		m.text.Undo(r.tree)
	}
}

// receipt is what one choice newly noted.
type receipt struct {
	tokens bool // in the tree of tokens
	tree   radix.Receipt
	heads  []placement
	worker worker.ID
	at     time.Time
}

// maxReceipts is how many choices can be taken back. One that fails to reach its
// worker does so within seconds.
const maxReceipts = 4096

// receipts are those of the latest choices.
type receipts struct {
	mu   sync.Mutex
	next int
	all  []kept
}

type kept struct {
	lease worker.LeaseID
	model *cacheModel
	receipt
}

// keep remembers a receipt that is not empty.
func (r *receipts) keep(lease worker.LeaseID, m *cacheModel, x receipt) {
	if x.tree.Empty() && len(x.heads) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := kept{lease, m, x}
	if len(r.all) < maxReceipts {
		r.all = append(r.all, k)
		return
	}
	r.all[r.next] = k
	r.next = (r.next + 1) % maxReceipts
}

// take hands out a receipt, once.
func (r *receipts) take(lease worker.LeaseID) (*cacheModel, receipt, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		k := &r.all[(r.next+len(r.all)-1-i)%len(r.all)] // the latest first
		if k.lease == lease && k.model != nil {
			m, x := k.model, k.receipt
			*k = kept{}
			return m, x, true
		}
	}
	return nil, receipt{}, false
}
