package simhttp

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"smg/sim"
)

// leased is the KV of a request that waits to be fetched.
type leased struct {
	id       sim.ID
	blockIDs []int
	wanted   string // the id of the request that may fetch it, "" is any
	handed   handed
	over     <-chan struct{}
	lost     func() bool
	timer    *time.Timer
}

// leases are the requests whose KV other engines may fetch.
type leases struct {
	term time.Duration
	// expire ends a sequence whose KV nobody has fetched. It is called without
	// mu.
	expire func(sim.ID)

	mu   sync.Mutex
	held map[string]*leased
}

var (
	errNoLease    = errors.New("no KV is held for it; it was never here, is fetched, aborted or expired")
	errWrongBlock = errors.New("these are not its blocks")
)

func newLeases(term time.Duration, expire func(sim.ID)) *leases {
	return &leases{term: term, expire: expire, held: make(map[string]*leased)}
}

// add holds l under name until it is taken, over, or the term has passed.
func (ls *leases) add(name string, l *leased) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	select {
	case <-l.over:
		return
	default:
	}
	ls.held[name] = l
	l.timer = time.AfterFunc(ls.term, func() {
		if ls.drop(name, l) {
			ls.expire(l.id)
		}
	})
}

func (ls *leases) drop(name string, l *leased) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.held[name] != l {
		return false
	}
	delete(ls.held, name)
	return true
}

// take ends the lease of name, for somebody who knows its blocks.
func (ls *leases) take(name string, q ask) (*leased, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.held[name]
	if !ok {
		return nil, errNoLease
	}
	if !slices.Equal(l.blockIDs, q.BlockIDs) {
		return nil, errWrongBlock
	}
	if l.wanted != "" && l.wanted != q.RequestID {
		return nil, fmt.Errorf("it is kept for request %s, not for %s", l.wanted, q.RequestID)
	}
	l.timer.Stop()
	delete(ls.held, name)
	select {
	case <-l.over: // aborted
		return nil, errNoLease
	default:
		return l, nil
	}
}

// close drops all leases without expiring them.
func (ls *leases) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.held {
		l.timer.Stop()
	}
	clear(ls.held)
}
