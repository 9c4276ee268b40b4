package jinja

// expr is an expression. Evaluation panics with an *Error, which Render catches.
type expr interface {
	eval(r *run, s *scope) Value
}

type (
	constant struct{ v Value }
	name     struct {
		id   string
		line int
	}
	// sequence is a list or a tuple.
	sequence struct {
		items []expr
		tuple bool
	}
	dictionary  struct{ keys, values []expr }
	conditional struct{ test, then, otherwise expr }
	negation    struct{ x expr } // not
	junction    struct {         // and, or
		a, b expr
		or   bool
	}
	unary struct {
		op byte
		x  expr
	}
	binary struct {
		op   string
		a, b expr
		line int
	}
	concatenation struct{ items []expr }
	comparison    struct {
		first expr
		ops   []string
		rest  []expr
		line  int
	}
	attribute struct {
		x    expr
		name string
		line int
	}
	item struct {
		x, key expr
		line   int
	}
	slice struct{ from, to, step expr } // only as key of an item; nil for none
	call  struct {
		f    expr
		args arguments
		line int
	}
	filtered struct {
		x    expr // nil for the body of a block
		name string
		args arguments
		line int
	}
	tested struct {
		x    expr
		name string
		args arguments
		line int
	}
)

// arguments of a call. spread and spreadNamed are behind * and **.
type arguments struct {
	list        []expr
	names       []string
	named       []expr
	spread      expr
	spreadNamed expr
}

// stmt is a statement.
type stmt interface {
	exec(r *run, s *scope) flow
}

// flow is how a statement ended.
type flow uint8

const (
	onward flow = iota
	breaking
	continuing
)

type block []stmt

type (
	data   struct{ text string }
	output struct {
		x    expr
		line int
	}
	branch struct {
		tests  []expr
		bodies []block
		other  block
		line   int
	}
	loop struct {
		target      target
		over, only  expr
		body, other block
		recursive   bool
		line        int
	}
	assignment struct {
		target target
		value  expr
		line   int
	}
	capture struct { // {% set x %}…{% endset %}
		target target
		body   block
		filter expr
		line   int
	}
	definition struct {
		macro *macroNode
	}
	callBlock struct {
		call   *call
		caller *macroNode
		line   int
	}
	filterBlock struct {
		body   block
		filter expr
		line   int
	}
	with struct {
		names  []target
		values []expr
		body   block
		line   int
	}
	inner struct{ body block } // a scope of its own
	jump  struct{ how flow }
)

type macroNode struct {
	name     string
	params   []string
	defaults []expr // of the last params
	body     block
	line     int
	// What the body uses of that a call can bring beyond params.
	varargs, kwargs, caller bool
}

// target is what is assigned to: a name, an attribute of a namespace, or several.
type target struct {
	name  string
	attr  string // of the namespace that name is
	parts []target
}
