package client

import (
	"sync"
	"time"

	"smg/worker"
)

// newcomers notices replicas that have come, or have come back after a silence: they
// know nothing of this ingress's leases, or have given them up. What they lack is told
// with the next beat, not in four. It is safe for concurrent use; the zero value has
// heard nobody.
type newcomers struct {
	mu    sync.Mutex
	heard map[worker.ReplicaID]time.Time // every replica's last beat, ready or not
	due   bool
}

// hear notes a beat.
func (n *newcomers) hear(id worker.ReplicaID, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, known := n.heard[id]
	if !known || now.Sub(last) > worker.ReplicaSilent {
		n.due = true
	}
	if n.heard == nil {
		n.heard = map[worker.ReplicaID]time.Time{}
	}
	n.heard[id] = now
}

// quarters is how many beats to send now, each with a quarter of the leases: all of
// them if somebody has come since the last call.
func (n *newcomers) quarters(now time.Time) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, last := range n.heard {
		if now.Sub(last) > worker.ReplicaSilent {
			delete(n.heard, id)
		}
	}
	if n.due {
		n.due = false
		return worker.Quarters
	}
	return 1
}
