package kvzmq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"smg/engine"
	"smg/zmtp"
)

// Target is where an engine publishes.
type Target struct {
	Ranks []Rank
	Topic string // what the topics of its messages begin with; "" is all
}

// Rank is one data-parallel rank of an engine: the endpoint of its events, and that of
// what it remembers, "" if it has none.
type Rank struct {
	Number       int
	Live, Replay string
}

// Replays says whether what was missed can be had from every rank.
func (t *Target) Replays() bool {
	for _, r := range t.Ranks {
		if r.Replay == "" {
			return false
		}
	}
	return true
}

// Stream is the events of an engine, of every rank in its order. It belongs to one
// goroutine and must be closed.
type Stream struct {
	stop  context.CancelFunc
	rows  chan row
	rooms sync.WaitGroup
}

// row is what a rank has said, or why it says no more.
type row struct {
	batch engine.KVBatch
	err   error
}

// Open subscribes to an engine, until ctx ends. From are the numbers up to which ranks
// have been read: ranks with a replay endpoint begin behind theirs, or with all that they
// remember; the others, and those whose replay cannot be had, with what happens next. It
// fails if a rank cannot be reached.
func Open(ctx context.Context, t Target, from map[int]uint64, cfg zmtp.Config) (*Stream, error) {
	if len(t.Ranks) == 0 {
		return nil, errors.New("no endpoint to subscribe to")
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Stream{stop: stop, rows: make(chan row)}
	conns := make([]*zmtp.Conn, len(t.Ranks))
	faults := make([]error, len(t.Ranks))
	var dialing sync.WaitGroup
	for i, r := range t.Ranks {
		dialing.Go(func() {
			if conns[i], faults[i] = zmtp.Subscribe(ctx, r.Live, t.Topic, cfg); faults[i] != nil {
				faults[i] = fmt.Errorf("subscribing at %s: %w", r.Live, faults[i])
			}
		})
	}
	dialing.Wait()
	if err := errors.Join(faults...); err != nil {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
		stop()
		return nil, err
	}
	for i, r := range t.Ranks {
		seen, known := from[r.Number]
		k := &reader{stream: s, rank: r, cfg: cfg, live: conns[i], last: seen, known: known}
		s.rooms.Go(func() { k.run(ctx) })
	}
	return s, nil
}

// Next is the next batch. An error that matches [ErrData] is one message that could not be
// read; the stream goes on. [engine.ErrEventsLost] is an engine that has begun to count
// anew. After any other error there is nothing more.
func (s *Stream) Next(ctx context.Context) (engine.KVBatch, error) {
	select {
	case r := <-s.rows:
		return r.batch, r.err
	case <-ctx.Done():
		return engine.KVBatch{}, ctx.Err()
	}
}

// Close ends the subscription, and everything that it began.
func (s *Stream) Close() {
	s.stop()
	s.rooms.Wait()
}

// reader reads one rank.
type reader struct {
	stream *Stream
	rank   Rank
	cfg    zmtp.Config
	live   *zmtp.Conn
	last   uint64 // number of the last live message, or of what was read before
	known  bool   // there is one
}

func (k *reader) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = k.live.Close() })()
	defer func() { _ = k.live.Close() }()
	if k.rank.Replay != "" && !k.replay(ctx) {
		return
	}
	for {
		frames, err := k.live.Receive()
		if err != nil {
			k.tell(ctx, row{err: fmt.Errorf("%s: %w", k.rank.Live, err)})
			return
		}
		seq, payload, err := split(frames)
		if err == nil && k.known && seq <= k.last {
			// A publisher never repeats, and what it said before was said to another
			// connection: it is another process.
			k.tell(ctx, row{err: fmt.Errorf("%w: %s has begun to count anew, %d after %d", engine.ErrEventsLost, k.rank.Live, seq, k.last)})
			return
		}
		if err == nil {
			k.last, k.known = seq, true
		}
		if !k.read(ctx, seq, payload, err) {
			return
		}
	}
}

// tell hands over a row, and says whether somebody is there.
func (k *reader) tell(ctx context.Context, r row) bool {
	select {
	case k.stream.rows <- r:
		return true
	case <-ctx.Done():
		return false
	}
}

// read hands over a message.
func (k *reader) read(ctx context.Context, seq uint64, payload []byte, err error) bool {
	b := engine.KVBatch{Seq: seq, Rank: k.rank.Number}
	if err == nil {
		b.Events, err = decode(payload)
	}
	if err != nil {
		return k.tell(ctx, row{err: fmt.Errorf("%s: %w", k.rank.Live, err)})
	}
	return k.tell(ctx, row{batch: b})
}

// theEnd is the number behind the last message of a replay.
const theEnd = math.MaxUint64

// replay reads what the rank remembers of what was not read. Live messages wait
// meanwhile at the publisher. Without a replay the reader goes on: what is missing shows
// in the numbers. It is false when nobody listens any more.
func (k *reader) replay(ctx context.Context) bool {
	c, err := zmtp.Dial(ctx, k.rank.Replay, zmtp.Dealer, k.cfg)
	if err != nil {
		return ctx.Err() == nil
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer func() { _ = c.Close() }()
	patience := time.AfterFunc(k.cfg.Connect, func() { _ = c.Close() })
	defer patience.Stop()
	var from [8]byte
	if k.known {
		binary.BigEndian.PutUint64(from[:], k.last+1)
	}
	if c.Send(nil, from[:]) != nil {
		return ctx.Err() == nil
	}
	for {
		frames, err := c.Receive()
		if err != nil {
			return ctx.Err() == nil
		}
		patience.Reset(k.cfg.Connect)
		seq, payload, err := split(frames)
		if err == nil && seq == theEnd {
			return true
		}
		if !k.read(ctx, seq, payload, err) {
			return false
		}
	}
}

// split is the number and the payload of a message, which are its last two frames.
func split(frames [][]byte) (seq uint64, payload []byte, err error) {
	n := len(frames)
	if n < 2 || len(frames[n-2]) != 8 {
		return 0, nil, fmt.Errorf("%w: %d frames", ErrData, n)
	}
	return binary.BigEndian.Uint64(frames[n-2]), frames[n-1], nil
}
