package simhttp

import (
	"errors"
	"fmt"
	"sync"
)

// roomKey names a rendezvous: the sequences of one request may share a room and
// are then told apart by their place in it.
type roomKey struct {
	room int64
	sub  int
	rank int // of the prefill engine
}

// rooms is where a prefill engine's requests meet the decode engines that fetch
// their KV. Either side may come first.
type rooms struct {
	mu   sync.Mutex
	open map[roomKey]*room
}

// room is one rendezvous. It exists while one side is there.
type room struct {
	key roomKey

	// Guarded by rooms.mu.
	local, peer bool

	peerCame chan struct{}   // closed when the peer is there
	peerLeft chan struct{}   // closed when it has gone again
	outcome  chan roomResult // holds one, from the local side
}

// roomResult is what the peer gets.
type roomResult struct {
	handed  handed
	failure string // if not empty there is no KV
}

var (
	errRoomTaken = errors.New("the room is in use by another request")
	errPeerTaken = errors.New("somebody fetches from the room already")
)

func newRooms() *rooms { return &rooms{open: make(map[roomKey]*room)} }

func (rs *rooms) at(k roomKey) *room {
	r, ok := rs.open[k]
	if !ok {
		r = &room{
			key: k, peerCame: make(chan struct{}), peerLeft: make(chan struct{}), outcome: make(chan roomResult, 1),
		}
		rs.open[k] = r
	}
	return r
}

// claims are the rooms, by where they are, that a decode engine's requests fetch from.
type claims struct {
	mu  sync.Mutex
	all map[string]struct{}
}

// claim says whether nobody has the room yet.
func (c *claims) claim(room string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.all[room]; taken {
		return false
	}
	if c.all == nil {
		c.all = map[string]struct{}{}
	}
	c.all[room] = struct{}{}
	return true
}

func (c *claims) release(rooms []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, room := range rooms {
		delete(c.all, room)
	}
}

// roomTaken notes a request for a room that is in use, of which the real engine dies.
func (s *Server) roomTaken(room int64) {
	s.transfers.duplicateRooms.Add(1)
	if s.faults.get().CrashOnDuplicateRoom {
		s.crash(fmt.Errorf("duplicate bootstrap room %d", room))
	}
}

// enter opens a room for a request of this engine.
func (rs *rooms) enter(k roomKey) (*room, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.at(k)
	if r.local {
		return nil, errRoomTaken
	}
	r.local = true
	return r, nil
}

// leave ends the local side's stay. A peer that is still there, and has got
// nothing, is told that it failed.
func (rs *rooms) leave(r *room, failure string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	select {
	case r.outcome <- roomResult{failure: failure}:
	default:
	}
	// Whoever comes from now on meets nobody.
	if rs.open[r.key] == r {
		delete(rs.open, r.key)
	}
}

// arrive brings a peer into a room.
func (rs *rooms) arrive(k roomKey) (*room, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.at(k)
	if r.peer {
		return nil, errPeerTaken
	}
	r.peer = true
	close(r.peerCame)
	return r, nil
}

// depart ends the peer's stay.
func (rs *rooms) depart(r *room) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	close(r.peerLeft)
	if !r.local && rs.open[r.key] == r {
		delete(rs.open, r.key)
	}
}

// count tells how many distinct rooms are open.
func (rs *rooms) count() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	distinct := make(map[int64]struct{}, len(rs.open))
	for k := range rs.open {
		distinct[k.room] = struct{}{}
	}
	return len(distinct)
}
