package record

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"smg/wire"
	"smg/worker"
)

// Config is what a recording is of.
type Config struct {
	Cluster string
	Leg     worker.Leg
	Policy  string
	Replica worker.ReplicaID
	Build   string
	// Whole has prompts written themselves, and not only their digests.
	Whole bool
}

// Recorder writes a recording. What it is told is put into a queue, and written by
// [Recorder.Run]. It is safe for concurrent use.
type Recorder struct {
	path string
	log  *slog.Logger
	now  func() time.Time
	out  *file

	queue  chan entry // holds what a disk may be late by
	held   atomic.Int64
	lost   atomic.Uint64
	failed atomic.Bool // the disk: nothing is recorded any more
	warned sync.Once
	asks   sync.Pool // of *ask
}

// Bounds of the queue.
const (
	maxEntries = 4096
	maxHeld    = 32 << 20 // bytes of prompts
	closeLimit = 5 * time.Second
)

// entry is one thing that the recorder was told.
type entry struct {
	at     time.Time
	ask    *ask
	leases []worker.Entry
	fleet  []*worker.Worker
	isAll  bool // fleet is everybody
}

// ask is a question and its answer. Its memory is used again and again.
type ask struct {
	lease     worker.LeaseID
	model     string
	keys      worker.Keys
	target    string
	skip      int
	fit       *Fit
	chars     int64
	tokens    int64
	namespace uint64
	text      []byte
	ids       []uint32
	pick      wire.Pick
	err       error
}

// fitOf is a copy of a fit, nil for none.
func fitOf(f *worker.Fit) *Fit {
	if f == nil {
		return nil
	}
	return &Fit{string(f.Class.Runtime), f.Class.Connector, f.Class.Group, slices.Clone(f.Groups)}
}

func (a *ask) held() int64 { return int64(len(a.text) + 4*len(a.ids)) }

// Create begins a recording in a new file: see [Name]. An error says that it cannot
// be written.
func Create(name string, cfg Config, log *slog.Logger, now func() time.Time) (*Recorder, error) {
	w, path, err := create(name, cfg.Leg)
	if err != nil {
		return nil, err
	}
	return begin(w, path, cfg, log, now)
}

// begin begins a recording in w.
func begin(w io.WriteCloser, path string, cfg Config, log *slog.Logger, now func() time.Time) (*Recorder, error) {
	r := &Recorder{
		path: path, log: log.With(slog.String("recording", path)), now: now,
		queue: make(chan entry, maxEntries), asks: sync.Pool{New: func() any { return new(ask) }},
	}
	var err error
	r.out, err = newFile(w, compressed(path), cfg, now())
	return r, err
}

// Path is the file that is written.
func (r *Recorder) Path() string { return r.path }

// Selected tells of a question, by the canonical id of its model where it is known,
// and of its answer: a pick, or why there is none. Nothing of it is kept.
func (r *Recorder) Selected(q *wire.Select, model string, pick *wire.Pick, err error, now time.Time) {
	if r.failed.Load() {
		return
	}
	if len(r.queue) == maxEntries || r.held.Load() > maxHeld {
		r.lose()
		return
	}
	a := r.asks.Get().(*ask)
	*a = ask{
		lease: q.Lease, model: model, keys: q.Keys, target: q.Target, skip: len(q.Skip), fit: fitOf(q.Fit), chars: q.Chars, tokens: q.Tokens, namespace: q.Namespace,
		text: append(a.text[:0], q.Text...), ids: append(a.ids[:0], q.TokenIDs...), pick: *pick, err: err,
	}
	r.held.Add(a.held())
	if e := (entry{at: now, ask: a}); !r.put(e) {
		r.lose()
		r.release(&e)
	}
}

// Leases tells of a batch of a lease stream.
func (r *Recorder) Leases(b *worker.Batch, now time.Time) {
	told := func(e worker.Entry) bool { return e.Kind != worker.EntryHead }
	if r.failed.Load() || !slices.ContainsFunc(b.Entries, told) {
		return
	}
	if !r.put(entry{at: now, leases: slices.Clone(b.Entries)}) {
		r.lose()
	}
}

// Fleet tells who the leg's workers are and how they do. It is to be called a few
// times a second; what has not changed is not written.
func (r *Recorder) Fleet(all []*worker.Worker, now time.Time) {
	if !r.failed.Load() {
		r.put(entry{at: now, fleet: all, isAll: true}) // if there is no room, the next time will do
	}
}

func (r *Recorder) lose() {
	r.lost.Add(1)
	r.warned.Do(func() { r.log.Warn("the disk is too slow for the recording, a part of it is lost") })
}

// put says whether there was room for an entry.
func (r *Recorder) put(e entry) bool {
	select {
	case r.queue <- e:
		return true
	default:
		return false
	}
}

// release lets go of what an entry holds.
func (r *Recorder) release(e *entry) {
	if e.ask == nil {
		return
	}
	r.held.Add(-e.ask.held())
	*e.ask = ask{text: e.ask.text[:0], ids: e.ask.ids[:0]} // keep no prompt's length, no worker
	r.asks.Put(e.ask)
}

// Run writes until ctx ends, then what is left, and closes the file. Whoever tells
// the recorder something has to have ended by then. A disk that fails is logged.
func (r *Recorder) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.write(ctx)
	}()
	<-ctx.Done()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		r.log.Error("the recording cannot be completed: the disk takes too long")
	}
}

// flushEvery is how much of a recording a crash may cost.
const flushEvery = time.Second

// write is the one goroutine that writes.
func (r *Recorder) write(ctx context.Context) {
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for {
		select {
		case e := <-r.queue:
			r.take(e)
		case <-flush.C:
			r.try(r.out.flush)
		case <-ctx.Done():
			for {
				select {
				case e := <-r.queue:
					r.take(e)
				default:
					r.close()
					return
				}
			}
		}
	}
}

func (r *Recorder) take(e entry) {
	r.try(func() error { return r.out.entry(&e, r.lost.Load()) })
	r.release(&e)
}

func (r *Recorder) close() {
	r.try(func() error { return r.out.close(r.now(), r.lost.Load()) })
	if r.failed.Load() {
		return
	}
	r.log.Info("recording complete", slog.Uint64("selects", r.out.selects), slog.Uint64("lost_records", r.lost.Load()))
}

// try writes something. When that fails, it is the last.
func (r *Recorder) try(write func() error) {
	if r.failed.Load() {
		return
	}
	if err := write(); err != nil {
		r.failed.Store(true)
		r.log.Error("recording stopped: the file cannot be written", slog.Any("error", err))
		_ = r.out.w.Close() // it has failed already
	}
}

// number is a target that is a number, -1 for one that is none, and nil for none.
func number(target string) *int {
	if target == "" {
		return nil
	}
	n, err := strconv.Atoi(target)
	if err != nil || n < 0 {
		n = -1
	}
	return &n
}
