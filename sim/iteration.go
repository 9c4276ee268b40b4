package sim

import (
	"slices"
	"time"
)

// begin composes an iteration from the running sequences and as many waiting
// ones as fit, and starts it now. It reports false if there is nothing to do.
func (e *Engine) begin() bool {
	budget := e.cfg.ChunkTokens
	prefill, decoding := 0, 0
	schedule := func(s *sequence) {
		n := min(s.remaining(), budget)
		if s.decoding() {
			decoding += n
		} else {
			prefill += n
		}
		s.scheduled = n
		budget -= n
	}

	preempted := false
	// The slice shrinks from its end while this loop walks it.
	for i := 0; i < len(e.running); i++ {
		s := e.running[i]
		if !e.reserve(s, min(s.remaining(), budget)) {
			preempted = true
		}
		if i < len(e.running) {
			schedule(s)
		}
	}
	// Whoever was just thrown out would be let in again by what it freed.
	for !preempted && budget > 0 {
		s := e.admit()
		if s == nil {
			break
		}
		if !s.awaitsKV() {
			schedule(s)
		}
	}
	if len(e.running) == 0 {
		return false
	}
	e.busy = true
	e.iterEnd = e.now + e.cfg.iterationTime(prefill, decoding)
	return true
}

// reserve makes room for n more tokens of s. When no block is left it
// pre-empts the sequences admitted last, s itself at the very end, and then
// reports false.
func (e *Engine) reserve(s *sequence, n int) bool {
	need := max(e.cfg.blocksFor(s.computed+n)-s.blocks(), 0)
	undisturbed := true
	for !e.pool.take(need) {
		undisturbed = false
		victim := e.running[len(e.running)-1]
		e.preempt(victim)
		if victim == s {
			return false
		}
	}
	s.private += need
	return undisturbed
}

// preempt sends the sequence admitted last back to the head of the queue. Its
// output so far is kept; its KV is computed again, as far as it is not found
// in the cache, when it is admitted next.
func (e *Engine) preempt(s *sequence) {
	e.running = slices.Delete(e.running, len(e.running)-1, len(e.running))
	s.release(e.pool)
	s.preempted++
	s.estimate = s.total()
	e.enqueue(0, s)
	e.totals.Preemptions++
	e.emit(s, Preempted)
}

// admissible reports whether the first waiting sequence can be admitted now.
func (e *Engine) admissible() bool {
	if len(e.waiting) == 0 {
		return false
	}
	_, _, ok := e.fits(e.waiting[0])
	return ok
}

// fits reports whether s can be admitted, how many of its blocks are in the
// cache, and how many it needs besides.
func (e *Engine) fits(s *sequence) (matched, need int, ok bool) {
	admitted := len(e.running) + len(e.receiving)
	if admitted >= e.limit() {
		return 0, 0, false
	}
	matched, idle := e.pool.match(e.reusable(s))
	need = e.cfg.blocksFor(s.total()) - matched
	// While others run, one block in a hundred stays back for their decode.
	spare := 0
	if admitted > 0 {
		spare = e.cfg.KVBlocks / 100
	}
	return matched, need, need+spare <= e.pool.available()-idle
}

// admit takes the first waiting sequence in, with blocks for its whole prompt,
// and returns it: among the running ones, or the receiving ones if its KV comes
// from elsewhere. It returns nil if the sequence has to wait; a later one never
// overtakes an earlier one.
func (e *Engine) admit() *sequence {
	if len(e.waiting) == 0 {
		return nil
	}
	s := e.waiting[0]
	matched, need, ok := e.fits(s)
	if !ok {
		return nil
	}
	e.dequeue(0)
	for _, h := range e.reusable(s)[:matched] {
		s.shared = append(s.shared, e.pool.hold(h))
	}
	e.pool.take(need)
	s.private = need
	s.computed = matched * e.cfg.BlockSize
	if !s.admitted {
		s.admitted = true
		s.cached = s.computed
		e.totals.PromptTokens += uint64(s.req.PromptTokens)
		if !s.awaitsKV() {
			e.totals.CachedTokens += uint64(s.cached)
		}
	}
	if s.awaitsKV() {
		e.receiving = append(e.receiving, s)
	} else {
		e.running = append(e.running, s)
	}
	e.emit(s, Admitted)
	return s
}

// reusable returns the hashes that s may take from the cache: all its full
// blocks but the one with its last token, which must be computed to get the
// next one.
func (e *Engine) reusable(s *sequence) []BlockHash {
	full := (s.total() - 1) / e.cfg.BlockSize
	return s.req.Blocks[:min(full, len(s.req.Blocks))]
}

// finish ends the current iteration: what it computed is stored, and every
// sequence whose tokens are all computed gets its next one.
func (e *Engine) finish() {
	e.busy = false
	produced := 0
	kept := e.running[:0]
	for _, s := range e.running {
		s.computed += s.scheduled
		advanced := s.scheduled > 0
		s.scheduled = 0
		s.share(e.pool, e.cfg.BlockSize)
		if advanced && s.remaining() == 0 && s.generated < s.req.OutputTokens {
			s.generated++
			produced++
			e.emit(s, Token)
		}
		if s.incomplete() {
			kept = append(kept, s)
			continue
		}
		e.complete(s)
	}
	clear(e.running[len(kept):])
	e.running = kept
	e.totals.GeneratedTokens += uint64(produced)
	e.meter.add(e.now, produced)
}

// meterWindow is the span over which generation throughput is counted.
const meterWindow = time.Second

// meter counts the tokens of the current window and remembers the window
// before it.
type meter struct {
	window           int64
	current, earlier int
}

func (m *meter) roll(now time.Duration) {
	switch w := int64(now / meterWindow); w - m.window {
	case 0:
	case 1:
		m.window, m.earlier, m.current = w, m.current, 0
	default:
		m.window, m.earlier, m.current = w, 0, 0
	}
}

func (m *meter) add(now time.Duration, tokens int) {
	m.roll(now)
	m.current += tokens
}

// read returns the tokens per second of the last whole window.
func (m *meter) read(now time.Duration) float64 {
	m.roll(now)
	return float64(m.earlier) / meterWindow.Seconds()
}
