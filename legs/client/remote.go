package client

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"smg/wire"
	"smg/worker"
)

// peer is a selector replica in another process.
type peer struct {
	id      worker.ReplicaID
	service wire.Service[wire.Select, wire.Reply]
	open    atomic.Int64 // selects that it has neither answered nor been given up for
}

// peer is how a replica is asked, made once.
func (l *leg) peer(c *Client, leg worker.Leg, id worker.ReplicaID) *peer {
	if p, ok := l.peers.Load(id); ok {
		return p.(*peer)
	}
	p, _ := l.peers.LoadOrStore(id, &peer{id: id, service: c.cfg.Cluster.Select(leg, id)})
	return p.(*peer)
}

// forget drops what is known of replicas that are not ranked any more.
func (l *leg) forget() {
	ranked := l.ranking.Rank(0, nil)
	l.peers.Range(func(id, _ any) bool {
		if !slices.Contains(ranked, id.(worker.ReplicaID)) {
			l.peers.Delete(id)
			l.excluded.Forget(id.(worker.ReplicaID))
		}
		return true
	})
}

// waiting are the selects for which replicas in other processes were asked, and of
// which not everything has come that may come in time.
type waiting struct {
	mu   sync.Mutex
	asks map[worker.LeaseID]*wait
}

// wait is one of them.
type wait struct {
	answers chan *wire.Reply // with room for all of those who can be asked, so that nobody blocks

	// Below waiting.mu:

	calls []call
	over  bool // the select has ended: nobody receives answers any more
	two   [2]call
}

// call is one replica that was asked.
type call struct {
	peer *peer
	sent time.Time
	open bool // it has neither answered nor been given up
	line bool // it has said that the select waits: it owes an answer, but not soon
}

func (k *call) close() {
	k.open = false
	if !k.line {
		k.peer.open.Add(-1)
	}
}

// wait notes that the answer takes its time.
func (k *call) wait() {
	k.line = true
	k.peer.open.Add(-1)
}

// open says whether anybody has still to answer.
func (w *wait) open() bool {
	for i := range w.calls {
		if w.calls[i].open {
			return true
		}
	}
	return false
}

// begin is a new wait for at most n answers.
func (w *waiting) begin(id worker.LeaseID, n int) *wait {
	one := &wait{answers: make(chan *wire.Reply, n)}
	one.calls = one.two[:0]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks[id] = one
	return one
}

// add notes that a replica is about to be asked.
func (w *waiting) add(one *wait, p *peer, sent time.Time) {
	p.open.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	one.calls = append(one.calls, call{peer: p, sent: sent, open: true})
}

// answered takes a reply. By says who has answered in time, or nil; late that nobody
// receives the reply.
func (w *waiting) answered(r *wire.Reply) (by *peer, late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.asks[r.Lease]
	if one == nil {
		return nil, true
	}
	for i := range one.calls {
		k := &one.calls[i]
		if !k.open || k.peer.id != r.Replica || r.Queued && k.line {
			continue
		}
		if r.Queued {
			k.wait()
		} else {
			k.close()
		}
		by = k.peer
		if !one.over {
			one.answers <- r
		} else if !one.open() {
			delete(w.asks, r.Lease)
		}
		break
	}
	return by, one.over
}

// giveUp ends what a replica was asked and has not answered. gone, if not nil, is told.
func (w *waiting) giveUp(one *wait, id worker.ReplicaID, gone func(*call)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range one.calls {
		k := &one.calls[i]
		if !k.open || k.peer.id != id {
			continue
		}
		k.close()
		if gone != nil {
			gone(k)
		}
	}
}

// nobody answers for a replica, or for all with subject "", that is not on the bus.
func (w *waiting) nobody(subject string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, one := range w.asks {
		for i := range one.calls {
			k := &one.calls[i]
			if !k.open || subject != "" && k.peer.service.Subject != subject {
				continue
			}
			k.close()
			if !one.over {
				one.answers <- &wire.Reply{Lease: id, Replica: k.peer.id, Err: &wire.Error{Code: wire.CodeNotReady, Message: "the selector has left the bus"}}
			}
		}
		if one.over && !one.open() {
			delete(w.asks, id)
		}
	}
}

// linger says that nobody receives the answers any more, and whether there is still
// somebody who may answer in time, until [waiting.close]. The last of them was asked
// at last.
func (w *waiting) linger(id worker.LeaseID, one *wait) (last time.Time, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.over = true
	for i := range one.calls {
		if one.calls[i].open {
			last, open = one.calls[i].sent, true
		}
	}
	if !open {
		delete(w.asks, id)
	}
	return last, open
}

// close ends a wait. gone, if not nil, is told of each call that was not answered.
func (w *waiting) close(id worker.LeaseID, one *wait, gone func(*call)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.over = true
	for i := range one.calls {
		k := &one.calls[i]
		if !k.open {
			continue
		}
		k.close()
		if gone != nil {
			gone(k)
		}
	}
	if w.asks[id] == one {
		delete(w.asks, id)
	}
}

// onReply hands an answer to the select that waits for it. A worker that was
// granted to nobody any more is given back. One that is about somebody else's lease is
// dropped: its end, among those of the own ones, would make them unsendable.
func (c *Client) onReply(r *wire.Reply) {
	l := c.legs[r.Lease.Leg]
	if l == nil || r.Lease.Incarnation != c.cfg.Incarnation {
		return
	}
	by, late := c.waiting.answered(r)
	if by != nil {
		l.excluded.Answered(by.id)
	}
	if by != nil || late { // not one that is told twice
		l.owed.Store(0) // late, perhaps, but not silent
	}
	if late {
		c.giveBack(l, r)
	}
}

// giveBack answers a grant that is of no use, or the word that there will be one, with its
// end, unless its lease is open.
func (c *Client) giveBack(l *leg, r *wire.Reply) {
	if r.Err == nil {
		l.wake(l.writer.LateReply(r.Lease))
	}
}

// onNobody ends the waits for a replica that is not on the bus any more.
func (c *Client) onNobody(subject string) { c.waiting.nobody(subject) }

// request asks a replica in another process.
func (c *Client) request(one *wait, p *peer, ask *wire.Select) error {
	c.waiting.add(one, p, c.now())
	return c.post(p, ask)
}
