package worker

import (
	"cmp"
	"errors"
	"time"
)

// RecordRepeat is how often a keeper repeats an unchanged record, so that a lost
// one is mended within the time that all state takes to heal.
const RecordRepeat = 3 * time.Second

// KeeperConfig is the thresholds by which a keeper judges its worker.
type KeeperConfig struct {
	Health  HealthConfig
	Breaker BreakerConfig
}

// DefaultKeeperConfig holds the defaults of the flags.
func DefaultKeeperConfig() KeeperConfig {
	return KeeperConfig{Health: DefaultHealthConfig(), Breaker: DefaultBreakerConfig()}
}

// Validate joins all faults, each naming its flag.
func (c KeeperConfig) Validate() error {
	return errors.Join(c.Health.Validate(), c.Breaker.Validate())
}

// For is what holds for a worker, which may have rules of its own.
func (c KeeperConfig) For(s *Spec) KeeperConfig {
	if h := s.Health; h != nil {
		c.Health.Timeout, c.Health.Interval = cmp.Or(h.Timeout, c.Health.Timeout), cmp.Or(h.Interval, c.Health.Interval)
		c.Health.SuccessThreshold = cmp.Or(h.SuccessThreshold, c.Health.SuccessThreshold)
		c.Health.FailureThreshold = cmp.Or(h.FailureThreshold, c.Health.FailureThreshold)
		if h.Disabled != nil {
			c.Health.Disabled = *h.Disabled
		}
	}
	if b := s.Breaker; b != nil {
		c.Breaker.FailureThreshold = cmp.Or(b.FailureThreshold, c.Breaker.FailureThreshold)
		c.Breaker.SuccessThreshold = cmp.Or(b.SuccessThreshold, c.Breaker.SuccessThreshold)
		c.Breaker.Timeout = cmp.Or(b.Timeout, c.Breaker.Timeout)
	}
	return c
}

// Keeper is one replica's side of keeping one worker. Every replica has one for
// every worker, so that it can take over: it holds the highest record heard, and
// writes the next one while it is ranked first for the worker ([WorkerKey]). Its
// methods return the record to publish, install and pass on, with true, or the one
// held, with false. It is not safe for concurrent use.
type Keeper struct {
	self ReplicaID
	cfg  KeeperConfig

	stay      time.Time // when the worker was registered
	held      Record
	active    bool
	circuit   circuit
	health    health
	polls     polling
	refusals  int       // of connections in a row
	between   bool      // the last probe was sent between two of the interval
	nextProbe time.Time // of the interval
	probeDue  time.Time // nextProbe or earlier
	published time.Time
}

// NewKeeper has heard nothing of the worker yet.
func NewKeeper(id ID, self ReplicaID, cfg KeeperConfig) *Keeper {
	return &Keeper{self: self, cfg: cfg, held: Record{Worker: id}}
}

// Rule has the keeper judge by other thresholds from now on; its streaks and the
// breaker's state stay.
func (k *Keeper) Rule(cfg KeeperConfig) {
	if k.cfg != cfg {
		k.cfg = cfg
		k.nextProbe = earlier(k.nextProbe, k.published.Add(cfg.Health.Interval)) // it may come more often now
		k.probeDue = earlier(k.probeDue, k.nextProbe)
	}
}

// ProbeTimeout bounds a health probe.
func (k *Keeper) ProbeTimeout() time.Duration { return k.cfg.Health.Timeout }

// Registered says when the worker was. What was published before it is about a former
// stay, even if it is heard after it: a record of one who was removed and added again at
// once may be on its way.
func (k *Keeper) Registered(at time.Time) { k.stay = at }

// Active says whether this replica writes the worker's record.
func (k *Keeper) Active() bool { return k.active }

// Record is the highest record known.
func (k *Keeper) Record() Record { return k.held }

// Hear takes a record that somebody published. A higher one is held, and ends this
// replica's own keeping until its next Tick. A lower one that is to be answered
// ([Record.Corrects]) returns the one held with true.
func (k *Keeper) Hear(rec Record) (Record, bool) {
	if rec.Compare(k.held) > 0 {
		k.held = rec.withYounger(k.held)
		k.active = false
		return k.held, false
	}
	return k.held, k.held.Corrects(rec) && rec.Keeper != k.self
}

// Tick does what time brings: it takes the worker over when this replica has come
// first, and publishes at once; it lets an open breaker turn half open; it ends a
// veto whose report holds no more; it repeats the record. After a takeover probes
// and polls are due.
func (k *Keeper) Tick(first bool, now time.Time) (Record, bool) {
	if !first {
		k.active = false
		return k.held, false
	}
	publish := !k.active || now.Sub(k.published) >= RecordRepeat
	if !k.active {
		k.adopt(now)
	}
	if k.circuit.tick(&k.cfg.Breaker, now) {
		publish = true
	}
	if k.held.vetoLapsed(now) {
		k.held.Overloaded = false
		publish = true
	}
	if k.cfg.Health.Disabled && k.held.Status != Ready && k.held.Status != Draining {
		k.held.Status = Ready
		k.polls.begin()
		publish = true
	}
	return k.publish(publish, now)
}

// TickAt is when Tick has something to do next, unless something else happens before;
// the zero time is at once, and ever is false while time alone brings nothing.
func (k *Keeper) TickAt(first bool) (at time.Time, ever bool) {
	if !first || !k.active {
		return time.Time{}, first != k.active
	}
	at = k.published.Add(RecordRepeat)
	if k.circuit.state == Open {
		at = earlier(at, k.circuit.since.Add(k.cfg.Breaker.Timeout))
	}
	if k.held.Overloaded {
		if k.held.Report == nil {
			return time.Time{}, true
		}
		at = earlier(at, k.held.Report.until().Add(1)) // until then it holds
	}
	if k.cfg.Health.Disabled && k.held.Status != Ready && k.held.Status != Draining {
		return time.Time{}, true
	}
	return at, true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// adopt goes on from the record held, in a term of its own and with streaks at 0.
func (k *Keeper) adopt(now time.Time) {
	k.active = true
	k.held.Term++
	k.held.Keeper, k.held.Seq = k.self, 0
	if k.held.BreakerSince.IsZero() {
		k.held.BreakerSince = now
	}
	if k.held.Epoch < k.firstEpoch() {
		k.renew(now)
		k.held.Breaker, k.held.BreakerSince = Closed, now
	}
	k.circuit = circuit{state: k.held.Breaker, since: k.held.BreakerSince}
	if k.cfg.Breaker.Disabled {
		k.circuit.state = Closed
	}
	k.health, k.refusals = health{}, 0
	k.polls.begin()
	k.nextProbe, k.probeDue = now, now
}

// publish numbers the record if it has to go out.
func (k *Keeper) publish(due bool, now time.Time) (Record, bool) {
	if !due {
		return k.held, false
	}
	k.held.Breaker, k.held.BreakerSince = k.circuit.state, k.circuit.since
	k.held.Seq++
	k.published = now
	return k.held, true
}

// ProbeDue says whether a health probe is to be sent now, and counts it as sent.
// The first is due at once, the next after the interval; one that is suspected to be
// gone is probed in between. Its result goes to Probed together with the epoch for
// which it was sent.
func (k *Keeper) ProbeDue(now time.Time) (epoch uint64, due bool) {
	if !k.active || k.cfg.Health.Disabled || k.held.Status == Draining || now.Before(k.probeDue) {
		return 0, false
	}
	if k.between = now.Before(k.nextProbe); !k.between {
		k.nextProbe = now.Add(k.cfg.Health.Interval)
	}
	k.probeDue = k.nextProbe
	return k.held.Epoch, true
}

// ProbeAt is when ProbeDue says so next, as TickAt.
func (k *Keeper) ProbeAt() (at time.Time, ever bool) {
	return k.probeDue, k.active && !k.cfg.Health.Disabled && k.held.Status != Draining
}

// Probe is Probed of a probe that tells nothing but whether the worker is well.
func (k *Keeper) Probe(epoch uint64, ok bool, now time.Time) (Record, bool) {
	return k.Probed(epoch, Finding{OK: ok}, now)
}

// Probed takes what a health probe has found. It is dropped if the process behind the
// worker has been replaced since, or if somebody else keeps the worker now. One that
// finds another process begins a new epoch. Bad probes count towards the thresholds
// once in the interval.
func (k *Keeper) Probed(epoch uint64, f Finding, now time.Time) (Record, bool) {
	if !k.active || epoch != k.held.Epoch || k.cfg.Health.Disabled {
		return k.held, false
	}
	publish := false
	switch {
	case f.OK:
		if publish = k.another(f.Process); publish {
			k.renew(now)
		}
		k.refusals = 0
		if f.Process.ID != 0 && f.Process != k.held.Process {
			k.held.Process, publish = f.Process, true
		}
	case f.Refused:
		k.refused(now)
	}
	to := k.held.Status
	if f.OK || !k.between {
		to = k.health.observe(f.OK, to, &k.cfg.Health)
	}
	if f.Moves && to == Ready && k.refusals >= goneAfter {
		to, k.health = NotReady, health{}
	}
	if rec, changed := k.become(to, now); changed {
		return rec, true
	}
	return k.publish(publish, now)
}

// Drain marks a worker whose removal has begun.
func (k *Keeper) Drain(now time.Time) (Record, bool) {
	if !k.active {
		return k.held, false
	}
	return k.become(Draining, now)
}

// become changes the status. What was reported by a worker that was ready does
// not hold for one that is not.
func (k *Keeper) become(to Status, now time.Time) (Record, bool) {
	if to == k.held.Status {
		return k.held, false
	}
	if k.held.Status == Ready {
		k.held.Report, k.held.Overloaded = nil, false
	}
	k.held.Status = to
	k.polls.begin()
	return k.publish(true, now)
}

// Outcome takes what a lease stream tells of the worker.
func (k *Keeper) Outcome(e Event, now time.Time) (Record, bool) {
	if !k.active || e.Worker != k.held.Worker {
		return k.held, false
	}
	return k.publish(k.circuit.observe(e, &k.cfg.Breaker, now), now)
}

// Streaks are how many calls in a row the breaker counts: failed ones while it is
// closed, good ones while it is half open.
func (k *Keeper) Streaks() (failures, successes int) {
	return len(k.circuit.failures), k.circuit.successes
}

// Report takes a load report, nil after a failed poll, and whether it vetoes the
// worker. One polled before the report held is dropped.
func (k *Keeper) Report(rep *Report, overloaded bool, now time.Time) (Record, bool) {
	old := k.held.Report
	if !k.active || k.held.Status != Ready || rep == nil && old == nil && !k.held.Overloaded {
		return k.held, false
	}
	if rep != nil && old != nil && rep.PolledAt.Before(old.PolledAt) {
		return k.held, false
	}
	k.held.Report, k.held.Overloaded = rep, overloaded && rep != nil
	return k.publish(true, now)
}
