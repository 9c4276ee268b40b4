package worker

import "time"

// Process is what the process behind a worker's URL says of itself. Its zero value
// says nothing.
type Process struct {
	// ID differs from start to start, as far as the engine shows it; 0 is unknown. That
	// it is the same proves nothing.
	ID uint64
	// BootstrapPort is where decode workers meet the process, 0 when it names none.
	BootstrapPort uint16
}

// EngineSource is the [Spec.BootstrapSource] of an address that the engine itself has
// named. It holds for one process: the next one may name another.
const EngineSource = "engine"

// addressed is the spec s with the bootstrap port of the record's process, where
// nobody but the engine decides on it.
func (r *Record) addressed(s *Spec) *Spec {
	port := r.Process.BootstrapPort
	if port == 0 || port == s.BootstrapPort || s.BootstrapSource != EngineSource {
		return s
	}
	c := *s // what it points to is immutable
	c.BootstrapPort = port
	return &c
}

// Finding is what a health probe has found.
type Finding struct {
	OK      bool
	Refused bool    // nothing listens at the worker's address
	Process Process // of a worker that is OK
	// Moves says that another process would have to be met elsewhere, so that nobody may
	// be sent to it before it is known.
	Moves bool
}

// Limits of the suspicion that a worker's process has ended.
const (
	goneAfter = 2           // refused connections in a row, of probes, polls or calls
	gonePace  = time.Second // between probes of a worker that has refused one, at most
)

// Suspect says that a connection to the worker was refused, so that its process may
// have ended, and whether a probe is due for it: the one that follows makes sure. What
// comes back after that is another process.
func (k *Keeper) Suspect(now time.Time) (due bool) {
	if !k.active || k.cfg.Health.Disabled || k.refusals > 0 {
		return false
	}
	k.refusals, k.probeDue = 1, now
	return true
}

// refused notes a probe that was refused, after which the worker is probed faster.
func (k *Keeper) refused(now time.Time) {
	k.refusals++
	if next := now.Add(gonePace); next.Before(k.probeDue) {
		k.probeDue = next
	}
}

// another says whether p is not the process that the record is about.
func (k *Keeper) another(p Process) bool {
	known := k.held.Process.ID
	return k.refusals >= goneAfter || known != 0 && p.ID != 0 && p.ID != known
}

// Replaced says that another process has come behind the worker's URL: a new
// epoch begins, of which nothing is known yet.
func (k *Keeper) Replaced(now time.Time) (Record, bool) {
	if !k.active {
		return k.held, false
	}
	k.renew(now)
	k.probeDue = now
	return k.publish(true, now)
}

// renew begins a new epoch.
func (k *Keeper) renew(now time.Time) {
	k.held.Epoch = max(nextEpoch(k.held.Epoch, now), k.firstEpoch())
	k.held.Status, k.held.Report, k.held.Overloaded, k.held.Process = Pending, nil, false, Process{}
	if k.cfg.Health.Disabled {
		k.held.Status = Ready
	}
	k.circuit = circuit{since: now}
	k.health, k.refusals = health{}, 0
	k.polls.begin()
}

// firstEpoch is the lowest that a record of the worker's stay has. It is not older than
// the registration, whatever this machine's clock says.
func (k *Keeper) firstEpoch() uint64 { return nextEpoch(0, k.stay) }

// nextEpoch follows old: in Unix milliseconds, but always higher.
func nextEpoch(old uint64, now time.Time) uint64 {
	return max(old+1, uint64(max(0, now.UnixMilli())))
}
