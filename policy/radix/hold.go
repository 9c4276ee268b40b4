package radix

import (
	"cmp"
	"slices"
)

// holdBytes is what a hold costs, with its entry in the node.
const holdBytes = 56

// hold is that a tenant holds a node. It is a leaf of its tenant if the tenant holds
// none of the node's children.
type hold struct {
	stamp  uint64 // when an insert of the tenant last ended here, 0 for never
	node   uint32
	tenant uint32
	kids   uint32 // children of the node that the tenant holds

	older, newer uint32 // by stamp, if listed
	prev, next   uint32 // of the tenant
	listed       bool
}

// holder is a hold as its node knows it.
type holder struct {
	tenant, hold uint32
}

// seek is where a tenant is, or would be, among the holders of a node.
func (n *node) seek(tenant uint32) (int, bool) {
	const few = 4
	if len(n.holders) > few {
		return slices.BinarySearchFunc(n.holders, tenant, func(h holder, t uint32) int { return cmp.Compare(h.tenant, t) })
	}
	for i, h := range n.holders {
		if h.tenant >= tenant {
			return i, h.tenant == tenant
		}
	}
	return len(n.holders), false
}

// held is the hold of a tenant on n, or 0.
func (n *node) held(tenant uint32) uint32 {
	if i, ok := n.seek(tenant); ok {
		return n.holders[i].hold
	}
	return 0
}

// Receipt is what an insert newly gave to a tenant, for [Forest.Undo]. Its zero
// value is of an insert that gave nothing. It keeps no memory of the forest.
type Receipt struct {
	tenant *Tenant
	node   uint32
	stamp  uint64
	above  uint32 // bytes of the path that the tenant held before
}

// Empty says that there is nothing to undo.
func (r Receipt) Empty() bool { return r.tenant == nil }

// attach lets t hold the node at last and all above it, and stamps it.
func (f *Forest) attach(last uint32, t *Tenant) Receipt {
	f.clock++
	r := Receipt{tenant: t, node: last, stamp: f.clock}
	if h := f.nodes.at(last).held(uint32(t.index)); h != 0 {
		f.unlist(h)
		f.holds.at(h).stamp = f.clock
		f.list(h, 0)
		return Receipt{}
	}
	h, x := f.give(last, t)
	x.stamp = f.clock
	f.list(h, 0)
	for i := f.nodes.at(last).parent; ; {
		n := f.nodes.at(i)
		if n.parent == 0 {
			return r
		}
		if h = n.held(uint32(t.index)); h != 0 { // and all above
			f.holds.at(h).kids++
			r.above = n.end
			return r
		}
		_, x = f.give(i, t)
		x.kids = 1
		i = n.parent
	}
}

// give makes t a holder of the node at i.
func (f *Forest) give(i uint32, t *Tenant) (uint32, *hold) {
	n := f.nodes.at(i)
	h, x := f.holds.take()
	x.node, x.tenant = i, uint32(t.index)
	at, _ := n.seek(x.tenant)
	n.holders = slices.Insert(n.holders, at, holder{x.tenant, h})
	x.next = t.first
	if x.next != 0 {
		f.holds.at(x.next).prev = h
	}
	t.first = h
	t.units += int(n.units)
	f.units += int(n.units)
	return h, x
}

// shareHolds lets the holders of lower hold n, the node at upper, too: it was a part
// of lower, so that nobody's units change.
func (f *Forest) shareHolds(lower *node, upper uint32, n *node) {
	n.holders = make([]holder, 0, len(lower.holders))
	for _, held := range lower.holders {
		below := f.holds.at(held.hold)
		h, x := f.holds.take()
		x.node, x.tenant, x.stamp, x.kids = upper, held.tenant, below.stamp, 1
		n.holders = append(n.holders, holder{held.tenant, h})
		x.next = below.next
		x.prev = held.hold
		if x.next != 0 {
			f.holds.at(x.next).prev = h
		}
		below.next = h
		if below.listed {
			f.list(h, held.hold)
		}
	}
}

// detach takes from its tenant a hold that is a leaf of it. The hold above may
// become one.
func (f *Forest) detach(h uint32) {
	x := f.holds.at(h)
	if above := f.nodes.at(f.nodes.at(x.node).parent).held(x.tenant); above != 0 {
		y := f.holds.at(above)
		if y.kids--; y.kids == 0 && !y.listed {
			f.relist(above)
		}
	}
	f.release(h)
}

// release takes a hold from its tenant, whatever is above and below.
func (f *Forest) release(h uint32) {
	f.unlist(h)
	x := f.holds.at(h)
	i, n, t := x.node, f.nodes.at(x.node), f.tenants[x.tenant]
	if x.prev != 0 {
		f.holds.at(x.prev).next = x.next
	} else {
		t.first = x.next
	}
	if x.next != 0 {
		f.holds.at(x.next).prev = x.prev
	}
	t.units -= int(n.units)
	f.units -= int(n.units)
	at, _ := n.seek(x.tenant)
	n.holders = slices.Delete(n.holders, at, at+1)
	if len(n.holders) < cap(n.holders)/4 { // it was popular once
		n.holders = slices.Clone(n.holders)
	}
	f.holds.give(h)
	f.prune(i)
	f.dismiss(t)
}

// Undo takes back the nodes that the insert of r newly gave to its tenant, for a
// request that came to nothing. Those that another insert for the tenant used since
// stay with it, and so do those above them. What has gone in the meantime is no
// error, nor is a second Undo.
func (f *Forest) Undo(r Receipt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Empty() || !f.present(r.tenant) {
		return
	}
	tenant := uint32(r.tenant.index)
	for i := r.node; f.nodes.has(i); {
		n := f.nodes.at(i)
		h := n.held(tenant)
		if h == 0 || n.end <= r.above {
			return
		}
		x := f.holds.at(h)
		if x.kids > 0 || x.stamp != r.stamp && (i == r.node || x.stamp != 0) {
			return
		}
		i = n.parent
		f.detach(h)
	}
}
