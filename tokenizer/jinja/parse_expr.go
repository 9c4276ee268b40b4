package jinja

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// The order of precedence, from the loosest on, is a conditional, or, and, not,
// comparisons, + and -, ~, * / // and %, **, signs, filters and tests.

func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	x := p.disjunction()
	for n := 0; p.word("if"); p.link(&n) {
		c := &conditional{test: p.disjunction(), then: x}
		if p.word("else") {
			c.otherwise = p.expression()
		}
		x = c
	}
	return x
}

// tuple reads one expression, or several with commas.
func (p *parser) tuple() expr { return p.tupleOf(true) }

// tupleOf reads the same; without conditional, an "if" that follows belongs to a loop.
func (p *parser) tupleOf(conditional bool) expr {
	one := p.disjunction
	if conditional {
		one = p.expression
	}
	p.enter()
	defer p.leave()
	x := one()
	if !p.is(tokenOperator, ",") {
		return x
	}
	all := &sequence{items: []expr{x}, tuple: true}
	for p.op(",") && !p.ends() {
		all.items = append(all.items, one())
	}
	return all
}

// ends reports whether no expression can follow.
func (p *parser) ends() bool {
	switch t := p.peek(); t.kind {
	case tokenCloseBlock, tokenCloseVariable, tokenEnd:
		return true
	case tokenOperator:
		return t.text == ")"
	case tokenName:
		return t.text == "in"
	}
	return false
}

func (p *parser) disjunction() expr {
	x := p.conjunction()
	for n := 0; p.word("or"); p.link(&n) {
		x = &junction{x, p.conjunction(), true}
	}
	return x
}

func (p *parser) conjunction() expr {
	x := p.not()
	for n := 0; p.word("and"); p.link(&n) {
		x = &junction{x, p.not(), false}
	}
	return x
}

func (p *parser) not() expr {
	p.enter()
	defer p.leave()
	if p.word("not") {
		return &negation{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	line := p.peek().line
	x := p.sum()
	var c *comparison
	for {
		op := ""
		switch t := p.peek(); {
		case t.kind == tokenOperator:
			switch t.text {
			case "==", "!=", "<", "<=", ">", ">=":
				op = t.text
				p.pos++
			}
		case t.kind == tokenName && t.text == "in":
			op = "in"
			p.pos++
		case t.kind == tokenName && t.text == "not" && p.tokens[p.pos+1].kind == tokenName && p.tokens[p.pos+1].text == "in":
			op = "not in"
			p.pos += 2
		}
		if op == "" {
			return x
		}
		if c == nil {
			c = &comparison{first: x, line: line}
			x = c
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
}

// binaries reads operands of next joined by one of ops, from the left.
func (p *parser) binaries(next func() expr, ops ...string) expr {
	x := next()
	for n := 0; ; p.link(&n) {
		t := p.peek()
		if t.kind != tokenOperator || !slices.Contains(ops, t.text) {
			return x
		}
		p.pos++
		x = &binary{t.text, x, next(), t.line}
	}
}

func (p *parser) sum() expr { return p.binaries(p.concat, "+", "-") }

func (p *parser) concat() expr {
	x := p.product()
	if !p.is(tokenOperator, "~") {
		return x
	}
	c := &concatenation{items: []expr{x}}
	for p.op("~") {
		c.items = append(c.items, p.product())
	}
	return c
}

func (p *parser) product() expr { return p.binaries(p.power, "*", "/", "//", "%") }

func (p *parser) power() expr { return p.binaries(p.signedFiltered, "**") }

func (p *parser) signedFiltered() expr { return p.signed(true) }

func (p *parser) signed(filters bool) (x expr) {
	p.enter()
	defer p.leave()
	switch {
	case p.op("-"):
		x = &unary{'-', p.signed(false)}
	case p.op("+"):
		x = &unary{'+', p.signed(false)}
	default:
		x = p.primary()
	}
	x = p.postfix(x)
	if filters {
		x = p.filters(x, false)
	}
	return x
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokenName:
		return p.named(t)
	case tokenString:
		parts := []string{t.text}
		for p.peek().kind == tokenString {
			parts = append(parts, p.next().text)
		}
		return &constant{strings.Join(parts, "")}
	case tokenInteger:
		return &constant{p.integer(t.text)}
	case tokenFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil && f == 0 {
			p.fail("bad number %q", t.text)
		}
		return &constant{f}
	case tokenOperator:
		switch t.text {
		case "(":
			if p.op(")") {
				return &sequence{tuple: true}
			}
			x := p.tupleOf(true)
			p.expect(tokenOperator, ")")
			return x
		case "[":
			l := &sequence{}
			for !p.op("]") {
				if len(l.items) > 0 {
					if p.expect(tokenOperator, ","); p.op("]") {
						break
					}
				}
				l.items = append(l.items, p.expression())
			}
			return l
		case "{":
			return p.dictionary()
		}
	}
	p.pos--
	if t.kind == tokenEnd {
		p.pos = len(p.tokens) - 1
	}
	p.fail("expected an expression, not %s", p.found())
	return nil
}

// named is the constant or the variable that a name is.
func (p *parser) named(t token) expr {
	switch t.text {
	case "true", "True":
		return &constant{true}
	case "false", "False":
		return &constant{false}
	case "none", "None":
		return &constant{nil}
	}
	if isDigit(t.text[0]) {
		p.fail("bad name %q", t.text)
	}
	if len(p.macros) > 0 {
		m := p.macros[len(p.macros)-1]
		switch t.text {
		case "varargs":
			m.varargs = true
		case "kwargs":
			m.kwargs = true
		case "caller":
			m.caller = true
		}
	}
	return &name{t.text, t.line}
}

func (p *parser) integer(text string) Value {
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		// Python knows no octal numbers that begin with 0 alone.
		if n, ok = new(big.Int).SetString(text, 10); !ok || n.Sign() != 0 {
			p.fail("bad number %q", text)
		}
	}
	return whole(n)
}

func (p *parser) dictionary() expr {
	d := &dictionary{}
	for !p.op("}") {
		if len(d.keys) > 0 {
			if p.expect(tokenOperator, ","); p.op("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.expect(tokenOperator, ":")
		d.values = append(d.values, p.expression())
	}
	return d
}

// postfix reads attributes, items and calls.
func (p *parser) postfix(x expr) expr {
	for n := 0; ; n++ {
		if n > maxNesting {
			p.fail("a chain is longer than %d", maxNesting)
		}
		t := p.peek()
		if t.kind != tokenOperator {
			return x
		}
		switch t.text {
		case ".":
			p.pos++
			switch k := p.next(); k.kind {
			case tokenName:
				x = &attribute{x, k.text, t.line}
			case tokenInteger:
				x = &item{x, &constant{p.integer(k.text)}, t.line}
			default:
				p.pos--
				p.fail("expected a name, not %s", p.found())
			}
		case "[":
			p.pos++
			x = &item{x, p.subscript(), t.line}
		case "(":
			x = p.call(x)
		default:
			return x
		}
	}
}

func (p *parser) subscript() expr {
	var keys []expr
	for !p.op("]") {
		if len(keys) > 0 {
			p.expect(tokenOperator, ",")
		}
		keys = append(keys, p.oneSubscript())
	}
	switch len(keys) {
	case 0:
		p.fail("expected an expression, not \"]\"")
	case 1:
		return keys[0]
	}
	return &sequence{items: keys, tuple: true}
}

func (p *parser) oneSubscript() expr {
	part := func() expr {
		if p.is(tokenOperator, ":") || p.is(tokenOperator, "]") || p.is(tokenOperator, ",") {
			return nil
		}
		return p.expression()
	}
	from := part()
	if from != nil && !p.is(tokenOperator, ":") {
		return from
	}
	s := &slice{from: from}
	p.expect(tokenOperator, ":")
	s.to = part()
	if p.op(":") {
		s.step = part()
	}
	return s
}

func (p *parser) call(f expr) *call {
	line := p.peek().line
	return &call{f, p.arguments(), line}
}

func (p *parser) arguments() (a arguments) {
	p.expect(tokenOperator, "(")
	for n := 0; !p.op(")"); n++ {
		if n > 0 {
			if p.expect(tokenOperator, ","); p.op(")") {
				break
			}
		}
		switch {
		case p.op("*"):
			a.spread = p.expression()
		case p.op("**"):
			a.spreadNamed = p.expression()
		case p.peek().kind == tokenName && p.tokens[p.pos+1].kind == tokenOperator && p.tokens[p.pos+1].text == "=":
			a.names = append(a.names, p.ident())
			p.pos++
			a.named = append(a.named, p.expression())
		default:
			if len(a.names) > 0 || a.spread != nil || a.spreadNamed != nil {
				p.fail("an argument without a name follows one with a name")
			}
			a.list = append(a.list, p.expression())
		}
	}
	return a
}

// filters reads | and "is" behind x; first says that the name of a filter comes at once.
func (p *parser) filters(x expr, first bool) expr {
	for n := 0; ; n++ {
		if n > maxNesting {
			p.fail("a chain is longer than %d", maxNesting)
		}
		switch {
		case first || p.op("|"):
			f := &filtered{x: x, line: p.peek().line, name: p.dotted()}
			if p.is(tokenOperator, "(") {
				f.args = p.arguments()
			}
			x, first = f, false
		case p.word("is"):
			x = p.test(x)
		case x != nil && p.is(tokenOperator, "("):
			x = p.call(x)
		default:
			return x
		}
	}
}

// dotted is the name of a filter or a test.
func (p *parser) dotted() string {
	parts := []string{p.ident()}
	for p.op(".") {
		parts = append(parts, p.ident())
	}
	return strings.Join(parts, ".")
}

func (p *parser) test(x expr) expr {
	not := p.word("not")
	t := &tested{x: x, line: p.peek().line, name: p.dotted()}
	switch k := p.peek(); {
	case p.is(tokenOperator, "("):
		t.args = p.arguments()
	case k.kind == tokenString, k.kind == tokenInteger, k.kind == tokenFloat,
		k.kind == tokenOperator && (k.text == "[" || k.text == "{"),
		k.kind == tokenName && k.text != "else" && k.text != "or" && k.text != "and":
		if k.kind == tokenName && k.text == "is" {
			p.fail("tests cannot be chained with is")
		}
		if k.kind == tokenName && (k.text == "if" || k.text == "in" || k.text == "not" || k.text == "recursive") {
			break
		}
		t.args.list = []expr{p.postfix(p.primary())}
	}
	if not {
		return &negation{t}
	}
	return t
}
