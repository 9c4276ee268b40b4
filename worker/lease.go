package worker

import "time"

// LeaseID names one counted call of one worker. It is the same at every selector
// replica that is asked for it, so that a doubled message counts nothing twice.
// A retry takes a new plan number.
type LeaseID struct {
	Incarnation uint64 // of the ingress process: rises with each start
	Plan        uint64 // number of the plan within the incarnation, from 1
	Leg         Leg
	Item        uint16 // media item of an encode leg, else 0
}

// Quarters is the number of beats over which an ingress renews all its leases.
const Quarters = 4

// Quarter is the beat (number modulo [Quarters]) that renews this lease.
func (id LeaseID) Quarter() uint8 { return uint8(id.hash() % Quarters) }

// Part is the one of so many parts of its quarter that the lease is in.
func (id LeaseID) Part(parts int) int {
	if parts <= 1 {
		return 0
	}
	return int(id.hash() / Quarters % uint64(parts))
}

func (id LeaseID) hash() uint64 {
	h := id.Plan*0x9e3779b97f4a7c15 ^ id.Incarnation ^ uint64(id.Leg)<<17 ^ uint64(id.Item)<<32
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// Outcome is how a call ended, as the breaker of its worker is to see it.
type Outcome uint8

// Outcomes. Neutral ones (429, 503, other 4xx, a client that left, a plan that was
// dropped) say nothing about the worker's health.
const (
	Neutral Outcome = iota
	Success
	Failure
)

// Lease is one counted call, as its ingress announces it.
type Lease struct {
	ID     LeaseID
	Worker ID
	Tokens int64  // estimated prompt tokens, 0 when not estimated
	Key    uint64 // what the worker's calls are told apart by, 0 for none
	Probe  bool   // picked while the worker's breaker was half open
	Units  int    // sequences of the call, 0 for one
}

// EntryKind says what an [Entry] of the lease stream reports.
type EntryKind uint8

// Kinds of entries.
const (
	// EntryStart: the lease is open.
	EntryStart EntryKind = iota
	// EntryHead: a probe's answer head was good; it frees its half-open slot. Only
	// the id is set.
	EntryHead
	// EntryEnd: the lease is closed. Only the id and the outcome are set.
	EntryEnd
	// EntryWhole: begun and ended within one batch; everything is set.
	EntryWhole
)

// Entry is one event of an ingress's lease stream.
type Entry struct {
	Kind    EntryKind
	Lease   Lease
	Outcome Outcome
	// Unreached marks the end of a call that never got to its worker: its credit
	// is taken back. An end that answers a late reply is Neutral and Unreached.
	Unreached bool
}

// Beat is the part of a batch that repeats what is open, so that any loss heals
// within [Quarters] beats.
type Beat struct {
	Open    int     // leases open on this leg, all quarters
	Quarter uint8   // the quarter that Renewed lists
	Renewed []Lease // every open lease whose Quarter() is Quarter, and whose Part is Part

	// A quarter too large for one message goes out in Parts, each of which stands for
	// itself: what one lists is whole whether or not the others arrive. 0 and 1 are one.
	Part, Parts int
}

// PartLeases is how many leases a message renews, about: at 38 bytes each and 16 for
// each worker they stay below the 1 MiB of a NATS message.
const PartLeases = 1 << 14

// MaxParts is how many parts a quarter has at most: 16 million open leases.
const MaxParts = 1 << 8

// Batch is one message of an ingress's lease stream on one leg.
type Batch struct {
	Ingress     string // stable name of the ingress, different from those of all others
	Incarnation uint64
	Leg         Leg
	Seq         uint64 // from 1, numbered per (incarnation, leg)
	Entries     []Entry
	Beat        *Beat // nil between beats
}

// Time limits of the lease protocol. They were sized together in a model of the
// whole protocol; none is a knob.
const (
	BatchDelay    = 5 * time.Millisecond // longest an entry waits for company
	BatchEntries  = 64                   // most entries of a batch
	BeatInterval  = time.Second          // between beats of ingresses and replicas
	GrantLife     = 2 * time.Second      // of a grant that is neither started nor ended
	IngressSilent = 4 * time.Second      // after which an ingress loses its leases
	ReplicaSilent = 3 * time.Second      // after which a replica leaves the ranking
	LateLoop      = time.Second          // a loop this late restarts its silence timers first
)
