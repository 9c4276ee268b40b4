package sim

import (
	"slices"
	"time"
)

// Delivery is what has come for a sequence that receives its KV.
type Delivery struct {
	// Tokens of the prompt whose KV has come; 0 computes the prompt here.
	Tokens int
	// First says that the first output token came along. Without it at least
	// the last prompt token is computed here.
	First bool
	// Cached is what the sequence reports as found in the prefix cache.
	Cached int
}

// Deliver ends the wait of a receiving sequence and puts it into the batch. It
// reports false for a sequence that does not wait for KV.
func (e *Engine) Deliver(now time.Duration, id ID, d Delivery) bool {
	e.advance(now)
	s, ok := e.sequences[id]
	if !ok || !remove(&e.receiving, s) {
		return false
	}
	s.delivered = true
	whole := s.req.PromptTokens
	if d.First {
		s.computed = whole
	} else {
		s.computed = max(s.computed, min(d.Tokens, whole-1))
	}
	if d.Tokens > 0 {
		s.cached = min(d.Cached, whole)
		e.totals.Received++
	}
	e.totals.CachedTokens += uint64(s.cached)
	s.share(e.pool, e.cfg.BlockSize)
	if d.First && s.generated < s.req.OutputTokens {
		s.generated++
		e.totals.GeneratedTokens++
		e.meter.add(e.now, 1)
		e.emit(s, Token)
	}
	if s.incomplete() {
		e.running = append(e.running, s)
	} else {
		e.complete(s)
	}
	return true
}

// Awaits reports whether a sequence is admitted and waits for Deliver.
func (e *Engine) Awaits(id ID) bool {
	s, ok := e.sequences[id]
	return ok && slices.Contains(e.receiving, s)
}

// Transfer puts the KV of a Ready sequence on the line. The sequence is Done,
// and its blocks are free, when all of it is sent. Transfers leave one after
// another; one that is aborted keeps its place on the line. Transfer reports
// false for a sequence that is not Ready or already on the line.
func (e *Engine) Transfer(now time.Duration, id ID) bool {
	e.advance(now)
	s, ok := e.sequences[id]
	if !ok || !slices.Contains(e.sending, s) || slices.Contains(e.line, s) {
		return false
	}
	s.asked = e.now
	s.sentAt = max(e.now, e.lineFree) + e.cfg.transferTime(s.req.PromptTokens)
	e.lineFree = s.sentAt
	e.line = append(e.line, s)
	return true
}

// complete ends a sequence that has nothing left to compute, or lets it wait
// for its transfer.
func (e *Engine) complete(s *sequence) {
	if s.req.Handover != Send {
		e.end(s, false)
		return
	}
	e.sending = append(e.sending, s)
	e.emit(s, Ready)
}

// sent ends the first transfer on the line.
func (e *Engine) sent() {
	s := e.line[0]
	e.withdraw(s)
	bytes := e.cfg.transferBytes(s.req.PromptTokens)
	e.totals.Sent++
	e.totals.SentBytes += uint64(bytes)
	e.lastTransfer = e.now - s.asked
	if e.lastTransfer > 0 {
		e.lastSpeed = float64(bytes) / e.lastTransfer.Seconds()
	}
	e.end(s, false)
}

// withdraw takes s from those that are sent, and reports whether it was one.
func (e *Engine) withdraw(s *sequence) bool {
	remove(&e.line, s)
	return remove(&e.sending, s)
}
