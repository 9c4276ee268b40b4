package jinja

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxSource is how long a template may be.
	maxSource = 1 << 20
	// maxNesting is how deep expressions and blocks may nest.
	maxNesting = 200
)

type parser struct {
	tokens  []token
	pos     int
	depth   int
	macros  []*macroNode
	loops   int
	content bool // some loop goes over what messages contain
	parts   []string
}

// Parse reads a template, whose name goes into errors. Errors are of type *Error.
func Parse(name, source string) (t *Template, err error) {
	defer func() {
		if e, ok := err.(*Error); ok { //nolint:errorlint // catch has made it
			e.Template = name
		}
	}()
	defer catch(&err)
	if len(source) > maxSource {
		panic(&Error{Line: 1, Message: fmt.Sprintf("it is longer than %d bytes", maxSource)})
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body := p.statements()
	if t := p.peek(); t.kind != tokenEnd {
		p.fail("unexpected tag")
	}
	return &Template{name: name, body: body, loopsOverContent: p.content, hidden: hidden(body)}, nil
}

func (p *parser) fail(format string, args ...any) {
	panic(&Error{Line: p.peek().line, Message: fmt.Sprintf(format, args...)})
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokenEnd {
		p.pos++
	}
	return t
}

// maxChain is how many operands an expression may have that nest to the left.
const maxChain = 2000

// link counts the links of a chain.
func (p *parser) link(n *int) {
	if *n++; *n > maxChain {
		p.fail("a chain of operators is longer than %d", maxChain)
	}
}

// enter counts a level of nesting, until leave.
func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		p.fail("it nests deeper than %d", maxNesting)
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) is(kind tokenKind, text string) bool {
	t := p.peek()
	return t.kind == kind && t.text == text
}

func (p *parser) accept(kind tokenKind, text string) bool {
	if !p.is(kind, text) {
		return false
	}
	p.pos++
	return true
}

func (p *parser) op(text string) bool   { return p.accept(tokenOperator, text) }
func (p *parser) word(text string) bool { return p.accept(tokenName, text) }

func (p *parser) expect(kind tokenKind, text string) {
	if !p.accept(kind, text) {
		p.fail("expected %q, not %s", text, p.found())
	}
}

// found words the next token.
func (p *parser) found() string {
	switch t := p.peek(); t.kind {
	case tokenEnd:
		return "the end of the template"
	case tokenCloseVariable, tokenCloseBlock:
		return "the end of the tag"
	case tokenData, tokenOpenBlock, tokenOpenVariable:
		return "another tag"
	default:
		return fmt.Sprintf("%q", t.text)
	}
}

func (p *parser) ident() string {
	t := p.peek()
	if t.kind != tokenName || isDigit(t.text[0]) {
		p.fail("expected a name, not %s", p.found())
	}
	p.pos++
	return t.text
}

func (p *parser) closeBlock() {
	if p.peek().kind != tokenCloseBlock {
		p.fail("expected the end of the tag, not %s", p.found())
	}
	p.pos++
}

// statements reads up to a tag with one of the words, whose {% it has read then, or to
// the end.
func (p *parser) statements(until ...string) (b block) {
	p.enter()
	defer p.leave()
	begun := p.peek().line
	for {
		switch t := p.next(); t.kind {
		case tokenData:
			b = append(b, data{t.text})
		case tokenOpenVariable:
			x := p.tuple()
			if p.peek().kind != tokenCloseVariable {
				p.fail("expected the end of the tag, not %s", p.found())
			}
			p.pos++
			b = append(b, output{x, t.line})
		case tokenOpenBlock:
			if slices.Contains(until, p.peek().text) {
				return b
			}
			if strings.HasPrefix(p.peek().text, "end") || p.peek().text == "else" || p.peek().text == "elif" {
				p.fail("unexpected {%% %s %%}", p.peek().text)
			}
			b = append(b, p.statement(t.line)...)
		case tokenEnd:
			if len(until) > 0 {
				p.fail("{%% %s %%} is missing for what begins at line %d", until[len(until)-1], begun)
			}
			return b
		default:
			p.pos--
			p.fail("unexpected %s", p.found())
		}
	}
}

// body reads the rest of an opening tag, what is inside, and the closing tag.
func (p *parser) body(end string) block {
	p.closeBlock()
	b := p.statements(end)
	p.next()
	p.closeBlock()
	return b
}

func (p *parser) statement(line int) []stmt {
	switch tag := p.ident(); tag {
	case "if":
		return []stmt{p.branch(line)}
	case "for":
		return []stmt{p.loop(line)}
	case "set":
		return []stmt{p.set(line)}
	case "macro":
		name := p.ident()
		return []stmt{definition{p.macro(name, "endmacro", line)}}
	case "call":
		return []stmt{p.callBlock(line)}
	case "filter":
		f := p.blockFilter(true)
		return []stmt{filterBlock{p.body("endfilter"), f, line}}
	case "with":
		return []stmt{p.with(line)}
	case "generation":
		// It marks what a model would have said, for training.
		return []stmt{inner{p.body("endgeneration")}}
	case "break", "continue":
		if p.loops == 0 {
			p.fail("{%% %s %%} outside of a loop", tag)
		}
		p.closeBlock()
		if tag == "break" {
			return []stmt{jump{breaking}}
		}
		return []stmt{jump{continuing}}
	case "print":
		var b []stmt
		for p.peek().kind != tokenCloseBlock {
			if len(b) > 0 {
				p.expect(tokenOperator, ",")
			}
			b = append(b, output{p.expression(), line})
		}
		p.closeBlock()
		return b
	case "block", "extends", "include", "import", "from", "autoescape", "do", "trans", "debug":
		p.fail("{%% %s %%} is not supported", tag)
	default:
		p.fail("unknown tag {%% %s %%}", tag)
	}
	return nil
}

func (p *parser) branch(line int) stmt {
	n := branch{line: line}
	for {
		n.tests = append(n.tests, p.tuple())
		p.closeBlock()
		n.bodies = append(n.bodies, p.statements("elif", "else", "endif"))
		switch p.next().text {
		case "elif":
			continue
		case "else":
			n.other = p.body("endif")
		default:
			p.closeBlock()
		}
		return n
	}
}

func (p *parser) loop(line int) stmt {
	n := loop{line: line, target: p.targets(false)}
	p.expect(tokenName, "in")
	n.over = p.tupleOf(false)
	if p.word("if") {
		n.only = p.expression()
	}
	n.recursive = p.word("recursive")
	p.sees(n.over)
	p.closeBlock()
	p.loops++
	n.body = p.statements("else", "endfor")
	p.loops--
	if p.next().text == "else" {
		n.other = p.body("endfor")
	} else {
		p.closeBlock()
	}
	return n
}

func (p *parser) set(line int) stmt {
	t := p.targets(true)
	if p.op("=") {
		x := p.tuple()
		if t.name != "" && t.attr == "" && p.isContent(x) {
			p.parts = append(p.parts, t.name)
		}
		p.closeBlock()
		return assignment{t, x, line}
	}
	f := p.blockFilter(false)
	return capture{t, p.body("endset"), f, line}
}

// blockFilter reads the filters that a block's text goes through, nil if there are none.
func (p *parser) blockFilter(bare bool) expr {
	if !bare && !p.op("|") {
		return nil
	}
	return p.filters(nil, true)
}

// targets reads what is assigned to.
func (p *parser) targets(namespaces bool) target {
	first := p.oneTarget(namespaces)
	if !p.is(tokenOperator, ",") {
		return first
	}
	all := target{parts: []target{first}}
	for p.op(",") && (p.peek().kind == tokenName && p.peek().text != "in" || p.is(tokenOperator, "(")) {
		all.parts = append(all.parts, p.oneTarget(namespaces))
	}
	return all
}

func (p *parser) oneTarget(namespaces bool) target {
	p.enter()
	defer p.leave()
	if p.op("(") {
		t := p.targets(namespaces)
		p.expect(tokenOperator, ")")
		return t
	}
	t := target{name: p.ident()}
	if reserved(t.name) {
		p.fail("cannot assign to %q", t.name)
	}
	if namespaces && p.op(".") {
		t.attr = p.ident()
	}
	return t
}

func reserved(name string) bool {
	switch name {
	case "true", "True", "false", "False", "none", "None":
		return true
	}
	return false
}

// macro reads the parameters and the body of a macro.
func (p *parser) macro(name, end string, line int) *macroNode {
	m := &macroNode{name: name, line: line}
	if p.op("(") {
		for !p.op(")") {
			if len(m.params) > 0 {
				p.expect(tokenOperator, ",")
			}
			m.params = append(m.params, p.ident())
			if p.op("=") {
				m.defaults = append(m.defaults, p.expression())
			} else if len(m.defaults) > 0 {
				p.fail("a parameter without a default follows one with a default")
			}
		}
	}
	loops := p.loops
	p.loops = 0
	p.macros = append(p.macros, m)
	m.body = p.body(end)
	p.macros = p.macros[:len(p.macros)-1]
	p.loops = loops
	return m
}

func (p *parser) callBlock(line int) stmt {
	// Its own parameters come first.
	at := p.pos
	params := 0
	if p.is(tokenOperator, "(") {
		depth := 0
		for {
			switch t := p.next(); {
			case t.kind == tokenEnd || t.kind == tokenCloseBlock:
				p.fail("unexpected %s", p.found())
			case t.kind == tokenOperator && t.text == "(":
				depth++
			case t.kind == tokenOperator && t.text == ")":
				depth--
			}
			if depth == 0 {
				break
			}
		}
		params = p.pos - at
	}
	c, ok := p.expression().(*call)
	if !ok {
		p.fail("{%% call %%} needs a call")
	}
	if params == 0 {
		return callBlock{c, p.macro("caller", "endcall", line), line}
	}
	// The macro is read from its parameters on, as if they stood behind the call.
	rest := slices.Clone(p.tokens[p.pos:])
	p.tokens = append(append(slices.Clone(p.tokens[:p.pos]), p.tokens[at:at+params]...), rest...)
	return callBlock{c, p.macro("caller", "endcall", line), line}
}

func (p *parser) with(line int) stmt {
	n := with{line: line}
	for p.peek().kind != tokenCloseBlock {
		if len(n.names) > 0 {
			p.expect(tokenOperator, ",")
		}
		n.names = append(n.names, p.targets(false))
		p.expect(tokenOperator, "=")
		n.values = append(n.values, p.expression())
	}
	n.body = p.body("endwith")
	return n
}

// sees notes a loop over what a message contains.
func (p *parser) sees(over expr) {
	p.content = p.content || p.isContent(over)
}

// isContent reports whether x is a message's content, by whatever name.
func (p *parser) isContent(x expr) bool {
	switch x := x.(type) {
	case *attribute:
		return x.name == "content"
	case *item:
		k, ok := x.key.(*constant)
		if ok && k.v == "content" {
			return true
		}
		_, cut := x.key.(*slice)
		return cut && p.isContent(x.x)
	case *filtered:
		return x.x != nil && p.isContent(x.x)
	case *name:
		return slices.Contains(p.parts, x.id)
	case *conditional:
		return p.isContent(x.then) || x.otherwise != nil && p.isContent(x.otherwise)
	}
	return false
}
