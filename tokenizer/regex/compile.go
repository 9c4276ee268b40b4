package regex

import (
	"errors"
	"fmt"
)

const (
	maxProgram = 20000
	maxBehind  = 255 // code points that look-behind goes back
)

type op uint8

const (
	opMatch  op = iota
	opSet       // one code point of set
	opRun       // min to max code points of set, as many as possible
	opAlts      // the first alternative that goes on to match
	opJump      // to x
	opSplit     // x, and if that fails y
	opMark      // keeps the position in slot x
	opMoved     // fails to go round again if the position is that of slot x: goes on at y
	opLook      // body to x; negate, behind up to max
	opAtomic    // body to x
	opAssert
	opHere // the position must be that of the look-behind
)

type inst struct {
	op       op
	set      *set
	x, y     int
	min, max int
	negate   bool
	behind   bool
	assert   byte
	alts     []alternative
	keep     bool // opRun: gives nothing back
}

type alternative struct {
	pc    int
	first bytes
}

// bytes is a set of first bytes.
type bytes [4]uint64

func (b *bytes) add(c int) { b[c>>6] |= 1 << (c & 63) }

func (b *bytes) has(c byte) bool { return b[c>>6]>>(c&63)&1 != 0 }

type compiler struct{ re *Regexp }

func (c *compiler) emit(i inst) int {
	c.re.prog = append(c.re.prog, i)
	return len(c.re.prog) - 1
}

func (c *compiler) pc() int { return len(c.re.prog) }

func (c *compiler) node(n *node) error {
	if c.pc() > maxProgram {
		return errors.New("too large")
	}
	switch n.kind {
	case kSet:
		c.emit(inst{op: opSet, set: n.set})
	case kSeq:
		for _, s := range n.subs {
			if err := c.node(s); err != nil {
				return err
			}
		}
	case kAlt:
		return c.alternatives(n)
	case kRepeat:
		return c.repeat(n)
	case kGroup:
		return c.enclosed(inst{op: opAtomic}, n.subs[0])
	case kLook:
		i := inst{op: opLook, negate: n.negate, behind: n.behind}
		if n.behind {
			var ok bool
			if i.min, i.max, ok = extent(n.subs[0]); !ok || i.max > maxBehind {
				return fmt.Errorf("look-behind over more than %d code points", maxBehind)
			}
		}
		return c.enclosed(i, n.subs[0])
	case kAssert:
		c.emit(inst{op: opAssert, assert: n.assertion})
	}
	return nil
}

// enclosed compiles a body that is run on its own.
func (c *compiler) enclosed(i inst, body *node) error {
	at := c.emit(i)
	if err := c.node(body); err != nil {
		return err
	}
	if i.behind {
		c.emit(inst{op: opHere})
	}
	c.emit(inst{op: opMatch})
	c.re.prog[at].x = c.pc()
	return nil
}

func (c *compiler) alternatives(n *node) error {
	at := c.emit(inst{op: opAlts})
	alts := make([]alternative, len(n.subs))
	jumps := make([]int, len(n.subs))
	for i, s := range n.subs {
		alts[i].pc = c.pc()
		if first, empty := firsts(s); empty {
			alts[i].first = bytes{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
		} else {
			alts[i].first = first
		}
		if err := c.node(s); err != nil {
			return err
		}
		jumps[i] = c.emit(inst{op: opJump})
	}
	for _, j := range jumps {
		c.re.prog[j].x = c.pc()
	}
	c.re.prog[at].alts = alts
	c.re.prog[at].negate = canBeEmpty(n) // may match at the end of the text
	return nil
}

func (c *compiler) repeat(n *node) error {
	body := n.subs[0]
	if n.possessive {
		inner := *n
		inner.possessive = false
		if body.kind == kSet {
			c.emit(inst{op: opRun, set: body.set, min: n.min, max: n.max, keep: true})
			return nil
		}
		return c.enclosed(inst{op: opAtomic}, &inner)
	}
	if body.kind == kSet && !n.lazy {
		c.emit(inst{op: opRun, set: body.set, min: n.min, max: n.max})
		return nil
	}
	for range n.min {
		if err := c.node(body); err != nil {
			return err
		}
	}
	if n.max < 0 {
		return c.star(body, n.lazy)
	}
	var splits []int
	for range n.max - n.min {
		splits = append(splits, c.emit(inst{op: opSplit}))
		if err := c.node(body); err != nil {
			return err
		}
	}
	for _, s := range splits {
		c.branch(s, s+1, c.pc(), n.lazy)
	}
	return nil
}

func (c *compiler) star(body *node, lazy bool) error {
	split := c.emit(inst{op: opSplit})
	slot := -1
	if canBeEmpty(body) {
		slot = c.re.slots
		c.re.slots++
		c.emit(inst{op: opMark, x: slot})
	}
	if err := c.node(body); err != nil {
		return err
	}
	if slot >= 0 {
		c.emit(inst{op: opMoved, x: slot, y: c.pc() + 2})
	}
	c.emit(inst{op: opJump, x: split})
	c.branch(split, split+1, c.pc(), lazy)
	return nil
}

func (c *compiler) branch(at, into, past int, lazy bool) {
	if lazy {
		into, past = past, into
	}
	c.re.prog[at].x, c.re.prog[at].y = into, past
}

func canBeEmpty(n *node) bool {
	_, empty := firsts(n)
	return empty
}

// firsts are the bytes that a match of n can begin with, and whether it can be empty.
func firsts(n *node) (first bytes, empty bool) {
	switch n.kind {
	case kSet:
		for c := range 0x80 {
			if n.set.has(rune(c)) {
				first.add(c)
			}
		}
		first[2], first[3] = ^uint64(0), ^uint64(0) // beyond ASCII it may be any
		return first, false
	case kSeq:
		for _, s := range n.subs {
			f, e := firsts(s)
			first.or(f)
			if !e {
				return first, false
			}
		}
		return first, true
	case kAlt:
		for _, s := range n.subs {
			f, e := firsts(s)
			first.or(f)
			empty = empty || e
		}
		return first, empty
	case kRepeat:
		f, e := firsts(n.subs[0])
		return f, e || n.min == 0
	case kGroup:
		return firsts(n.subs[0])
	}
	return first, true
}

func (b *bytes) or(o bytes) {
	for i := range b {
		b[i] |= o[i]
	}
}

// extent is how many code points a match of n has at least and at most.
func extent(n *node) (lo, hi int, ok bool) {
	switch n.kind {
	case kSet:
		return 1, 1, true
	case kSeq, kGroup:
		for _, s := range n.subs {
			l, h, ok := extent(s)
			if !ok {
				return 0, 0, false
			}
			lo, hi = lo+l, hi+h
		}
		return lo, hi, true
	case kAlt:
		lo = -1
		for _, s := range n.subs {
			l, h, ok := extent(s)
			if !ok {
				return 0, 0, false
			}
			if lo < 0 || l < lo {
				lo = l
			}
			hi = max(hi, h)
		}
		return lo, hi, true
	case kRepeat:
		l, h, ok := extent(n.subs[0])
		if !ok || n.max < 0 {
			return 0, 0, false
		}
		return l * n.min, h * n.max, true
	}
	return 0, 0, true
}
