package jinja

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Template is a template that has been read. It is safe for concurrent use.
type Template struct {
	name string
	body block

	loopsOverContent bool
	hidden           []string // see hidden.go
}

// LoopsOverContent reports whether the template goes through the parts of what messages
// contain. One that does not takes it as text.
func (t *Template) LoopsOverContent() bool { return t.loopsOverContent }

// Error is a template that cannot be read, or a run of it that failed.
type Error struct {
	Template string
	Line     int // 0 if it is not known
	Message  string
	// Raised says that the template itself refused its input, by raise_exception.
	Raised bool
	// Exhausted says that a limit was reached.
	Exhausted bool
	cause     error
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("template %s: %s", e.Template, e.Message)
	}
	return fmt.Sprintf("template %s, line %d: %s", e.Template, e.Line, e.Message)
}

func (e *Error) Unwrap() error { return e.cause }

// catch makes the error of a panic with an *Error.
func catch(err *error) {
	switch v := recover().(type) {
	case nil:
	case *Error:
		*err = v
	default:
		panic(v)
	}
}

// Limits bound a run.
type Limits struct {
	Steps  int // parts of expressions and statements that are evaluated
	Memory int // bytes that values take, also of those that are gone
	Output int // bytes of the text
	Depth  int // of calls and values
}

// DefaultLimits let through every template of a public model, with the longest prompts.
func DefaultLimits() Limits {
	return Limits{Steps: 20_000_000, Memory: 512 << 20, Output: 64 << 20, Depth: 200}
}

// Run is what a run takes.
type Run struct {
	// Values are the variables. Who runs templates does not change them any more.
	Values map[string]Value
	Limits Limits
	// Now is the time that strftime_now tells.
	Now time.Time
}

// Render runs the template. Errors are of type *Error, and wrap the context's if that
// has ended.
func (t *Template) Render(ctx context.Context, in Run) (text string, err error) {
	r := &run{ctx: ctx, limits: in.Limits, now: in.Now, out: new(strings.Builder)}
	defer func() {
		if e, ok := err.(*Error); ok { //nolint:errorlint // catch has made it
			e.Template = t.name
			text = ""
		}
	}()
	defer catch(&err)
	globals := &scope{kept: true}
	for name, v := range in.Values {
		globals.set(name, v)
	}
	r.globals = globals
	top := &scope{parent: globals, kept: true}
	for _, name := range t.hidden {
		top.set(name, undefined{"'" + name + "' is undefined"})
	}
	r.block(t.body, top)
	return r.out.String(), nil
}

// run is a template at work.
type run struct {
	ctx     context.Context //nolint:containedctx // a run is one call
	limits  Limits
	now     time.Time
	out     *strings.Builder
	globals *scope

	line   int
	steps  int
	memory int
	output int
	depth  int
}

func (r *run) fail(format string, args ...any) {
	panic(&Error{Line: r.line, Message: fmt.Sprintf(format, args...)})
}

// lookEvery is after how many steps the context is looked at.
const lookEvery = 4096

// step counts n steps.
func (r *run) step(n int) {
	before := r.steps
	r.steps += n
	if r.steps > r.limits.Steps {
		panic(&Error{Line: r.line, Message: fmt.Sprintf("it takes more than %d steps", r.limits.Steps), Exhausted: true})
	}
	if before/lookEvery != r.steps/lookEvery {
		if err := r.ctx.Err(); err != nil {
			panic(&Error{Line: r.line, Message: "stopped: " + err.Error(), Exhausted: true, cause: err})
		}
	}
}

// alloc counts n bytes, before they are taken where they are many.
func (r *run) alloc(n int) {
	if r.memory += n; n < 0 || r.memory > r.limits.Memory {
		panic(&Error{Line: r.line, Message: fmt.Sprintf("it takes more than %d bytes of memory", r.limits.Memory), Exhausted: true})
	}
	r.step(n >> 12)
}

// deeper counts a level of calls or values, until what it returns is called.
func (r *run) deeper() func() {
	if r.depth++; r.depth > r.limits.Depth {
		panic(&Error{Line: r.line, Message: fmt.Sprintf("it nests deeper than %d", r.limits.Depth), Exhausted: true})
	}
	return r.shallower
}

func (r *run) shallower() { r.depth-- }

func (r *run) write(s string) {
	if r.output += len(s); r.output > r.limits.Output {
		panic(&Error{Line: r.line, Message: fmt.Sprintf("its text is longer than %d bytes", r.limits.Output), Exhausted: true})
	}
	r.out.WriteString(s)
}

// captured is the text that do writes.
func (r *run) captured(do func()) string {
	out := r.out
	r.out = new(strings.Builder)
	do()
	text := r.out.String()
	r.out = out
	return text
}

// scope is the variables of a block.
type scope struct {
	parent *scope
	names  []string
	values []Value
	kept   bool // somebody refers to it: it must not be used again
}

func (s *scope) find(name string) (Value, bool) {
	for ; s != nil; s = s.parent {
		for i, n := range s.names {
			if n == name {
				return s.values[i], true
			}
		}
	}
	return nil, false
}

func (s *scope) set(name string, v Value) {
	for i, n := range s.names {
		if n == name {
			s.values[i] = v
			return
		}
	}
	s.names, s.values = append(s.names, name), append(s.values, v)
}

// keep marks s and what is around it as referred to.
func (s *scope) keep() *scope {
	for p := s; p != nil && !p.kept; p = p.parent {
		p.kept = true
	}
	return s
}

// block runs statements in s.
func (r *run) block(b block, s *scope) flow {
	for _, st := range b {
		r.step(1)
		if f := st.exec(r, s); f != onward {
			return f
		}
	}
	return onward
}
