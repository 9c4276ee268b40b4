package worker

import (
	"sync"
	"time"
)

// Fold is what one replica makes of the lease streams of all ingresses.
type Fold struct {
	mu    sync.Mutex
	loads map[ID]*Load
}

// NewFold is an empty fold.
func NewFold() *Fold { return &Fold{loads: map[ID]*Load{}} }

// Load is the counter of a worker, made on first use.
func (f *Fold) Load(id ID) *Load {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.loads[id]
	if l == nil {
		l = &Load{}
		f.loads[id] = l
	}
	return l
}

// Grant counts an own choice until its ingress starts or ends it.
func (f *Fold) Grant(l Lease, load *Load, now time.Time) {}
