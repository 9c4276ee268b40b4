package worker

import (
	"sync"
	"time"
)

// Limits of the exclusion of a replica by one ingress.
const (
	exclusionOuts  = 2 // time-outs in a row
	exclusionFirst = time.Second
	exclusionMost  = 4 * time.Second
)

// Exclusion is which replicas one ingress leaves alone because its own selects to
// them timed out, although they beat: after two time-outs for 1 s, doubling to 4 s
// until the replica answers again. It is safe for concurrent use.
type Exclusion struct {
	mu       sync.Mutex
	replicas map[ReplicaID]*excluded
}

type excluded struct {
	outs         int // in a row
	back         time.Duration
	since, until time.Time
}

// NewExclusion excludes nobody.
func NewExclusion() *Exclusion { return &Exclusion{replicas: map[ReplicaID]*excluded{}} }

// Answered says that a replica answered a select in time.
func (x *Exclusion) Answered(id ReplicaID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.replicas, id)
}

// TimedOut says that a select sent at sent was not answered by now, and whether
// that excludes the replica. Selects sent before its last exclusion began say
// nothing new.
func (x *Exclusion) TimedOut(id ReplicaID, sent, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.replicas[id]
	if e == nil {
		e = &excluded{}
		x.replicas[id] = e
	}
	if sent.Before(e.since) {
		return false
	}
	e.outs++
	if e.outs < exclusionOuts {
		return false
	}
	e.outs = 0
	e.back = min(max(2*e.back, exclusionFirst), exclusionMost)
	e.since, e.until = now, now.Add(e.back)
	return true
}

// Excluded says whether a replica is to be left alone now.
func (x *Exclusion) Excluded(id ReplicaID, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.replicas[id]
	return e != nil && now.Before(e.until)
}

// Forget drops a replica that has left the ranking.
func (x *Exclusion) Forget(id ReplicaID) { x.Answered(id) }
