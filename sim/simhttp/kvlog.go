package simhttp

import (
	"context"
	"errors"
	"sync"
	"time"

	"smg/sim"
	"smg/sim/simtext"
)

// KVBatch is some changes of an engine's prefix cache that came together.
type KVBatch struct {
	Seq    uint64 // counts batches, from 1
	At     time.Time
	Events []KVEvent
}

// KVEvent is one change: a block is stored, or was evicted, or nothing is cached any
// more.
type KVEvent struct {
	Kind    sim.BlockEventKind
	Hash    uint64
	Parent  uint64 // of Stored: the block before it, if Chained
	Chained bool
	Tokens  []simtext.Token
}

// Errors of SubscribeKV.
var (
	// ErrNoKVEvents: the engine tells nobody of its cache.
	ErrNoKVEvents = errors.New("KV-cache events are not enabled: start the engine with --kv-events")
	// ErrKVRange: what is asked for was long ago, or has not happened.
	ErrKVRange = errors.New("the KV-cache events behind this number are not kept any more")
	// ErrKVSlow: the subscriber has fallen behind what is kept.
	ErrKVSlow = errors.New("the subscriber was too slow, KV-cache events are lost")
)

// maxKVHistory is how many batches are kept for those who come back.
const maxKVHistory = 4096

// kvLog is what happened to an engine's prefix cache, with what the blocks hold.
type kvLog struct {
	clock func() time.Time

	mu      sync.Mutex
	blocks  map[sim.BlockHash]*kvBlock
	live    []sim.BlockHash // in the order of storing; those that are gone are dropped now and then
	history []KVBatch       // the last ones
	seq     uint64
	more    chan struct{} // closed when there is another batch
}

// kvBlock is a block that is cached, or may be.
type kvBlock struct {
	parent  sim.BlockHash
	chained bool
	tokens  []simtext.Token
	users   int // requests in flight that have it
	cached  bool
}

func newKVLog(clock func() time.Time) *kvLog {
	return &kvLog{clock: clock, blocks: map[sim.BlockHash]*kvBlock{}, more: make(chan struct{})}
}

// knows has the log know the blocks of a composed task until the function that it
// returns is called, and as long as they are cached.
func (s *Server) knows(t *task) (done func()) {
	l := s.kv
	if l == nil {
		return func() {}
	}
	size := s.cfg.Core.BlockSize
	var mine []sim.BlockHash
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range t.answers {
		all := append(append([]simtext.Token{}, t.prompts[i/t.n].tokens...), t.answers[i].Tokens...)
		var parent sim.BlockHash
		for k, h := range blockHashes(size, all) {
			b := l.blocks[h]
			if b == nil {
				b = &kvBlock{parent: parent, chained: k > 0, tokens: all[k*size : (k+1)*size]}
				l.blocks[h] = b
			}
			b.users++
			mine = append(mine, h)
			parent = h
		}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, h := range mine {
			l.blocks[h].users--
			l.drop(h)
		}
	}
}

// drop forgets a block that nobody has.
func (l *kvLog) drop(h sim.BlockHash) {
	if b := l.blocks[h]; b != nil && b.users == 0 && !b.cached {
		delete(l.blocks, h)
	}
}

// note makes a batch of changes.
func (l *kvLog) note(changes []sim.BlockEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := make([]KVEvent, 0, len(changes))
	for _, c := range changes {
		b := l.blocks[c.Hash]
		switch {
		case c.Kind == sim.Cleared:
			for h, b := range l.blocks {
				b.cached = false
				l.drop(h)
			}
			l.live = nil
			events = append(events, KVEvent{Kind: sim.Cleared})
		case b == nil: // of a probe, which nobody asks for again
		case c.Kind == sim.Stored:
			b.cached = true
			l.live = append(l.live, c.Hash)
			events = append(events, b.stored(c.Hash))
		default:
			b.cached = false
			events = append(events, KVEvent{Kind: sim.Evicted, Hash: uint64(c.Hash)})
			l.drop(c.Hash)
		}
	}
	if len(events) == 0 {
		return
	}
	l.seq++
	l.history = append(l.history, KVBatch{l.seq, l.clock(), events})
	if len(l.history) > maxKVHistory {
		l.history = append([]KVBatch(nil), l.history[len(l.history)-maxKVHistory/2:]...)
		l.live = l.order()
	}
	close(l.more)
	l.more = make(chan struct{})
}

func (b *kvBlock) stored(h sim.BlockHash) KVEvent {
	return KVEvent{Kind: sim.Stored, Hash: uint64(h), Parent: uint64(b.parent), Chained: b.chained, Tokens: b.tokens}
}

// order is what is cached now, each block once, parents first.
func (l *kvLog) order() []sim.BlockHash {
	seen := map[sim.BlockHash]bool{}
	kept := make([]sim.BlockHash, 0, len(l.live))
	for _, h := range l.live {
		if b := l.blocks[h]; b != nil && b.cached && !seen[h] {
			seen[h] = true
			kept = append(kept, h)
		}
	}
	return kept
}

// since returns the batches behind a number, and what to wait for if there are none.
// Behind 0 that is everything from the beginning, or the present state if that is not
// kept any more.
func (l *kvLog) since(from uint64) ([]KVBatch, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.seq - uint64(len(l.history)) + 1
	switch {
	case from == 0 && first > 1:
		state := KVBatch{Seq: l.seq, At: l.clock(), Events: []KVEvent{{Kind: sim.Cleared}}}
		for _, h := range l.order() {
			state.Events = append(state.Events, l.blocks[h].stored(h))
		}
		return []KVBatch{state}, l.more, nil
	case from > l.seq || from+1 < first:
		return nil, nil, ErrKVRange
	}
	return l.history[from+1-first:], l.more, nil
}

// SubscribeKV tells of every change of the prefix cache behind a number, in order, until
// ctx ends or tell fails, whose error it returns. Behind 0 that is the present state, and
// what follows. opened is called once the number is known to be good.
func (s *Server) SubscribeKV(ctx context.Context, from uint64, opened func() error, tell func(KVBatch) error) error {
	if s.kv == nil {
		return ErrNoKVEvents
	}
	batches, more, err := s.kv.since(from)
	if err != nil {
		return err
	}
	if err := opened(); err != nil {
		return err
	}
	for {
		for _, b := range batches {
			if err := s.faults.frozen(ctx); err != nil {
				return err
			}
			if err := tell(b); err != nil {
				return err
			}
			from = b.Seq
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
		if batches, more, err = s.kv.since(from); err != nil {
			return ErrKVSlow
		}
	}
}

// LastKV is the number of the last batch, 0 if there was none.
func (s *Server) LastKV() uint64 {
	if s.kv == nil {
		return 0
	}
	s.kv.mu.Lock()
	defer s.kv.mu.Unlock()
	return s.kv.seq
}
