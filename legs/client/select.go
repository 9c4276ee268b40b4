package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"smg/wire"
	"smg/worker"
)

// Select has a worker picked for the leg, and begins the lease on it, up to ask.Wait
// after the call if nobody has room before: by the
// selector replica ranked first for the ask, by the next one if that is not ready or
// late, or from the client's own copy of the fleet when none answers. A pick of a
// process that is known to have been replaced is turned down and asked for anew, under
// another plan number, which is then in ask.Lease. On error nothing is counted. The
// error is one of package worker's Err values, possibly wrapped,
// wire.ErrSelectionUnavailable or the context's.
func (c *Client) Select(ctx context.Context, ask *wire.Select) (wire.Pick, error) {
	l := c.legs[ask.Lease.Leg]
	if l == nil {
		return wire.Pick{}, fmt.Errorf("the %s leg: %w", ask.Lease.Leg, worker.ErrNoWorkers)
	}
	for again := 0; ; again++ {
		pick, outdated, err := c.selectOnce(ctx, l, ask, again == mostAgain)
		if !outdated {
			return pick, err
		}
		ask.Lease = c.plans.Lease(c.plans.Next(), ask.Lease.Leg, ask.Lease.Item)
	}
}

// mostAgain is how often a selector that knows less than this client may pick, before
// the client picks by itself.
const mostAgain = 3

// selectOnce has a worker picked and begins the lease on it, unless the pick is of a
// former process. alone asks no selector.
func (c *Client) selectOnce(ctx context.Context, l *leg, ask *wire.Select, alone bool) (pick wire.Pick, outdated bool, err error) {
	if err := ctx.Err(); err != nil {
		return wire.Pick{}, false, err
	}
	if ask.Wait > 0 && !alone {
		return c.selectInLine(ctx, l, ask)
	}
	r := round{c: c, l: l, ask: ask}
	defer r.end() // after the lease has begun
	reason := reasonOutdated
	if !alone {
		pick, reason, err = c.fromSelector(ctx, &r)
	}
	return c.begin(l, ask, pick, reason, err)
}

// begin begins the lease on a pick, or on one from the copy if there is a reason why no
// selector has picked.
func (c *Client) begin(l *leg, ask *wire.Select, pick wire.Pick, reason string, err error) (_ wire.Pick, outdated bool, _ error) {
	if reason != "" {
		pick, err = c.fromCopy(l, ask, reason)
	} else if err == nil {
		c.recovered(l, ask.Lease.Leg)
	}
	switch {
	case errors.Is(err, worker.ErrFull):
		l.fullUntil.Store(c.now().Add(fullFor).UnixNano())
		return wire.Pick{}, false, err
	case err != nil:
		return wire.Pick{}, false, err
	case !pick.Degraded && c.Outdated(ask.Lease.Leg, pick.Worker.ID, pick.Epoch):
		l.wake(l.writer.LateReply(ask.Lease))
		return wire.Pick{}, true, nil
	}
	c.remember(l, ask, &pick)
	l.wake(l.writer.Begin(worker.Lease{
		ID: ask.Lease, Worker: pick.Worker.ID, Tokens: pick.Tokens, Key: worker.Scoped(ask.Model, ask.Keys.Counted()), Probe: pick.Probe, Units: ask.Units,
	}))
	return pick, false, nil
}

// Reasons for which a worker is chosen without a selector.
const (
	reasonNone      = "no_selector"  // no replica is ranked
	reasonSilent    = "silent"       // no replica that was asked answered in time
	reasonExcluded  = "excluded"     // all were silent before
	reasonNotReady  = "not_ready"    // no replica is ready
	reasonNoMessage = "disconnected" // the message bus is gone
	reasonTooMuch   = "unsendable"   // the message bus does not take what is to be asked
	reasonOutdated  = "outdated"     // the selector has not heard of a restart that is known here
)

// fromSelector asks the leg's replicas in their order. A reason says that none of
// them has decided; otherwise pick and err are the decision.
func (c *Client) fromSelector(ctx context.Context, r *round) (pick wire.Pick, reason string, err error) {
	l := r.l
	switch l.ranking.Len() {
	case 0:
		if !c.bus.Connected() {
			return pick, reasonNoMessage, nil
		}
		return pick, reasonNone, nil
	case 1: // the usual case needs no key and no order
		first, ok := l.ranking.First(0)
		if local := l.local[first]; ok && local != nil {
			pick, err = local.Select(r.ask)
			if errors.Is(err, wire.ErrSelectionUnavailable) {
				return pick, reasonNotReady, nil
			}
			return pick, "", err
		}
	}
	if r.order = c.order(l, r.ask); len(r.order) == 0 {
		return pick, reasonExcluded, nil
	}
	return r.run(ctx)
}

// order is whom to ask, one after the other.
func (c *Client) order(l *leg, ask *wire.Select) []worker.ReplicaID {
	now := c.now()
	full := l.isFull(now)
	var key uint64
	if full {
		key = worker.PoolKey(ask.Lease.Leg, c.model(ask))
	} else {
		key = c.selectionKey(ask)
	}
	order := slices.DeleteFunc(l.ranking.Rank(key, nil), func(id worker.ReplicaID) bool {
		return l.excluded.Excluded(id, now)
	})
	if len(order) > 1 && !full && c.byPrefix(ask) && l.crowded(order) {
		order[0], order[1] = order[1], order[0]
	}
	return order
}

// crowd is how many selects a replica may have before prefixes go elsewhere.
const crowd = 8

// crowded says whether the first of several replicas has too many selects to answer:
// more than crowd, and more than twice the mean of the others.
func (l *leg) crowded(order []worker.ReplicaID) bool {
	first := l.unanswered(order[0])
	if first <= crowd {
		return false
	}
	var others int64
	for _, id := range order[1:] {
		others += l.unanswered(id)
	}
	return first*int64(len(order)-1) > 2*others
}

// unanswered is how many selects a replica has to answer. One of this process has
// none: it answers at once.
func (l *leg) unanswered(id worker.ReplicaID) int64 {
	if p, ok := l.peers.Load(id); ok {
		return p.(*peer).open.Load()
	}
	return 0
}

// byPrefix says whether the prompt's head decides which replica answers.
func (c *Client) byPrefix(ask *wire.Select) bool {
	return c.routingKey(ask).None() && (len(ask.TokenIDs) > 0 || ask.Text != "")
}

// readsKeys are what policies read that go by keys.
const readsKeys = wire.ReadsKey | wire.ReadsPinnedKey | wire.ReadsConversationKey | wire.ReadsImplicitKey

// routingKey is the key that an ask goes by, if its leg's policies go by keys. To
// others a key means nothing: rotations and trees would fall apart.
func (c *Client) routingKey(ask *wire.Select) worker.Key {
	if c.Reads(ask.Lease.Leg)&readsKeys == 0 {
		return worker.Key{}
	}
	return ask.Keys.Any()
}

// headLength is how much of a prompt decides which replica answers, in characters or
// tokens.
const headLength = 64

// selectionKey decides which replica answers: the one of the routing key, where
// policies go by keys, so that a key has one writer, else the one of the prompt's head, where policies look at
// prompts, so that those which begin alike are in one tree, else the one of the pool.
func (c *Client) selectionKey(ask *wire.Select) uint64 {
	if k := c.routingKey(ask); !k.None() {
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
