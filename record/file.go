package record

import (
	"bufio"
	"compress/gzip"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"time"

	"lukechampine.com/blake3"

	"smg/wire"
	"smg/worker"
)

// file is the lines of a recording on their way to the disk. It belongs to one
// goroutine.
type file struct {
	w      io.WriteCloser
	zip    *gzip.Writer // nil without compression
	buf    *bufio.Writer
	enc    *json.Encoder
	cfg    Config
	began  time.Time
	secret [32]byte // of keys, told to nobody

	workers map[worker.ID]*known
	selects uint64
	lost    uint64 // told of
	dirty   bool
	digests []byte
}

// known is what the file says of a worker.
type known struct {
	number int
	spec   *worker.Spec
	record worker.Record
	here   bool
}

// newFile writes the header of a recording to w.
func newFile(w io.WriteCloser, compress bool, cfg Config, now time.Time) (*file, error) {
	f := &file{w: w, cfg: cfg, began: now, workers: map[worker.ID]*known{}}
	rand.Read(f.secret[:]) // it never fails
	to := io.Writer(w)
	if compress {
		f.zip = gzip.NewWriter(w)
		to = f.zip
	}
	f.buf = bufio.NewWriterSize(to, 64<<10)
	f.enc = json.NewEncoder(f.buf)
	f.enc.SetEscapeHTML(false)
	err := f.enc.Encode(Header{
		Version: Version, Began: now, Leg: cfg.Leg.String(), Policy: cfg.Policy, Cluster: cfg.Cluster,
		Replica: uint64(cfg.Replica), Build: cfg.Build, Whole: cfg.Whole,
	})
	f.dirty = true
	if err = errors.Join(err, f.flush()); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return f, nil
}

// flush brings all lines to the disk.
func (f *file) flush() error {
	if !f.dirty {
		return nil
	}
	f.dirty = false
	if err := f.buf.Flush(); err != nil || f.zip == nil {
		return err
	}
	return f.zip.Flush()
}

// close writes the last line. lost is how much has been lost so far.
func (f *file) close(now time.Time, lost uint64) error {
	if err := f.tell(now, lost); err != nil {
		return err
	}
	if err := f.line(now, Line{Close: &Close{Selects: f.selects, Lost: lost}}); err != nil {
		return err
	}
	if err := f.buf.Flush(); err != nil {
		return err
	}
	if f.zip != nil {
		if err := f.zip.Close(); err != nil {
			return err
		}
	}
	return f.w.Close()
}

// line writes one line.
func (f *file) line(at time.Time, l Line) error {
	l.At = at.Sub(f.began).Microseconds()
	f.dirty = true
	return f.enc.Encode(&l)
}

// tell says how much has been lost, if that is news.
func (f *file) tell(at time.Time, lost uint64) error {
	if lost == f.lost {
		return nil
	}
	news := lost - f.lost
	f.lost = lost
	return f.line(at, Line{Lost: &Lost{Records: news}})
}

// entry writes what the recorder was told. lost is how much has been lost so far.
func (f *file) entry(e *entry, lost uint64) error {
	if err := f.tell(e.at, lost); err != nil {
		return err
	}
	if e.ask != nil {
		return f.ask(e.at, e.ask)
	}
	if e.isAll {
		return f.fleet(e.at, e.fleet)
	}
	for i := range e.leases {
		if err := f.lease(e.at, &e.leases[i]); err != nil {
			return err
		}
	}
	return nil
}

// ask writes a question and its answer.
func (f *file) ask(at time.Time, a *ask) error {
	s := &Select{
		Lease: leaseOf(a.lease), Model: a.model, Keys: f.keys(&a.keys), Target: number(a.target), Skip: a.skip, Fit: a.fit,
		Chars: a.chars, Tokens: a.tokens, Space: f.hide(binary.LittleEndian.AppendUint64(nil, a.namespace), a.namespace != 0),
		Branch: a.pick.Branch, Credit: a.pick.Tokens, Probe: a.pick.Probe,
	}
	if a.pick.Policy != f.cfg.Policy {
		s.Policy = a.pick.Policy
	}
	f.prompt(s, a)
	if a.err != nil {
		s.Error = wire.ErrorOf(a.err).Code.String()
	} else {
		n, err := f.number(at, a.pick.Worker)
		if err != nil {
			return err
		}
		s.Worker = n
	}
	f.selects++
	return f.line(at, Line{Select: s})
}

// prompt tells the prompt, as tokens if there are some.
func (f *file) prompt(s *Select, a *ask) {
	switch {
	case len(a.ids) > 0 && f.cfg.Whole:
		s.Seen, s.WholeIDs = len(a.ids), a.ids
	case len(a.ids) > 0:
		f.digests = DigestIDs(f.digests[:0], a.ids)
		s.Seen, s.IDs = len(a.ids), f.digests
	case len(a.text) > 0:
		text := string(a.text)
		f.digests, s.Seen = DigestText(f.digests[:0], text)
		if f.cfg.Whole {
			s.WholeText = text
		} else {
			s.Text = f.digests
		}
	}
}

func (f *file) keys(k *worker.Keys) Keys {
	hidden := func(k worker.Key) string { return f.hide(k.Sum[:], !k.None()) }
	return Keys{
		RID: hidden(k.RID), Header: hidden(k.Header), Conversation: hidden(k.Conversation), Pinned: hidden(k.Pinned), Implicit: hidden(k.Implicit),
	}
}

// hide makes of a value something that says nothing but whether two are the same.
func (f *file) hide(value []byte, some bool) string {
	if !some {
		return ""
	}
	sum := blake3.Sum256(append(f.secret[:len(f.secret):len(f.secret)], value...))
	return hex.EncodeToString(sum[:DigestBytes])
}

// lease writes what an entry of a lease stream says.
func (f *file) lease(at time.Time, e *worker.Entry) error {
	if e.Kind == worker.EntryStart || e.Kind == worker.EntryWhole {
		// A worker that nobody has told of is on its way, or has gone.
		if w := f.workers[e.Lease.Worker]; w != nil {
			if err := f.line(at, Line{Begin: &Begin{leaseOf(e.Lease.ID), w.number, e.Lease.Tokens}}); err != nil {
				return err
			}
		}
	}
	if e.Kind == worker.EntryEnd || e.Kind == worker.EntryWhole {
		return f.line(at, Line{End: &End{leaseOf(e.Lease.ID), outcome(e.Outcome), e.Unreached}})
	}
	return nil
}

func outcome(o worker.Outcome) string {
	switch o {
	case worker.Success:
		return "success"
	case worker.Failure:
		return "failure"
	case worker.Neutral:
	}
	return "neutral"
}

// number is the number of a worker that is chosen, who may be new.
func (f *file) number(at time.Time, s *worker.Spec) (int, error) {
	if w := f.workers[s.ID]; w != nil {
		return w.number, nil
	}
	w := f.meet(s.ID)
	w.spec, w.here = s, true
	return w.number, f.worker(at, w)
}

func (f *file) meet(id worker.ID) *known {
	w := &known{number: len(f.workers) + 1}
	f.workers[id] = w
	return w
}

// worker writes what is known of a worker.
func (f *file) worker(at time.Time, w *known) error {
	l := &Worker{Number: w.number, ID: w.spec.ID.String(), Gone: !w.here}
	if w.here {
		l.URL, l.Veto = w.spec.URL, w.record.Overloaded
		if w.record != (worker.Record{}) {
			l.Status, l.Breaker = w.record.Status.String(), w.record.Breaker.String()
		}
		if w.spec.Leg != worker.Regular {
			c := w.spec.Class()
			l.Kind = &Fit{Runtime: string(c.Runtime), Connector: c.Connector, Group: c.Group}
		}
		for _, m := range w.spec.Models {
			l.Models = append(l.Models, m.ID)
		}
	}
	return f.line(at, Line{Worker: l})
}

// fleet writes what is new of the workers.
func (f *file) fleet(at time.Time, all []*worker.Worker) error {
	here := make(map[worker.ID]bool, len(all))
	for _, w := range all {
		here[w.Spec.ID] = true
		if err := f.update(at, w); err != nil {
			return err
		}
	}
	for id, k := range f.workers {
		if !k.here || here[id] {
			continue
		}
		k.here, k.record = false, worker.Record{}
		if err := f.worker(at, k); err != nil {
			return err
		}
	}
	return nil
}

// update writes what is new of one worker.
func (f *file) update(at time.Time, w *worker.Worker) error {
	k := f.workers[w.Spec.ID]
	if k == nil {
		k = f.meet(w.Spec.ID)
	}
	old := *k
	k.spec, k.record, k.here = w.Spec, w.Record, true
	if old.spec != k.spec || !old.here || old.record.Status != k.record.Status || old.record.Breaker != k.record.Breaker || old.record.Overloaded != k.record.Overloaded {
		if err := f.worker(at, k); err != nil {
			return err
		}
	}
	r := k.record.Report
	if r == nil || r == old.record.Report {
		return nil
	}
	return f.line(at, Line{Load: &Load{
		Number: k.number, Age: max(0, at.Sub(r.PolledAt).Microseconds()), Waiting: r.Waiting, Queued: r.Queued, Running: r.Running,
		MaxRunning: r.MaxRunning, Throughput: r.Throughput, KVUsage: r.KVUsage,
	}})
}
