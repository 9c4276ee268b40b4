package radix

import "strings"

// nodeBytes is what a node costs: itself, and on average what the table and the
// allocator add.
const nodeBytes = 104

// node is a node of a tree. The root of a namespace has no edge, no parent and no
// holders. Every other node is held by somebody, and its holders hold its parent.
type node struct {
	edge    string   // from the parent to here; the memory is the node's own
	holders []holder // ascending by tenant
	birth   uint64   // never the same for two nodes; 0 for none
	parent  uint32
	end     uint32 // bytes from the root to the end of the edge
	units   uint32 // of the edge
	slack   uint32 // bytes of the edge's memory that it does not use
	kids    uint32 // children
	only    uint32 // the child that is not in the table, or 0
}

// start is the bytes from the root to the edge.
func (n *node) start() int { return int(n.end) - len(n.edge) }

// unitsOf counts the units of the first bytes of n's edge.
func (f *Forest) unitsOf(n *node, bytes int) int {
	switch {
	case bytes == len(n.edge):
		return int(n.units)
	case int(n.units) == len(n.edge):
		return bytes
	}
	return f.kind.units(n.edge[:bytes])
}

// step is the child of n, the node at i, that shares its first unit (or page) with
// rest, and the bytes that they share; 0 if there is none.
func (f *Forest) step(i uint32, n *node, rest string) (child uint32, shared int) {
	if n.only != 0 {
		if shared = f.shared(n.only, rest); shared > 0 {
			return n.only, shared
		}
	}
	if n.tabled() == 0 {
		return 0, 0
	}
	child = f.table[f.kind.key(i, rest)]
	if child == 0 || f.nodes.at(child).parent != i {
		return 0, 0
	}
	if shared = f.shared(child, rest); shared == 0 {
		return 0, 0 // another with the same key
	}
	return child, shared
}

// tabled counts the children that are in the table.
func (n *node) tabled() int {
	if n.only != 0 {
		return int(n.kids) - 1
	}
	return int(n.kids)
}

func (f *Forest) shared(child uint32, rest string) int {
	edge := f.nodes.at(child).edge
	return f.kind.cut(edge, rest, common(edge, rest))
}

// root is the root of a namespace, made if there is none.
func (f *Forest) root(namespace uint64) uint32 {
	i := f.roots[namespace]
	if i == 0 {
		i, _ = f.bear()
		f.roots[namespace], f.names[i] = i, namespace
	}
	return i
}

func (f *Forest) bear() (uint32, *node) {
	i, n := f.nodes.take()
	f.births++
	n.birth = f.births
	return i, n
}

// grow adds a child with the given edge to the node at i and returns it. In the
// one case that another child has its key in the table, it returns i.
func (f *Forest) grow(i uint32, edge string, units int) uint32 {
	parent := f.nodes.at(i)
	key := uint64(0)
	if parent.only != 0 {
		if key = f.kind.key(i, edge); f.table[key] != 0 {
			return i
		}
	}
	child, n := f.bear()
	if parent.only == 0 {
		parent.only = child
	} else {
		f.table[key] = child
	}
	parent.kids++
	n.edge, n.parent, n.end, n.units = edge, i, parent.end+uint32(len(edge)), uint32(units)
	f.edgeBytes += len(edge)
	return child
}

// split puts a new node between the one at i and its parent, at so many bytes of
// the edge, and returns it. The lower part stays the node at i: whoever refers to
// it means a path from the root, and that stays the same.
func (f *Forest) split(i uint32, at int) uint32 {
	lower := f.nodes.at(i)
	units := f.unitsOf(lower, at)
	upper, n := f.bear()
	n.edge, lower.edge = lower.edge[:at], lower.edge[at:]
	n.parent, n.end, n.units = lower.parent, lower.end-uint32(len(lower.edge)), uint32(units)
	f.divide(n, lower)
	n.only, n.kids = i, 1
	if parent := f.nodes.at(n.parent); parent.only == i {
		parent.only = upper
	} else {
		f.table[f.kind.key(n.parent, n.edge)] = upper
	}
	lower.parent, lower.units = upper, lower.units-uint32(units)
	f.shareHolds(lower, upper, n)
	return upper
}

// divide gives each part of a split edge memory of its own, lest one keep that of
// both when the other is gone. The longer keeps what it has, unless it would leave
// more than half of it unused.
func (f *Forest) divide(upper, lower *node) {
	longer, shorter := upper, lower
	if len(upper.edge) < len(lower.edge) {
		longer, shorter = lower, upper
	}
	memory := len(upper.edge) + len(lower.edge) + int(lower.slack)
	f.edgeBytes -= memory
	shorter.edge, shorter.slack = strings.Clone(shorter.edge), 0
	longer.slack = uint32(memory - len(longer.edge))
	if int(longer.slack) > len(longer.edge) {
		longer.edge, longer.slack = strings.Clone(longer.edge), 0
	}
	f.edgeBytes += upper.memory() + lower.memory()
}

// memory is the bytes behind n's edge.
func (n *node) memory() int { return len(n.edge) + int(n.slack) }

// prune removes the node at i if nobody holds it and nothing hangs on it, and then
// those above that it leaves like that.
func (f *Forest) prune(i uint32) {
	for i != 0 {
		n := f.nodes.at(i)
		if n.kids > 0 || len(n.holders) > 0 {
			return
		}
		parent := n.parent
		if parent == 0 {
			delete(f.roots, f.names[i])
			delete(f.names, i)
		} else {
			f.unlink(parent, i, n)
		}
		f.nodes.give(i)
		i = parent
	}
	f.recycle()
}

// unlink takes n, the node at i, from its parent.
func (f *Forest) unlink(parent, i uint32, n *node) {
	p := f.nodes.at(parent)
	if p.only == i {
		p.only = 0
	} else {
		delete(f.table, f.kind.key(parent, n.edge))
	}
	p.kids--
	f.edgeBytes -= n.memory()
}

// recycle gives memory back once there are no nodes: arenas and maps do not shrink
// by themselves.
func (f *Forest) recycle() {
	const worthIt = 16 * chunk
	if f.nodes.len() > 0 || f.nodes.used < worthIt {
		return
	}
	f.nodes, f.holds = arena[node]{}, arena[hold]{}
	f.table, f.roots, f.names = map[uint64]uint32{}, map[uint64]uint32{}, map[uint32]uint64{}
}
