package recorded

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"smg/record"
	"smg/worker"
)

// Recording is what one or several files tell of a leg.
type Recording struct {
	Leg    worker.Leg
	Policy string // of the first file
	Cut    int    // files that end in the middle
	Lost   uint64 // records that are missing, as far as the files know
	Strays int    // calls that began or ended, but whose choice is in no file

	calls   []*call // by time
	workers []*member
	files   int
}

// call is one choice and what became of it.
type call struct {
	at     time.Time
	ask    *record.Select
	file   int // whose keys are comparable
	worker int // index of the one who got it, -1 for nobody
	end    time.Time
	good   bool // it ended with a success
}

// member is a worker, and when it was registered. Its index is its number in all
// files.
type member struct {
	id     string
	models []string
	spans  []span
}

// span is a time; one without an end goes on to the last line.
type span struct{ from, to time.Time }

// loader puts files together.
type loader struct {
	*Recording
	byLease map[record.Lease]*call
	begun   map[record.Lease]int // by worker
	ended   map[record.Lease]ending
	index   map[string]int // of workers, by id
}

type ending struct {
	at   time.Time
	good bool
}

// source is one file.
type source struct {
	*record.Reader
	name    string
	number  int
	workers map[int]int // index of a worker by its number in the file
}

// File is a recording to read, and its name for errors.
type File struct {
	Name string
	Data io.Reader
}

// Load reads files that tell of the same leg, in any order. An error names the file.
func Load(files ...File) (*Recording, error) {
	l := &loader{
		Recording: &Recording{}, byLease: map[record.Lease]*call{}, begun: map[record.Lease]int{},
		ended: map[record.Lease]ending{}, index: map[string]int{},
	}
	for _, f := range files {
		if err := l.file(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	l.join()
	if len(l.calls) == 0 {
		return nil, errors.New("nothing was asked while this was recorded")
	}
	return l.Recording, nil
}

func (l *loader) file(f File) error {
	r, err := record.NewReader(f.Data)
	if err != nil {
		return err
	}
	h := r.Header()
	leg, err := worker.ParseLeg(h.Leg)
	switch {
	case err != nil:
		return err
	case l.files == 0:
		l.Leg, l.Policy = leg, h.Policy
	case leg != l.Leg:
		return fmt.Errorf("it is of the %s leg, the one before of the %s leg", leg, l.Leg)
	}
	s := &source{Reader: r, name: f.Name, number: l.files, workers: map[int]int{}}
	l.files++
	for {
		line, err := s.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, record.ErrCut):
			l.Cut++
			return nil
		case err != nil:
			return err
		}
		l.line(s, &line)
	}
}

func (l *loader) line(s *source, line *record.Line) {
	at := s.Header().Began.Add(line.Since())
	if w := line.Worker; w != nil {
		l.meet(s, w, at)
	}
	if ask := line.Select; ask != nil {
		l.ask(s, ask, at)
	}
	if b := line.Begin; b != nil {
		l.begun[b.Lease] = s.workers[b.Worker]
	}
	if e := line.End; e != nil {
		if _, doubled := l.ended[e.Lease]; !doubled {
			l.ended[e.Lease] = ending{at, e.Outcome == "success" && !e.Unreached}
		}
	}
	if line.Lost != nil {
		l.Lost += line.Lost.Records
	}
}

// meet takes what a line says of a worker.
func (l *loader) meet(s *source, w *record.Worker, at time.Time) {
	i, known := l.index[w.ID]
	if !known {
		i = len(l.workers)
		l.index[w.ID] = i
		l.workers = append(l.workers, &member{id: w.ID})
	}
	s.workers[w.Number] = i
	m := l.workers[i]
	open := len(m.spans) > 0 && m.spans[len(m.spans)-1].to.IsZero()
	switch {
	case w.Gone && open:
		m.spans[len(m.spans)-1].to = at
	case !w.Gone && !open:
		m.spans = append(m.spans, span{from: at})
	}
	if !w.Gone {
		m.models = w.Models
	}
}

// ask takes a choice. Of several replicas that were asked for the same call, the one
// counts that chose first whom the call went to in the end.
func (l *loader) ask(s *source, ask *record.Select, at time.Time) {
	chosen := -1
	if ask.Worker > 0 {
		chosen = s.workers[ask.Worker]
	}
	if c := l.byLease[ask.Lease]; c != nil {
		if c.worker < 0 {
			c.worker = chosen
		}
		return
	}
	c := &call{at: at, ask: ask, file: s.number, worker: chosen}
	l.byLease[ask.Lease] = c
	l.calls = append(l.calls, c)
}

// join brings together what belongs to one call.
func (l *loader) join() {
	strays := map[record.Lease]bool{}
	for lease, w := range l.begun {
		if c := l.byLease[lease]; c != nil {
			c.worker = w
		} else {
			strays[lease] = true
		}
	}
	for lease, e := range l.ended {
		if c := l.byLease[lease]; c != nil {
			c.end, c.good = e.at, e.good
		} else {
			strays[lease] = true
		}
	}
	l.Strays = len(strays)
	slices.SortStableFunc(l.calls, func(a, b *call) int { return a.at.Compare(b.at) })
}
