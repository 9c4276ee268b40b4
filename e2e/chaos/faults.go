package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"
)

// kind is a kind of fault.
type kind int

const (
	killIngress kind = iota
	killSelector
	killEngine
	killNATS
	stopIngress
	stopSelector
	stopEngine
	stopNATS
	noNATS
	emptyNATS
	partition

	kinds
)

var kindNames = [kinds]string{
	"kill-ingress", "kill-selector", "kill-engine", "kill-nats", "stop-ingress", "stop-selector", "stop-engine", "stop-nats",
	"no-nats", "empty-nats", "partition",
}

func (k kind) String() string { return kindNames[k] }

// How long faults last.
const (
	deadFor    = 3 * time.Second // until it is started again
	stoppedFor = 6 * time.Second // longer than it takes until others count it out
	emptyFor   = 5 * time.Second
	cutFor     = 10 * time.Second
)

// incident is a fault that was made, or is to be made.
type incident struct {
	kind    kind
	victims []*member
	after   time.Duration // of the round's begin
	lasts   time.Duration

	// from is when it began, to when its victims were ready again, which is when healing
	// starts.
	from, to time.Time
}

func (i *incident) String() string {
	if len(i.victims) == 1 {
		return fmt.Sprintf("%s (%s)", i.kind, i.victims[0].name)
	}
	return i.kind.String()
}

// newIncident draws the victims of a fault.
func (s *site) newIncident(k kind, random *rand.Rand) *incident {
	i := &incident{kind: k, lasts: deadFor}
	of := map[kind][]*member{
		killIngress: s.ingresses, killSelector: s.selectors, killEngine: s.engines, killNATS: s.nats,
		stopIngress: s.ingresses, stopSelector: s.selectors, stopEngine: s.engines, stopNATS: s.nats,
	}[k]
	switch k {
	case noNATS:
		i.victims, i.lasts = s.nats, s.options.gone
	case emptyNATS:
		i.victims, i.lasts = s.nats, emptyFor
	case partition:
		i.lasts = cutFor
	case stopIngress, stopSelector, stopEngine, stopNATS:
		i.lasts = stoppedFor
		fallthrough
	default:
		i.victims = []*member{of[random.IntN(len(of))]}
	}
	return i
}

// hits says whether two faults have a victim in common, or are made of the same.
func (i *incident) hits(other *incident) bool {
	if i.kind == other.kind {
		return true
	}
	return slices.ContainsFunc(i.victims, func(m *member) bool { return slices.Contains(other.victims, m) })
}

// make makes the fault, and undoes it.
func (s *site) make(ctx context.Context, i *incident) error {
	if !wait(ctx, i.after) {
		return ctx.Err()
	}
	i.from = time.Now()
	begin, end := s.kill, s.revive
	switch i.kind {
	case stopIngress, stopSelector, stopEngine, stopNATS:
		begin, end = s.freeze, s.thaw
	case emptyNATS:
		end = s.reviveEmpty
	case partition:
		begin = func(*incident) error { return s.net.cut() }
		end = func(context.Context, *incident) error { return s.net.mend() }
	}
	if err := begin(i); err != nil {
		return err
	}
	waited := wait(ctx, i.lasts)
	if err := end(ctx, i); err != nil {
		return err
	}
	i.to = time.Now()
	if !waited {
		return ctx.Err()
	}
	return nil
}

// wait waits, and says whether ctx has not ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (s *site) kill(i *incident) error {
	var faults []error
	for _, m := range i.victims {
		m.up.Store(false)
		faults = append(faults, m.kill())
	}
	return errors.Join(faults...)
}

// revive starts the victims again and returns when they are ready.
func (s *site) revive(ctx context.Context, i *incident) error {
	for _, m := range i.victims {
		if err := m.start(); err != nil {
			return err
		}
	}
	for _, m := range i.victims {
		if err := s.ready(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// reviveEmpty starts NATS servers that have forgotten everything.
func (s *site) reviveEmpty(ctx context.Context, i *incident) error {
	for _, m := range i.victims {
		if err := os.RemoveAll(m.store); err != nil {
			return err
		}
	}
	return s.revive(ctx, i)
}

func (s *site) freeze(i *incident) error { return i.victims[0].signal(syscall.SIGSTOP) }

func (s *site) thaw(_ context.Context, i *incident) error {
	return i.victims[0].signal(syscall.SIGCONT)
}

// engineDead says whether a call has failed because of this fault: it killed the
// engine whose answer had begun. A call that had no answer yet can be made again, so
// that a dead engine explains nothing.
func (i *incident) engineDead(c *call) bool {
	return i.kind == killEngine && i.during(c) && c.begun && c.worker == i.victims[0].worker()
}

// ingressDead says whether this fault killed the ingress that a call was sent to.
func (i *incident) ingressDead(c *call) bool {
	return i.kind == killIngress && i.during(c) && i.victims[0] == c.ingress
}

// during says whether a call was under way at some time of the fault.
func (i *incident) during(c *call) bool {
	return !c.ended.Before(i.from) && (i.to.IsZero() || !c.began.After(i.to))
}
