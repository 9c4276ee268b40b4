package radix

import (
	"math"
	"slices"
	"strings"
)

// Place is what Match found, and where [Forest.Insert] goes on. Its zero value is
// ready, and it may be used again and again, which saves allocations. From Match to
// Insert or Release it refers to the input.
type Place struct {
	Matched int // units of the input that the tree knew
	Input   int // units of the whole input
	// Holders are the tenants of the deepest node that the input reached into, by
	// index. They are overwritten by the next Match.
	Holders []*Tenant

	input     string // what may be inserted
	units     int    // of input
	namespace uint64

	// The deepest node. While it lives, the text from the root to its end stays
	// the same, however the path is split.
	node    uint32
	birth   uint64
	depth   int // bytes of input that are matched
	matched int // units of them
}

// Release forgets the input and where it was found. Matched, Input and Holders stay.
func (p *Place) Release() { *p = Place{Matched: p.Matched, Input: p.Input, Holders: p.Holders} }

// match is Match for either kind; it leaves p.Input to the caller.
func (f *Forest) match(p *Place, namespace uint64, input string) {
	*p = Place{Holders: p.Holders[:0], input: input, namespace: namespace}
	f.mu.RLock()
	if p.node = f.roots[namespace]; p.node != 0 {
		f.descend(p)
	}
	if p.depth > 0 {
		holders := f.nodes.at(p.node).holders
		p.Holders = slices.Grow(p.Holders, len(holders))[:len(holders)]
		for i, h := range holders {
			p.Holders[i] = f.tenants[h.tenant]
		}
	}
	f.mu.RUnlock()
	p.Matched = p.matched
	p.units = p.matched + f.kind.units(input[p.depth:])
}

// descend walks on from p as far as its input goes. f.mu is held, for reading at
// least.
func (f *Forest) descend(p *Place) {
	n := f.nodes.at(p.node)
	for p.depth == int(n.end) && p.depth < len(p.input) {
		child, shared := f.step(p.node, n, p.input[p.depth:])
		if child == 0 {
			break
		}
		n = f.nodes.at(child)
		p.node = child
		p.depth += shared
		p.matched += f.unitsOf(n, shared)
	}
	p.birth = n.birth
}

// resume brings p up to date with a tree that may have changed. f.mu is held.
func (f *Forest) resume(p *Place) {
	if !f.nodes.has(p.node) || f.nodes.at(p.node).birth != p.birth {
		p.node, p.depth, p.matched = f.root(p.namespace), 0, 0
	}
	for n := f.nodes.at(p.node); n.parent != 0 && p.depth <= n.start(); n = f.nodes.at(p.node) {
		p.node = n.parent // the path was split at the place or below it
	}
	f.descend(p)
}

// Insert gives the tenant id the input of p: the nodes of its path, with those that
// have yet to be made. The last one is used now. It is the second half of the walk
// that Match began, with the result of a walk of its own, and releases p.
//
// Afterwards the forest is within its budget again. An input that alone is above it
// is not inserted, nor is an empty one. A tenant need not be registered.
func (f *Forest) Insert(p *Place, id [16]byte) Receipt {
	defer p.Release()
	if p.units == 0 || p.units > f.budget {
		return Receipt{}
	}
	edge := strings.Clone(p.input[p.depth:]) // most likely the new one; copied before the lock
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resume(p)
	last := f.extend(p, edge)
	if f.nodes.at(last).parent == 0 {
		return Receipt{} // nothing but the beginning of somebody else's key
	}
	r := f.attach(last, f.tenant(id))
	f.shrink(f.budget, math.MaxInt)
	return r
}

// extend makes a node end where the input of p does and returns it. edge is a copy
// of what Match did not find of the input.
func (f *Forest) extend(p *Place, edge string) uint32 {
	last := p.node
	if n := f.nodes.at(last); p.depth < int(n.end) {
		last = f.split(last, p.depth-n.start())
	}
	rest := p.input[p.depth:]
	if rest == "" {
		return last
	}
	if len(edge) != len(rest) {
		edge = strings.Clone(rest)
	}
	return f.grow(last, edge, p.units-p.matched)
}
