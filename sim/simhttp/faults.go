package simhttp

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"smg/sim/simctl"
)

// faultBox holds the faults in force and the requests they hold back.
type faultBox struct {
	mu     sync.Mutex
	faults simctl.Faults
	seen   []int // matching requests so far, per rule
	held   []*hold
	thaw   chan struct{} // closed when time runs; open while frozen
	next   chan struct{} // closed when the faults are replaced
}

// hold is one request that waits for its release.
type hold struct{ free chan struct{} }

func newFaultBox() *faultBox {
	b := &faultBox{thaw: make(chan struct{}), next: make(chan struct{})}
	close(b.thaw)
	return b
}

func (b *faultBox) get() simctl.Faults {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults
}

// set replaces the faults, counts matches anew and releases what is held.
func (b *faultBox) set(f simctl.Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Freeze != b.faults.Freeze {
		if f.Freeze {
			b.thaw = make(chan struct{})
		} else {
			close(b.thaw)
		}
	}
	b.faults = f
	b.seen = make([]int, len(f.Rules))
	b.releaseLocked(0)
	close(b.next)
	b.next = make(chan struct{})
}

// transfer returns the faults in what is handed to other engines.
func (b *faultBox) transfer() simctl.TransferFault {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.faults.Transfer == nil {
		return simctl.TransferFault{}
	}
	return *b.faults.Transfer
}

// holdTransfer waits while a fault holds back what is handed to other engines,
// or until over is closed.
func (b *faultBox) holdTransfer(ctx context.Context, over <-chan struct{}) error {
	if d := b.transfer().Delay; d > 0 {
		if err := sleep(ctx, time.Duration(d)); err != nil {
			return err
		}
	}
	for {
		b.mu.Lock()
		held, next := b.faults.Transfer != nil && b.faults.Transfer.Hold, b.next
		b.mu.Unlock()
		if !held {
			return nil
		}
		select {
		case <-next:
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// match returns the rule for a request, nil if there is none.
func (b *faultBox) match(method, path string, body []byte, early bool) *simctl.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.faults.Rules {
		r := &b.faults.Rules[i]
		m := r.Match
		switch {
		case r.Early != early,
			m.Path != "" && m.Path != path,
			m.Method != "" && m.Method != method,
			!early && m.Contains != "" && !bytes.Contains(body, []byte(m.Contains)):
			continue
		}
		b.seen[i]++
		if b.seen[i] <= m.Skip || m.First > 0 && b.seen[i] > m.Skip+m.First {
			continue
		}
		rule := *r
		return &rule
	}
	return nil
}

// hold waits for a release.
func (b *faultBox) hold(ctx context.Context) error {
	h := &hold{free: make(chan struct{})}
	b.mu.Lock()
	b.held = append(b.held, h)
	b.mu.Unlock()
	select {
	case <-h.free:
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		if i := slices.Index(b.held, h); i >= 0 {
			b.held = slices.Delete(b.held, i, i+1)
		}
		return ctx.Err()
	}
}

// release lets up to n held requests go, all if n is 0.
func (b *faultBox) release(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.releaseLocked(n)
}

func (b *faultBox) releaseLocked(n int) int {
	if n <= 0 || n > len(b.held) {
		n = len(b.held)
	}
	for _, h := range b.held[:n] {
		close(h.free)
	}
	b.held = slices.Delete(b.held, 0, n)
	return n
}

func (b *faultBox) holding() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held)
}

// frozen waits while the engine is frozen.
func (b *faultBox) frozen(ctx context.Context) error {
	b.mu.Lock()
	thaw := b.thaw
	b.mu.Unlock()
	select {
	case <-thaw:
		return nil
	default:
	}
	select {
	case <-thaw:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
