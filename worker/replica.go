package worker

import "time"

// Settle and SettleLimit are the times of [Readiness] on a shared bus.
const (
	Settle      = 1200 * time.Millisecond
	SettleLimit = 5 * time.Second
)

// Readiness is whether a selector replica may answer selects. It may from settle
// after it first connected, once it knows the leases that are open ([Fold]
// Complete), and from [SettleLimit] on in any case. Once ready it stays so, over
// reconnects too; a connection lost before that starts the wait anew. It is not
// safe for concurrent use.
type Readiness struct {
	settle    time.Duration
	connected bool
	since     time.Time
	ready     bool
}

// NewReadiness is not ready. settle is [Settle], or 0 on a private bus, where
// there is nobody to hear of first.
func NewReadiness(settle time.Duration) *Readiness { return &Readiness{settle: settle} }

// Connected says that the bus is there.
func (r *Readiness) Connected(now time.Time) {
	if !r.connected {
		r.connected, r.since = true, now
	}
}

// Disconnected says that the bus is gone.
func (r *Readiness) Disconnected() { r.connected = false }

// Tick decides; complete is what the replica's [Fold] says.
func (r *Readiness) Tick(now time.Time, complete bool) bool {
	if !r.ready && r.connected {
		d := now.Sub(r.since)
		r.ready = d >= SettleLimit || d >= r.settle && complete
	}
	return r.ready
}

// Ready is the last decision.
func (r *Readiness) Ready() bool { return r.ready }

// Loop notices that a periodic loop was held up, so that it restarts its silence
// timers before it expires anyone. The zero Loop is ready for use.
type Loop struct{ last time.Time }

// Late says whether this round, of a loop with the given period, came more than
// [LateLoop] late.
func (l *Loop) Late(now time.Time, period time.Duration) bool {
	late := !l.last.IsZero() && now.Sub(l.last) > period+LateLoop
	l.last = now
	return late
}
