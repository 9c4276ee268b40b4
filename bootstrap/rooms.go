package bootstrap

import (
	"math/rand/v2"
	"strconv"
	"sync"

	"smg/worker"
)

// Rooms draws the numbers under which a decode worker asks a prefill worker for the
// KV of one prompt. A room that is in flight is never drawn again. It is safe for
// concurrent use.
type Rooms struct {
	draw func() int64

	mu   sync.Mutex
	busy map[int64]struct{}
}

// NewRooms has no room in flight. draw is a uniform source of non-negative numbers;
// nil is math/rand/v2.
func NewRooms(draw func() int64) *Rooms {
	if draw == nil {
		draw = rand.Int64
	}
	return &Rooms{draw: draw, busy: map[int64]struct{}{}}
}

// Draw takes n rooms. Engines keep a room in a signed 64-bit integer, so it is
// within 0 … 2^63-1.
func (r *Rooms) Draw(n int) []int64 {
	rooms := make([]int64, 0, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(rooms) < n {
		room := r.draw()
		if _, taken := r.busy[room]; taken || room < 0 {
			continue
		}
		r.busy[room] = struct{}{}
		rooms = append(rooms, room)
	}
	return rooms
}

// Release gives rooms back once no engine can ask for them any more.
func (r *Rooms) Release(rooms []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, room := range rooms {
		delete(r.busy, room)
	}
}

// Len is the number of rooms in flight.
func (r *Rooms) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.busy)
}

// Bootstrap joins the prefill of one request to its decode.
type Bootstrap struct {
	Host  string
	Port  uint16 // 0: the engine uses its own
	Rooms []int64
	// Batch says that the request holds several prompts, each with a room of its
	// own: the fields are lists, even of one.
	Batch bool
}

// New joins a request of n prompts to the prefill worker at s; n 0 is one prompt
// that is no batch.
func New(s *worker.Spec, rooms *Rooms, n int) Bootstrap {
	return Bootstrap{Host: s.BootstrapHost, Port: s.BootstrapPort, Rooms: rooms.Draw(max(n, 1)), Batch: n > 0}
}

// Names of the body's fields.
const (
	FieldHost = "bootstrap_host"
	FieldPort = "bootstrap_port"
	FieldRoom = "bootstrap_room"
)

// Values are the JSON values of the three fields. quote writes a JSON string.
func (b Bootstrap) Values(quote func([]byte, string) []byte) (host, port, room []byte) {
	one := func(dst []byte, i int, what string) []byte {
		switch {
		case what == FieldHost:
			return quote(dst, b.Host)
		case what == FieldRoom:
			return strconv.AppendInt(dst, b.Rooms[i], 10)
		case b.Port == 0:
			return append(dst, "null"...)
		}
		return strconv.AppendUint(dst, uint64(b.Port), 10)
	}
	all := func(what string) []byte {
		if !b.Batch {
			return one(nil, 0, what)
		}
		v := []byte{'['}
		for i := range b.Rooms {
			if i > 0 {
				v = append(v, ',')
			}
			v = one(v, i, what)
		}
		return append(v, ']')
	}
	return all(FieldHost), all(FieldPort), all(FieldRoom)
}
