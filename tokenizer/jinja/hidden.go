package jinja

// jinja2 decides once, for a whole block, where a name is looked up. One that the top of
// a template sets, and does not read before that, is the template's own from the beginning:
// loops and macros that come before it is set do not see the variable that the template
// was given. hidden finds such names.

// sight is what is known of names at a point of the top.
type sight struct {
	seen   map[string]bool // read, or set on all ways
	stored map[string]bool
	hidden map[string]bool
}

func hidden(b block) []string {
	s := &sight{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	s.block(b)
	var names []string
	for name := range s.hidden {
		names = append(names, name)
	}
	return names
}

func (s *sight) store(name string) {
	if !s.seen[name] {
		s.hidden[name], s.seen[name] = true, true
	}
	s.stored[name] = true
}

func (s *sight) target(t *target) {
	switch {
	case t.parts != nil:
		for i := range t.parts {
			s.target(&t.parts[i])
		}
	case t.attr != "":
		s.seen[t.name] = true
	default:
		s.store(t.name)
	}
}

func (s *sight) copy() *sight {
	c := &sight{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for from, to := range map[*map[string]bool]map[string]bool{&s.seen: c.seen, &s.stored: c.stored, &s.hidden: c.hidden} {
		for name := range *from {
			to[name] = true
		}
	}
	return c
}

func (s *sight) block(b block) {
	for _, st := range b {
		switch st := st.(type) {
		case output:
			s.read(st.x)
		case assignment:
			s.read(st.value)
			s.target(&st.target)
		case capture:
			s.target(&st.target)
		case definition:
			s.store(st.macro.name)
		case loop:
			s.read(st.over)
		case callBlock:
			s.read(st.call)
		case with:
			s.read(st.values...)
		case branch:
			s.branch(&st)
		}
	}
}

// branch joins what the ways of an if know. What only some of them set is the given
// variable on the others.
func (s *sight) branch(b *branch) {
	s.read(b.tests[0])
	first, middle, last := s.copy(), s.copy(), s.copy()
	first.block(b.bodies[0])
	for i := range b.tests[1:] {
		middle.read(b.tests[i+1])
		middle.block(b.bodies[i+1])
	}
	last.block(b.other)
	set := map[string]int{}
	for _, way := range []*sight{first, middle, last} {
		for name := range way.stored {
			if !s.stored[name] {
				set[name]++
			}
		}
	}
	before := s.copy()
	for _, way := range []*sight{first, middle, last} {
		for name := range way.seen {
			s.seen[name] = true
		}
		for name := range way.stored {
			s.stored[name] = true
		}
		// The last way's word counts.
		for name := range way.seen {
			if !before.seen[name] {
				s.hidden[name] = way.hidden[name]
			}
		}
	}
	for name, n := range set {
		if n < 3 || middle.stored[name] { // an elif is an if of its own
			s.hidden[name] = false
		}
	}
	for name, is := range s.hidden {
		if !is {
			delete(s.hidden, name)
		}
	}
}

// read notes the names in expressions.
func (s *sight) read(xs ...expr) {
	for _, x := range xs {
		switch x := x.(type) {
		case nil:
		case *name:
			s.seen[x.id] = true
		case *sequence:
			s.read(x.items...)
		case *dictionary:
			s.read(x.keys...)
			s.read(x.values...)
		case *conditional:
			s.read(x.test, x.then, x.otherwise)
		case *negation:
			s.read(x.x)
		case *junction:
			s.read(x.a, x.b)
		case *unary:
			s.read(x.x)
		case *binary:
			s.read(x.a, x.b)
		case *concatenation:
			s.read(x.items...)
		case *comparison:
			s.read(x.first)
			s.read(x.rest...)
		case *attribute:
			s.read(x.x)
		case *item:
			s.read(x.x, x.key)
		case *slice:
			s.read(x.from, x.to, x.step)
		case *call:
			s.read(x.f)
			s.arguments(&x.args)
		case *filtered:
			s.read(x.x)
			s.arguments(&x.args)
		case *tested:
			s.read(x.x)
			s.arguments(&x.args)
		}
	}
}

func (s *sight) arguments(a *arguments) {
	s.read(a.list...)
	s.read(a.named...)
	s.read(a.spread, a.spreadNamed)
}
