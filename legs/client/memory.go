package client

import (
	"container/list"
	"sync"

	"smg/wire"
	"smg/worker"
)

// memorySize is how many keys a leg's memory holds.
const memorySize = 65_536

// memory is the last worker of each key that this ingress has got a pick for, so that
// sessions stay where they are while nobody who knows their pins can be asked. The
// key used longest ago makes room. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	keys  map[memoryKey]*list.Element
	order list.List // of *recollection, the one used last in front
}

// memoryKey is a key of a model, by the model's own id.
type memoryKey struct {
	model string
	sum   [16]byte
}

type recollection struct {
	key    memoryKey
	worker worker.ID
}

// note remembers the worker of a key.
func (m *memory) note(key memoryKey, id worker.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.keys[key]
	switch {
	case e != nil:
		m.order.MoveToFront(e)
	case len(m.keys) < memorySize:
		if m.keys == nil {
			m.keys = map[memoryKey]*list.Element{}
		}
		e = m.order.PushFront(&recollection{key: key})
	default:
		e = m.order.Back()
		delete(m.keys, e.Value.(*recollection).key)
		m.order.MoveToFront(e)
	}
	r := e.Value.(*recollection)
	r.key, r.worker = key, id
	m.keys[key] = e
}

// recall is the worker that was noted for a key.
func (m *memory) recall(key memoryKey) (id worker.ID, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.keys[key]
	if !ok {
		return id, false
	}
	m.order.MoveToFront(e)
	return e.Value.(*recollection).worker, true
}

// manual is the policy that pins the keys of headers as they were sent.
const manual = "manual"

// pinnedKey is the key of an ask that the leg's selectors pin, or none: they pin if
// their policy is manual, or with sticky sessions.
func (c *Client) pinnedKey(l *leg, ask *wire.Select) worker.Key {
	key := ask.Keys.Sticky()
	if name, _ := l.policy.Load().(string); name == manual || key.None() {
		key = ask.Keys.Manual()
	}
	if !key.None() && c.Reads(ask.Lease.Leg)&(wire.ReadsPinnedKey|wire.ReadsConversationKey) == 0 {
		return worker.Key{} // some other leg's key
	}
	return key
}

// remember notes where the call of a key that is pinned went.
func (c *Client) remember(l *leg, ask *wire.Select, pick *wire.Pick) {
	if pick.Policy == hashing {
		return // the ring remembers
	}
	if key := c.pinnedKey(l, ask); !key.None() {
		l.memory.note(memoryKey{c.model(ask), key.Sum}, pick.Worker.ID)
	}
}

// remembered takes the worker that the ask's key had last, if it is available, and
// whom choose chooses otherwise.
func (c *Client) remembered(l *leg, ask *wire.Select, choose func(*worker.View) int) func(*worker.View) int {
	key := c.pinnedKey(l, ask)
	if key.None() {
		return choose
	}
	id, ok := l.memory.recall(memoryKey{c.model(ask), key.Sum})
	if !ok {
		return choose
	}
	return func(v *worker.View) int {
		if m := v.Members().Index(id); m >= 0 {
			if slot := v.Slot(m); slot >= 0 && v.Admits(slot) {
				return slot
			}
		}
		return choose(v)
	}
}

// model is the id of the model that an ask names, perhaps by an alias.
func (c *Client) model(ask *wire.Select) string {
	if p := c.registry.Pool(ask.Lease.Leg, ask.Model); p != nil {
		return p.Model()
	}
	return ask.Model
}
