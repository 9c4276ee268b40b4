package simhttp

import (
	"context"
	"slices"
	"time"

	"smg/sim"
)

// job is the work of one HTTP request: one sequence or several.
type job struct {
	rids   []string
	driver *driver
	// changed holds one: "progress has something new".
	changed    chan struct{}
	everyToken bool
	// onReady, if set, hears of each sequence that is Ready to be sent. The job
	// is then done with it, but it stays in the engine. It is called under
	// driver.mu.
	onReady func(i int, id sim.ID)

	// Guarded by driver.mu.
	sequences []progress
	left      int // sequences that are not done
	err       *apiError
}

// progress is how far one sequence is.
type progress struct {
	id      sim.ID
	tokens  int
	cached  int // prompt tokens found in the prefix cache
	done    bool
	aborted bool
	first   time.Time // when the first token came, in real time

	// Of sequences that are handed over. gate is closed when the KV can move, on
	// either side, or never will; over when the sequence has left the engine.
	gate, over chan struct{}
	gateOpen   bool
	ended      bool
	lost       bool // ended by an abort
}

func (p *progress) openGate() {
	if p.gate != nil && !p.gateOpen {
		p.gateOpen = true
		close(p.gate)
	}
}

// open makes a job of n sequences, none of which is queued yet. With everyToken
// it signals each token, else only the end. It must be closed.
func (d *driver) open(rids []string, n int, everyToken bool) *job {
	j := newJob(d, rids, n, everyToken)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.openLocked(j)
	return j
}

// openAlone is open for an engine that refuses ids which are under way, or twice in one
// request: such a job has failed at once.
func (d *driver) openAlone(rids []string, n int, everyToken bool) *job {
	j := newJob(d, rids, n, everyToken)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, rid := range rids {
		if d.running[rid] > 0 || slices.Contains(rids[:i], rid) {
			j.err = badRequest("rid", "Duplicate request ID detected: %s", rid)
			j.signal()
			return j
		}
	}
	d.openLocked(j)
	return j
}

func (d *driver) openLocked(j *job) {
	d.jobs[j] = struct{}{}
	for _, rid := range j.rids {
		d.running[rid]++
	}
}

func newJob(d *driver, rids []string, n int, everyToken bool) *job {
	return &job{
		rids: rids, driver: d, changed: make(chan struct{}, 1), everyToken: everyToken,
		sequences: make([]progress, n), left: n,
	}
}

// queue hands sequence i of j to the scheduler.
func (d *driver) queue(j *job, i int, r sim.Request) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.poke()
	return d.queueLocked(j, i, r)
}

func (d *driver) queueLocked(j *job, i int, r sim.Request) error {
	if _, open := d.jobs[j]; !open || j.err != nil {
		return context.Canceled
	}
	id, err := d.engine.Submit(d.now(), r)
	if err != nil {
		return err
	}
	p := &j.sequences[i]
	p.id = id
	if r.Handover != sim.Keep {
		p.gate, p.over = make(chan struct{}), make(chan struct{})
	}
	d.slots[id] = slot{job: j, index: i}
	return nil
}

// queueAll hands all sequences of j to the scheduler, or none.
func (d *driver) queueAll(j *job, requests []sim.Request) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.poke()
	for i, r := range requests {
		if err := d.queueLocked(j, i, r); err != nil {
			d.abortLocked(j, false)
			for _, p := range j.sequences[:i] {
				delete(d.slots, p.id)
			}
			return err
		}
	}
	return nil
}

// submit is open and queueAll in one.
func (d *driver) submit(rids []string, requests []sim.Request, everyToken bool) (*job, error) {
	j := d.open(rids, len(requests), everyToken)
	if err := d.queueAll(j, requests); err != nil {
		d.close(j)
		return nil, err
	}
	return j, nil
}

// close ends what is left of j, but for sequences whose KV waits for another
// engine, and frees its blocks before it returns.
func (d *driver) close(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.abortLocked(j, false)
	if _, open := d.jobs[j]; open {
		delete(d.jobs, j)
		for _, rid := range j.rids {
			if d.running[rid]--; d.running[rid] == 0 {
				delete(d.running, rid)
			}
		}
	}
	d.poke()
}

// abort ends what is left of j and frees its blocks before it returns.
func (d *driver) abort(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.abortLocked(j, false)
	d.poke()
}

// abortLocked also ends, with all, sequences that wait to be sent after their
// job is done with them.
func (d *driver) abortLocked(j *job, all bool) {
	now := d.now()
	for _, p := range j.sequences {
		if p.id != 0 && !p.ended && (all || !p.done) {
			d.engine.Abort(now, p.id)
		}
	}
}

// fail aborts j with an error that its caller is told, unless it has one.
func (d *driver) fail(j *job, err *apiError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failLocked(j, err)
	d.poke()
}

func (d *driver) failLocked(j *job, err *apiError) {
	if j.err == nil {
		j.err = err
	}
	d.abortLocked(j, false)
	j.signal()
}

// abortWhere aborts the jobs that match.
func (d *driver) abortWhere(match func(rid string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	matching := map[*job]bool{}
	for j := range d.jobs {
		matching[j] = slices.ContainsFunc(j.rids, match)
	}
	for _, s := range d.slots {
		if _, seen := matching[s.job]; !seen {
			matching[s.job] = slices.ContainsFunc(s.job.rids, match)
		}
	}
	for j, ok := range matching {
		if !ok {
			continue
		}
		d.abortLocked(j, true)
		if slices.ContainsFunc(j.sequences, func(p progress) bool { return p.id == 0 }) {
			d.failLocked(j, &apiError{status: 500, message: "Aborted by AbortReq."})
		}
	}
	d.poke()
}

// runs reports whether a request with one of these ids is under way.
func (d *driver) runs(rids []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(rids, func(rid string) bool { return d.running[rid] > 0 })
}

// settle notes that the job is done with p.
func (j *job) settle(p *progress, aborted bool) {
	if p.done {
		return
	}
	p.done, p.aborted = true, aborted
	j.left--
}

func (j *job) signal() {
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// at returns the state of sequence i.
func (j *job) at(i int) progress {
	j.driver.mu.Lock()
	defer j.driver.mu.Unlock()
	return j.sequences[i]
}

// failure is the error that the caller is to be told, nil if there is none.
func (j *job) failure() *apiError {
	j.driver.mu.Lock()
	defer j.driver.mu.Unlock()
	return j.err
}

// progress copies the state of all sequences into dst.
func (j *job) progress(dst []progress) []progress {
	j.driver.mu.Lock()
	defer j.driver.mu.Unlock()
	return append(dst[:0], j.sequences...)
}

// wait returns when all sequences are done or the job has failed, or with the
// error of ctx.
func (j *job) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-j.changed:
			j.driver.mu.Lock()
			over := j.left == 0 || j.err != nil
			j.driver.mu.Unlock()
			if over {
				return nil
			}
		}
	}
}
