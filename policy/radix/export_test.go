package radix

import (
	"fmt"
	"slices"
)

// Node is a node as tests see it.
type Node struct {
	Namespace uint64
	Path      string // from the root, as bytes
	Units     int    // of the edge
	Holders   [][16]byte
}

// Nodes are the nodes of all trees, in no order, without roots.
func (f *Forest) Nodes() []Node {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var all []Node
	for i := uint32(1); f.nodes.has(i); i++ {
		n := f.nodes.at(i)
		if n.birth == 0 || n.parent == 0 {
			continue
		}
		out := Node{Path: n.edge, Units: int(n.units)}
		for at := n.parent; ; at = f.nodes.at(at).parent {
			if f.nodes.at(at).parent == 0 {
				out.Namespace = f.names[at]
				break
			}
			out.Path = f.nodes.at(at).edge + out.Path
		}
		for _, h := range n.holders {
			out.Holders = append(out.Holders, f.tenants[h.tenant].id)
		}
		all = append(all, out)
	}
	return all
}

// Check walks everything and reports what does not fit together.
func (f *Forest) Check() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if err := f.checkNodes(); err != nil {
		return err
	}
	if err := f.checkTenants(); err != nil {
		return err
	}
	return f.checkList()
}

func (f *Forest) checkNodes() error {
	live, edges, tabled, roots, holds := 0, 0, 0, 0, 0
	children := map[uint32][]uint32{}
	for i := uint32(1); f.nodes.has(i); i++ {
		if n := f.nodes.at(i); n.birth != 0 {
			live++
			edges += n.memory()
			holds += len(n.holders)
			children[n.parent] = append(children[n.parent], i)
		}
	}
	for i := uint32(1); f.nodes.has(i); i++ {
		n := f.nodes.at(i)
		if n.birth == 0 {
			continue
		}
		tabled += n.tabled()
		if len(children[i]) != int(n.kids) {
			return fmt.Errorf("node %d has %d children and counts %d", i, len(children[i]), n.kids)
		}
		for k, a := range children[i] {
			for _, b := range children[i][k+1 : min(k+100, len(children[i]))] {
				if f.shared(a, f.nodes.at(b).edge) > 0 {
					return fmt.Errorf("the edges of %d and %d begin alike: %q, %q", a, b, f.nodes.at(a).edge, f.nodes.at(b).edge)
				}
			}
		}
		if n.parent == 0 {
			roots++
			if f.roots[f.names[i]] != i || n.kids == 0 || n.edge != "" || len(n.holders) > 0 {
				return fmt.Errorf("root %d: %+v", i, *n)
			}
			continue
		}
		if err := f.checkNode(i, n, children[i]); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	if live != f.nodes.len() || edges != f.edgeBytes || tabled != len(f.table) || roots != len(f.roots) || roots != len(f.names) || holds != f.holds.len() {
		return fmt.Errorf("%d nodes, %d bytes, %d in the table, %d roots, %d holds; counted %d, %d, %d, %d/%d, %d",
			live, edges, tabled, roots, holds, f.nodes.len(), f.edgeBytes, len(f.table), len(f.roots), len(f.names), f.holds.len())
	}
	return nil
}

func (f *Forest) checkNode(i uint32, n *node, children []uint32) error {
	parent := f.nodes.at(n.parent)
	if parent.only != i && f.table[f.kind.key(n.parent, n.edge)] != i {
		return fmt.Errorf("its parent %d does not find it", n.parent)
	}
	if n.edge == "" || int(n.slack) > len(n.edge) || n.start() != int(parent.end) || int(n.units) != f.kind.units(n.edge) || f.kind.cut(n.edge, n.edge, len(n.edge)) != len(n.edge) {
		return fmt.Errorf("edge %q of %d units from %d to %d under %d", n.edge, n.units, n.start(), n.end, parent.end)
	}
	if len(n.holders) == 0 || !slices.IsSortedFunc(n.holders, func(a, b holder) int { return int(a.tenant) - int(b.tenant) }) {
		return fmt.Errorf("holders %v", n.holders)
	}
	for _, h := range n.holders {
		x := f.holds.at(h.hold)
		if x.node != i || x.tenant != h.tenant {
			return fmt.Errorf("holder %v is %+v", h, *x)
		}
		if parent.parent != 0 && parent.held(h.tenant) == 0 {
			return fmt.Errorf("tenant %d does not hold the parent", h.tenant)
		}
		kids := uint32(0)
		for _, c := range children {
			if f.nodes.at(c).held(h.tenant) != 0 {
				kids++
			}
		}
		if kids != x.kids || kids == 0 && !x.listed {
			return fmt.Errorf("tenant %d holds %d children: %+v", h.tenant, kids, *x)
		}
	}
	return nil
}

func (f *Forest) checkTenants() error {
	units, present, holds := 0, 0, 0
	for i, t := range f.tenants {
		if t == nil {
			continue
		}
		present++
		own, last := 0, uint32(0)
		for h := t.first; h != 0; h = f.holds.at(h).next {
			x := f.holds.at(h)
			if int(x.tenant) != i || x.prev != last {
				return fmt.Errorf("tenant %d: hold %+v after %d", i, *x, last)
			}
			own += int(f.nodes.at(x.node).units)
			holds++
			last = h
		}
		if own != t.units || t.index != i || f.known[t.id] != t || own == 0 && !t.registered {
			return fmt.Errorf("tenant %d holds %d: %+v", i, own, *t)
		}
		units += own
	}
	if units != f.units || present != len(f.known) || present+len(f.vacant) != len(f.tenants) || holds != f.holds.len() {
		return fmt.Errorf("%d units, %d tenants, %d holds; counted %d, %d of %d, %d", units, present, holds, f.units, len(f.known), len(f.tenants), f.holds.len())
	}
	return nil
}

func (f *Forest) checkList() error {
	listed, last, stamp := 0, uint32(0), uint64(0)
	for h := f.oldest; h != 0; h = f.holds.at(h).newer {
		x := f.holds.at(h)
		if !x.listed || x.older != last || x.stamp < stamp || x.stamp > f.clock {
			return fmt.Errorf("listed after %d, %d: %+v", last, stamp, *x)
		}
		listed++
		last, stamp = h, x.stamp
	}
	if last != f.newest {
		return fmt.Errorf("the list ends with %d, not %d", last, f.newest)
	}
	for i := uint32(1); f.holds.has(i); i++ {
		if f.holds.at(i).listed {
			listed--
		}
	}
	if listed != 0 {
		return fmt.Errorf("%d more in the list than listed", listed)
	}
	return nil
}
