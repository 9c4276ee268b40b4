// Package radix is the prefix trees that prompts are remembered in: which worker was
// sent which beginnings of prompts, and so most likely has them in its cache.
//
// A forest is the trees of one model, one for each namespace, over text ([Text]) or
// over token ids ([Tokens]). Its workers are tenants, known by 16 bytes each; a
// tenant holds nodes, always together with all nodes above them. All trees of a
// forest share one budget, in units (characters or tokens, counted once for each
// tenant that holds them), which is kept at every insert: the least recently used
// ends of paths go first, whoever holds them.
//
// A selection is two calls: Match walks a tree once and tells how much of the input
// is known and who holds it; [Forest.Insert] goes on from there for the worker that
// was chosen. Between them no lock is held, and the tree may change at will. How long
// an input may be is the caller's matter; below 4 GiB in any case.
//
// # Memory
//
// A node costs about 100 bytes, and 50 more for each tenant that holds it, plus the
// text or tokens of its edge (a copy; the input is not kept). The sum is counted and
// bounded too, by 16 bytes for each unit of the budget and 1 MiB. A forest that
// becomes empty gives its memory back; a namespace without nodes costs nothing.
//
// # Concurrency
//
// Everything is safe for concurrent use but a [Place], which belongs to one
// goroutine. A forest has one lock: Match reads under it, the rest writes, and
// nobody is called while it is held. It is held for microseconds, but for a removal,
// which takes about 0.1 µs for each node that the tenant holds.
package radix

import (
	"math"
	"sync"
)

// kind is what text and tokens differ in. Edges and inputs are strings of bytes.
type kind interface {
	// cut is the last place, at or before n bytes that edge and rest have in
	// common, where both may be split.
	cut(edge, rest string, n int) int
	// units counts the units of a string that starts with a whole one.
	units(s string) int
	// key is where the table has the child of parent that starts with the first
	// unit (or page) of s. Two children may share a key by accident.
	key(parent uint32, s string) uint64
}

// The bound on memory: generous enough for anything but trees of tiny nodes.
const (
	bytesPerUnit = 16
	bytesAnyway  = 1 << 20
)

// Forest is what [Text] and [Tokens] have in common.
type Forest struct {
	kind     kind
	budget   int // units
	maxBytes int

	mu    sync.RWMutex
	nodes arena[node]
	holds arena[hold]
	// table finds the children that their parents do not name themselves. One for
	// all nodes costs nothing where there are none and does not mind many.
	table map[uint64]uint32
	roots map[uint64]uint32 // of namespaces
	names map[uint32]uint64 // the namespaces of roots

	tenants []*Tenant // by index, nil where vacant
	vacant  []int
	known   map[[16]byte]*Tenant

	clock          uint64 // the last stamp
	births         uint64 // the last node's
	oldest, newest uint32 // ends of the list of holds by stamp
	units          int    // of all tenants
	edgeBytes      int
}

func (f *Forest) init(k kind, budget int) {
	f.kind, f.budget = k, budget
	f.maxBytes = math.MaxInt
	if budget < (math.MaxInt-bytesAnyway)/bytesPerUnit {
		f.maxBytes = budget*bytesPerUnit + bytesAnyway
	}
	f.table, f.roots, f.names = map[uint64]uint32{}, map[uint64]uint32{}, map[uint32]uint64{}
	f.known = map[[16]byte]*Tenant{}
}

// Stats is what a forest holds.
type Stats struct {
	Units      int // of all tenants
	Tenants    int // registered, or holding something
	Namespaces int // with at least one node
	Nodes      int // roots not counted
	Holds      int // pairs of a node and a tenant that holds it
	Bytes      int // of memory, about
}

// Stats is what the forest holds now.
func (f *Forest) Stats() Stats {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return Stats{
		Units:      f.units,
		Tenants:    len(f.known),
		Namespaces: len(f.roots),
		Nodes:      f.nodes.len() - len(f.roots),
		Holds:      f.holds.len(),
		Bytes:      f.bytes(),
	}
}

// bytes is the memory of nodes, holds and edges.
func (f *Forest) bytes() int {
	return f.nodes.len()*nodeBytes + f.holds.len()*holdBytes + f.edgeBytes
}
