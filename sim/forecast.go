package sim

import (
	"math"
	"time"
)

// Forecast predicts after how long the first token of r would come if r were
// submitted now and nothing after it, or the end of its prompt if it has no output.
// It submits nothing. It is right while KV blocks suffice, no KV comes from or goes
// to other engines, and r finds in the cache what it would find now; the prompts
// that wait count as they did on arrival. An engine that admits nobody never gets
// there, which is the longest duration there is.
func (e *Engine) Forecast(now time.Duration, r Request) time.Duration {
	e.advance(now)
	at := e.now
	if e.busy {
		at = e.iterEnd
	}
	batch := make([]prospect, 0, len(e.running)+1)
	for _, s := range e.running {
		p := prospectOf(s, s.remaining())
		p.compute(s.scheduled)
		if !p.done() {
			batch = append(batch, p)
		}
	}
	probe := &sequence{req: r}
	matched, _ := e.pool.match(e.reusable(probe))
	target := prospectOf(probe, r.PromptTokens-matched*e.cfg.BlockSize)
	target.asked = true

	waiting, asked := e.waiting, false
	for {
		budget, prefill, decoding := e.cfg.ChunkTokens, 0, 0
		schedule := func(p *prospect) {
			p.scheduled = min(p.todo, budget)
			if p.decoding() {
				decoding += p.scheduled
			} else {
				prefill += p.scheduled
			}
			budget -= p.scheduled
		}
		for i := range batch {
			schedule(&batch[i])
		}
		for budget > 0 && !asked && len(batch)+len(e.receiving) < e.limit() {
			next := target
			if len(waiting) > 0 {
				next = prospectOf(waiting[0], waiting[0].estimate)
				waiting = waiting[1:]
			} else {
				asked = true
			}
			schedule(&next)
			batch = append(batch, next)
		}
		if len(batch) == 0 {
			return math.MaxInt64
		}
		at += e.cfg.iterationTime(prefill, decoding)
		kept := batch[:0]
		for _, p := range batch {
			p.compute(p.scheduled)
			if p.asked && (p.began || p.done()) {
				return at - e.now
			}
			if !p.done() {
				kept = append(kept, p)
			}
		}
		batch = kept
	}
}

// prospect is a sequence as Forecast sees it.
type prospect struct {
	todo      int // tokens to compute before the next output token
	left      int // output tokens to come
	scheduled int
	began     bool // there is output
	asked     bool // it is the one that the forecast is about
}

func prospectOf(s *sequence, todo int) prospect {
	return prospect{todo: todo, left: s.req.OutputTokens - s.generated, began: s.generated > 0}
}

func (p *prospect) decoding() bool { return p.began && p.todo == 1 }

// compute counts n tokens, and the output token that follows the last of them.
func (p *prospect) compute(n int) {
	p.todo -= n
	if n > 0 && p.todo == 0 && p.left > 0 {
		p.left--
		p.todo, p.began = 1, true
	}
}

func (p *prospect) done() bool { return p.left == 0 && (p.began || p.todo == 0) }
