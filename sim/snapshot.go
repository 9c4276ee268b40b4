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
	Sent            uint64 // sequences whose KV was sent
	SentBytes       uint64
	Received        uint64 // sequences whose KV came from elsewhere
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
	Sending        int // computed sequences that hold KV until it is sent
	Receiving      int // admitted sequences whose KV is still to come
	// TransferTime and TransferSpeed are those of the last KV sent, the latter
	// in bytes per second; 0 before the first.
	TransferTime  time.Duration
	TransferSpeed float64
	Totals        Totals
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
		Sending:               len(e.sending),
		Receiving:             len(e.receiving),
		TransferTime:          e.lastTransfer,
		TransferSpeed:         e.lastSpeed,
		Totals:                e.totals,
	}
	if n := e.limit(); n > 0 {
		l.MaxRunning = n
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

// State is where a sequence is.
type State uint8

// The states of a sequence. It holds blocks in all but the first.
const (
	Waiting   State = iota
	Running         // in the batch
	Sending         // computed; its KV waits to be sent, or is being sent
	Receiving       // its KV is still to come
)

// String is the name of the state in lower case.
func (s State) String() string {
	return [...]string{"waiting", "running", "sending", "receiving"}[s]
}

// Holding is one sequence's line in the ledger.
type Holding struct {
	ID      ID
	Label   string
	State   State
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
	Holdings []Holding // the running, receiving, sending, then the waiting ones
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
	for _, group := range []struct {
		state State
		list  []*sequence
	}{{Running, e.running}, {Receiving, e.receiving}, {Sending, e.sending}, {Waiting, e.waiting}} {
		for _, s := range group.list {
			l.Holdings = append(l.Holdings, Holding{
				ID: s.id, Label: s.req.Label, State: group.state,
				Blocks: s.blocks(), Arrived: s.arrived, Tokens: s.generated,
			})
		}
	}
	return l
}
