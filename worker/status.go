package worker

// LegStatus is how the selection of a leg's workers stands, as one ingress sees it.
type LegStatus struct {
	Leg Leg
	// Policy is the one that the leg's selectors announce, "" before the first has.
	Policy string
	// Degraded: the last select was not answered by a selector.
	Degraded bool
	// Leases is the number of calls of this ingress in flight.
	Leases int
	// Waiting is the number of requests of this ingress that wait for a worker with room.
	Waiting int
	// Replicas are the leg's selectors that are alive, in the order of their ids.
	Replicas []ReplicaStatus
}

// ReplicaStatus is a selector replica, as one ingress sees it.
type ReplicaStatus struct {
	ID ReplicaID
	// Local: it runs in the ingress's own process.
	Local bool
	// Excluded: it has not answered lately and is not asked for a while.
	Excluded bool
}
