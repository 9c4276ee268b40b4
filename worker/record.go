package worker

import (
	"cmp"
	"fmt"
	"time"
)

// ReplicaID names one running selector replica: unique for each start, so that a
// restarted replica is a new one.
type ReplicaID uint64

// Breaker is the state of a worker's circuit breaker.
type Breaker uint8

// Breaker states, in the order of the gauge smg_worker_cb_state.
const (
	Closed Breaker = iota
	Open
	HalfOpen
)

var breakerNames = [...]string{"closed", "open", "half_open"}

// String is the state's name in labels.
func (b Breaker) String() string {
	if int(b) < len(breakerNames) {
		return breakerNames[b]
	}
	return fmt.Sprintf("breaker(%d)", uint8(b))
}

// Record is what a worker's keeper says about it. Records are totally ordered;
// everybody keeps the highest, whoever sent it.
type Record struct {
	Worker ID
	Epoch  uint64 // rises when the process behind the URL changes; Unix milliseconds or later

	Term   uint64 // rises with each change of keeper
	Keeper ReplicaID
	Seq    uint64 // of this keeper in this term

	Status       Status
	Breaker      Breaker
	BreakerSince time.Time
	Overloaded   bool
	Report       *Report // nil: no report; never modified once set
	Process      Process // that the epoch is of, as far as it has told
}

// Compare orders records by (Term, Keeper, Seq).
func (r Record) Compare(s Record) int {
	return cmp.Or(cmp.Compare(r.Term, s.Term), cmp.Compare(r.Keeper, s.Keeper), cmp.Compare(r.Seq, s.Seq))
}

// Corrects says whether whoever hears rec from its keeper, and holds r, is to
// answer with r: rec is lower, and not merely late. Ingresses answer too, so that
// replicas that all restarted go on from what was known.
func (r Record) Corrects(rec Record) bool {
	return rec.Compare(r) < 0 && (rec.Term < r.Term || rec.Keeper != r.Keeper)
}

// Follows says whether nothing was missed between held and r: they are neighbours, or
// in no order that would show it.
func (r Record) Follows(held Record) bool {
	return r.Term != held.Term || r.Keeper != held.Keeper || r.Seq <= held.Seq+1
}

// withYounger is r with the report of two that was polled later, and its veto. A
// record without a report keeps none: its last poll failed.
func (r Record) withYounger(old Record) Record {
	if r.Report != nil && old.Report != nil && r.Epoch == old.Epoch && r.Report.PolledAt.Before(old.Report.PolledAt) {
		r.Report, r.Overloaded = old.Report, old.Overloaded
	}
	return r
}

// vetoLapsed says whether the worker is vetoed by a report that holds no more. No
// news is no veto.
func (r Record) vetoLapsed(now time.Time) bool {
	return r.Overloaded && (r.Report == nil || r.Report.Stale(now))
}

// Available says whether a worker with this record may be chosen at all. A half
// open one is admitted a few at a time, which its pool decides.
func (r Record) Available() bool {
	return r.Status == Ready && r.Breaker != Open && !r.Overloaded
}
