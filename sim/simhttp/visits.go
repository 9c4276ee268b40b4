package simhttp

import "sync"

// visits are the handlers that run. After close nobody is let in: a connection that was
// accepted before may still bring a request.
type visits struct {
	mu      sync.Mutex
	running int
	closed  bool
	none    chan struct{} // closed when closed is set and nobody is left
}

func newVisits() *visits { return &visits{none: make(chan struct{})} }

// enter says whether a handler may run; then leave must follow.
func (v *visits) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return false
	}
	v.running++
	return true
}

func (v *visits) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running--
	if v.closed && v.running == 0 {
		close(v.none)
	}
}

// close lets nobody in any more and returns when all have left. It is called once.
func (v *visits) close() {
	v.mu.Lock()
	v.closed = true
	if v.running == 0 {
		close(v.none)
	}
	v.mu.Unlock()
	<-v.none
}
