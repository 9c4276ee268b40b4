package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/zeebo/xxh3"

	"smg/wire"
	"smg/worker"
)

// Select has a worker picked for the leg, and begins the lease on it: by the
// selector replica ranked first for the ask, by the next one if that is not ready,
// or from the client's own copy of the fleet when none answers. On error nothing is
// counted. The error is one of package worker's Err values, possibly wrapped,
// wire.ErrSelectionUnavailable or the context's.
func (c *Client) Select(ctx context.Context, ask *wire.Select) (wire.Pick, error) {
	if err := ctx.Err(); err != nil {
		return wire.Pick{}, err
	}
	l := c.legs[ask.Lease.Leg]
	if l == nil {
		return wire.Pick{}, fmt.Errorf("the %s leg: %w", ask.Lease.Leg, worker.ErrNoWorkers)
	}
	pick, reason, err := c.fromSelector(ctx, l, ask)
	if reason != "" {
		pick, err = c.fromCopy(l, ask, reason)
	} else if err == nil {
		c.recovered(l, ask.Lease.Leg)
	}
	if err != nil {
		return wire.Pick{}, err
	}
	c.remember(l, ask, &pick)
	l.wake(l.writer.Begin(worker.Lease{
		ID: ask.Lease, Worker: pick.Worker.ID, Tokens: pick.Tokens, Key: worker.Scoped(ask.Model, ask.Keys.Counted()), Probe: pick.Probe,
	}))
	return pick, nil
}

// Reasons for which a worker is chosen without a selector.
const (
	reasonNone      = "no_selector"  // no replica is ranked
	reasonSilent    = "silent"       // the replica that was asked did not answer in time
	reasonExcluded  = "excluded"     // it was silent before
	reasonNotReady  = "not_ready"    // no replica is ready
	reasonNoMessage = "disconnected" // the message bus is gone
)

// fromSelector asks the leg's replicas in their order. A reason says that none of
// them has decided; otherwise pick and err are the decision.
func (c *Client) fromSelector(ctx context.Context, l *leg, ask *wire.Select) (pick wire.Pick, reason string, err error) {
	replicas := l.ranking.Len()
	if replicas == 1 { // the usual case needs no key and no order
		first, ok := l.ranking.First(0)
		if local := l.local[first]; ok && local != nil {
			pick, err = local.Select(ask)
			if errors.Is(err, wire.ErrSelectionUnavailable) {
				return pick, reasonNotReady, nil
			}
			return pick, "", err
		}
	}
	if replicas == 0 {
		if !c.bus.Connected() {
			return pick, reasonNoMessage, nil
		}
		return pick, reasonNone, nil
	}
	reason = reasonExcluded
	now := c.now()
	for _, id := range l.ranking.Rank(c.selectionKey(ask), nil) {
		if l.excluded.Excluded(id, now) {
			continue
		}
		if local := l.local[id]; local != nil {
			pick, err = local.Select(ask)
		} else {
			pick, err = c.remote(ctx, l, id, ask)
		}
		switch {
		case ctx.Err() != nil:
			return pick, "", ctx.Err()
		case errors.Is(err, errSilent):
			return pick, reasonSilent, nil
		case errors.Is(err, errNoMessage):
			return pick, reasonNoMessage, nil
		case errors.Is(err, wire.ErrSelectionUnavailable):
			reason = reasonNotReady
			continue
		}
		return pick, "", err
	}
	return pick, reason, nil
}

// headLength is how much of a prompt decides which replica answers, in characters or
// tokens.
const headLength = 64

// selectionKey decides which replica answers: the one of the routing key, so that
// a key has one writer, else the one of the prompt's head, where policies look at
// prompts, so that those which begin alike are in one tree, else the one of the pool.
func (c *Client) selectionKey(ask *wire.Select) uint64 {
	if k := ask.Keys.Any(); !k.None() {
		return k.Short
	}
	switch {
	case len(ask.TokenIDs) > 0:
		var head [4 * headLength]byte
		n := 0
		for _, id := range ask.TokenIDs[:min(headLength, len(ask.TokenIDs))] {
			binary.LittleEndian.PutUint32(head[n:], id)
			n += 4
		}
		return xxh3.Hash(head[:n])
	case ask.Text != "":
		return xxh3.HashString(firstRunes(ask.Text, headLength))
	}
	return worker.PoolKey(ask.Lease.Leg, c.model(ask)) // an alias goes where its model goes
}

// firstRunes is the first n characters of s.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// hedgeAfter is how long an answer may take before it counts as late.
const hedgeAfter = 25 * time.Millisecond

// maxSilent is how many selects of a leg may wait for the whole plan time-out: they
// find out whether the replica is gone. Everybody else stops waiting for it after
// hedgeAfter.
const maxSilent = 2
