package sim

import "time"

// Totals are counters since the engine was made.
type Totals struct {
	Requests        uint64 // accepted by Submit
	Finished        uint64
	Aborted         uint64
	Preemptions     uint64
	PromptTokens    uint64 // of admitted sequences
	CachedTokens    uint64 // the share of PromptTokens found in the cache
	GeneratedTokens uint64
}

// Loads is what an engine reports to those who balance load.
type Loads struct {
	Running int
	Waiting int
	// WaitingUncachedTokens counts the tokens still to prefill: those of the
	// waiting sequences that were not in the cache on arrival, and the rest of
	// the prompts that are being prefilled in chunks.
	WaitingUncachedTokens int
	// UsedTokens and CapacityTokens are KV blocks in tokens; blocks that are
	// merely cached do not count as used.
	UsedTokens     int
	CapacityTokens int
	KVUsage        float64 // 0 to 1
	GenThroughput  float64 // tokens per second, over the last whole second
	CacheHitRate   float64 // cached prompt tokens / prompt tokens, 0 to 1
	MaxRunning     int
	Preempted      int // waiting sequences that have been pre-empted
	Totals         Totals
}

// Loads reports the engine's load at now.
func (e *Engine) Loads(now time.Duration) Loads {
	e.advance(now)
	l := Loads{
		Running:               len(e.running),
		Waiting:               len(e.waiting),
		WaitingUncachedTokens: e.backlog,
		UsedTokens:            e.pool.used() * e.cfg.BlockSize,
		CapacityTokens:        e.cfg.KVBlocks * e.cfg.BlockSize,
		KVUsage:               float64(e.pool.used()) / float64(e.cfg.KVBlocks),
		GenThroughput:         e.meter.read(e.now),
		MaxRunning:            e.cfg.MaxRunning,
		Totals:                e.totals,
	}
	for _, s := range e.running {
		if !s.decoding() {
			l.WaitingUncachedTokens += s.remaining()
		}
	}
	for _, s := range e.waiting {
		if s.preempted > 0 {
			l.Preempted++
		}
	}
	if e.totals.PromptTokens > 0 {
		l.CacheHitRate = float64(e.totals.CachedTokens) / float64(e.totals.PromptTokens)
	}
	return l
}

// Holding is one sequence's line in the ledger.
type Holding struct {
	ID      ID
	Label   string
	Running bool // else it waits
	Blocks  int
	Arrived time.Duration
	Tokens  int // output tokens so far
}

// Ledger accounts for every KV block: Held + Cached + Free = Total. At rest
// there are no holdings and Held is 0.
type Ledger struct {
	Total    int
	Held     int
	Cached   int // evictable content of the prefix cache
	Free     int
	Holdings []Holding // the running ones, then the waiting ones
}

// Ledger returns the block accounts at now.
func (e *Engine) Ledger(now time.Duration) Ledger {
	e.advance(now)
	l := Ledger{
		Total:    e.pool.total,
		Held:     e.pool.used(),
		Cached:   e.pool.idle,
		Free:     e.pool.free,
		Holdings: make([]Holding, 0, len(e.sequences)),
	}
	add := func(s *sequence, running bool) {
		l.Holdings = append(l.Holdings, Holding{
			ID: s.id, Label: s.req.Label, Running: running,
			Blocks: s.blocks(), Arrived: s.arrived, Tokens: s.generated,
		})
	}
	for _, s := range e.running {
		add(s, true)
	}
	for _, s := range e.waiting {
		add(s, false)
	}
	return l
}
