package worker

import "time"

// RecallStage says who is to answer one who asks for all records of a leg. Every answer
// is everything, so one is enough; but who asks must get one.
type RecallStage uint8

// The stages, in the order in which one asks.
const (
	// RecallAny is everybody: of one who is too old to ask again.
	RecallAny RecallStage = iota
	// RecallFirst is the replica ranked first for who asks.
	RecallFirst
	// RecallReplicas are all replicas.
	RecallReplicas
	// RecallAll are ingresses too, whose copy may be all that is left.
	RecallAll
)

// RecallAfter is how long an answer may take before others are asked.
const RecallAfter = time.Second

// Recall is where one stands who has asked. The zero Recall asks for nothing. It is not
// safe for concurrent use.
type Recall struct {
	stage RecallStage // the last one that was asked, 0 for none
	at    time.Time
}

// Begin asks anew.
func (r *Recall) Begin(now time.Time) RecallStage {
	r.stage, r.at = RecallFirst, now
	return r.stage
}

// Answered ends the asking.
func (r *Recall) Answered() { r.stage = RecallAny }

// Tick says whom to ask next, if it is time to.
func (r *Recall) Tick(now time.Time) (stage RecallStage, due bool) {
	if r.stage == RecallAny || r.stage == RecallAll || now.Sub(r.at) < RecallAfter {
		return RecallAny, false
	}
	r.stage, r.at = r.stage+1, now
	return r.stage, true
}

// Recalls says whether replica self is to answer asker, which is not ranked here itself:
// it asks because it does not know.
func (r *Ranking) Recalls(stage RecallStage, asker uint64, self ReplicaID) bool {
	if stage != RecallFirst {
		return true
	}
	var best ReplicaID
	var high uint64
	for _, id := range *r.alive.Load() {
		if s := rendezvous(asker, id); uint64(id) != asker && (best == 0 || s > high) {
			best, high = id, s
		}
	}
	return best == 0 || best == self
}

// RecallsCopy says whether an ingress is to answer asker: where no other replica is
// alive it does at once.
func (r *Ranking) RecallsCopy(stage RecallStage, asker uint64) bool {
	if stage == RecallAny || stage >= RecallAll {
		return true
	}
	for _, id := range *r.alive.Load() {
		if uint64(id) != asker {
			return false
		}
	}
	return true
}
