package flags

import (
	"cmp"
	"slices"
	"strings"

	"smg/launcher"
)

// given is one flag with one value.
type given struct {
	name  string // canonical, without dashes
	value string
	where string // as typed, for messages
}

// rewritten is a command line in canonical form.
type rewritten struct {
	flags      []given
	empty      []string // lists that were given without a value
	files      []string // replay: what is to be read
	engineArgs []string // serve: what belongs to the engine, in order
	warnings   []string
}

// argv is the form that urfave/cli parses.
func (r *rewritten) argv() []string {
	out := make([]string, 0, len(r.flags))
	for _, g := range r.flags {
		out = append(out, "--"+g.name+"="+g.value)
	}
	return out
}

// has says whether the flag was given, with a value or as an empty list.
func (r *rewritten) has(name string) bool {
	return slices.ContainsFunc(r.flags, func(g given) bool { return g.name == name }) || slices.Contains(r.empty, name)
}

// rewriter walks over arguments.
type rewriter struct {
	set  *set
	args []string // not looked at yet
	out  rewritten
}

// rewrite brings args, which hold no command, into canonical form. It is pure; an
// error is a *Fault with ExitUsage.
func rewrite(s *set, args []string) (rewritten, error) {
	r := rewriter{set: s, args: args}
	for len(r.args) > 0 {
		token := r.args[0]
		r.args = r.args[1:]
		var err error
		switch {
		case token == "--" && s.passthrough:
			r.out.engineArgs = append(r.out.engineArgs, r.args...)
			r.args = nil
		case token == "--" || !strings.HasPrefix(token, "-") || startsNegative(token):
			err = r.stray(token)
		default:
			err = r.flag(token)
		}
		if err != nil {
			return rewritten{}, err
		}
	}
	return r.out, nil
}

// startsNegative says whether token is "-" and a digit, which is a number and not
// a flag.
func startsNegative(token string) bool {
	return len(token) > 1 && token[0] == '-' && token[1] >= '0' && token[1] <= '9'
}

// stray takes an argument that is no flag's value.
func (r *rewriter) stray(token string) error {
	if r.set.passthrough {
		r.out.engineArgs = append(r.out.engineArgs, token)
		return nil
	}
	if r.set.files && token != "--" {
		r.out.files = append(r.out.files, token)
		return nil
	}
	if r.set.bare && isCommand(token) {
		return misplaced(token)
	}
	hint := ""
	switch {
	case token == "--":
		hint = "only smg serve passes arguments on"
	case r.set.command == nameCheck && token == nameServe:
		hint = "write smg serve --dry-run and its flags"
	case len(r.out.flags) > 0:
		last := r.out.flags[len(r.out.flags)-1]
		switch e := r.set.lookup(last.name); e.Kind {
		case List:
			hint = "the = form takes one value: write --" + e.name + " " + e.Value
		case Repeated, URLAndPort:
			hint = "write --" + e.name + " in front of each " + e.Value
		}
	}
	return usage(token, hint, "unexpected argument")
}

func misplaced(command string) *Fault {
	return usage(command, "write smg "+command+" and the flags behind it", "put flags after the command")
}

// flag takes a token that starts with "-".
func (r *rewriter) flag(token string) error {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(token, "--"), "=")
	var e *entry
	if strings.HasPrefix(token, "--") {
		e = r.set.lookup(name)
	}
	if e == nil {
		return r.unknown(token)
	}
	typed, _, _ := strings.Cut(token, "=")
	switch {
	case e.Later:
		return r.later(e, typed, value, hasValue)
	case e.Observed:
		r.out.engineArgs = append(r.out.engineArgs, token)
		return nil
	}
	switch e.Kind {
	case Bool:
		if !hasValue {
			value = "true"
		}
		if value != "true" && value != "false" {
			return usage(token, "write "+typed+" alone, or "+typed+"=true or "+typed+"=false", "%q is neither true nor false", value)
		}
		return r.once(e, given{e.name, value, token})
	case List:
		return r.list(e, typed, value, hasValue)
	case Repeated, URLAndPort:
		return r.worker(e, typed, value, hasValue)
	}
	if !hasValue {
		if len(r.args) == 0 || !e.takes(r.args[0]) {
			return usage(typed, "write "+typed+" "+e.Value, "a value is missing")
		}
		value, r.args = r.args[0], r.args[1:]
		token = typed + " " + cmp.Or(value, "''")
	}
	if e.Dashed || e.Secret {
		token = typed // what is in the value is an engine's, or holds a password
	}
	return r.once(e, given{e.name, value, token})
}

// takes says whether token can be the value of the scalar flag before it.
func (e *entry) takes(token string) bool {
	return e.Dashed && token != "--" || !strings.HasPrefix(token, "-") || startsNegative(token)
}

// once records a flag that may be given once; of serve's own flags the last counts.
func (r *rewriter) once(e *entry, g given) error {
	i := slices.IndexFunc(r.out.flags, func(o given) bool { return o.name == g.name })
	switch {
	case i < 0:
		r.out.flags = append(r.out.flags, g)
	case e.own:
		r.out.flags[i] = g
	default:
		return usage(r.out.flags[i].where+" and "+g.where, "give it once", "--%s is given twice", e.name)
	}
	return nil
}

// list takes the values of a list flag: one behind "=", else all up to the next
// token that starts with "-".
func (r *rewriter) list(e *entry, typed, value string, hasValue bool) error {
	values := []string{value}
	if !hasValue {
		n := slices.IndexFunc(r.args, func(a string) bool { return strings.HasPrefix(a, "-") })
		if n < 0 {
			n = len(r.args)
		}
		values, r.args = r.args[:n], r.args[n:]
	}
	if len(values) == 0 && !r.out.has(e.name) {
		r.out.empty = append(r.out.empty, e.name)
	}
	for _, v := range values {
		if r.set.bare && isCommand(v) {
			return misplaced(v)
		}
		r.out.flags = append(r.out.flags, given{e.name, v, typed + " " + redact(v)})
	}
	return nil
}

// worker takes the URL of a worker, and the bootstrap port behind it if the flag
// has one.
func (r *rewriter) worker(e *entry, typed, value string, hasValue bool) error {
	if !hasValue {
		if len(r.args) == 0 || strings.HasPrefix(r.args[0], "-") {
			return usage(typed, "write "+typed+" "+e.Value, "needs a URL")
		}
		value, r.args = r.args[0], r.args[1:]
	}
	if r.set.bare && isCommand(value) {
		return misplaced(value)
	}
	where := typed + " " + redact(value)
	if len(r.args) > 0 && (!strings.HasPrefix(r.args[0], "-") || startsNegative(r.args[0])) {
		next := r.args[0]
		switch {
		case r.set.bare && isCommand(next):
			return misplaced(next)
		case e.Kind == Repeated && isBootstrapPort(next):
			return usage(where+" "+next, "leave "+next+" out", "%s workers take no bootstrap port", e.Name)
		case e.Kind == Repeated: // a stray argument
		case !isBootstrapPort(next):
			return usage(where+" "+redact(next), "behind the URL write a port 1..65535 or 'none', and "+typed+" in front of each URL",
				"%q is not a bootstrap port", redact(next))
		default:
			r.args = r.args[1:]
			value, where = value+" "+next, where+" "+next
		}
	}
	r.out.flags = append(r.out.flags, given{e.name, value, where})
	return nil
}

// unknown takes a flag that the command does not have.
func (r *rewriter) unknown(token string) error {
	typed, _, _ := strings.Cut(token, "=")
	name := strings.ReplaceAll(strings.TrimLeft(typed, "-"), "_", "-")
	if !r.set.passthrough {
		return usage(typed, r.hintUnknown(name), "unknown flag")
	}
	if !strings.HasPrefix(token, "--") {
		r.out.engineArgs = append(r.out.engineArgs, token)
		return nil
	}
	switch {
	case name == "policy":
		return usage(typed, "use --router-policy", "--policy belongs to the gateway, and everything unknown to the engines")
	case name == "worker-urls":
		return usage(typed, "use smg launch for engines that run already", "serve starts its own engines")
	case name == oldBodyFlag:
		return usage(typed, r.hintUnknown(name), "unknown flag")
	case isLegFlag(name):
		return usage(typed, "use --prefill-replicas, --decode-replicas and --encode-replicas, or smg launch for engines that run already",
			"serve starts its own engines")
	case strings.HasPrefix(name, routerPrefix):
		return usage(typed, r.hintUnknown(name), "unknown flag of the gateway")
	}
	if near := r.nearMiss(name); near != "" {
		r.out.warnings = append(r.out.warnings, typed+" is passed to the engines; did you mean --"+near+"?")
	}
	r.out.engineArgs = append(r.out.engineArgs, token)
	return nil
}

// oldBodyFlag is what --max-buffered-request-bytes was called once, elsewhere.
const oldBodyFlag = "stream-request-bodies-over"

// hintUnknown says what an unknown flag may have been meant to be.
func (r *rewriter) hintUnknown(name string) string {
	if strings.TrimPrefix(name, routerPrefix) == oldBodyFlag {
		return "write --" + r.set.prefixed("max-buffered-request-bytes")
	}
	if plain, ok := strings.CutPrefix(name, routerPrefix); ok {
		if e := r.set.lookup(plain); e != nil {
			return "write --" + e.name
		}
	}
	if slices.Contains([]string{"worker", "workers", "urls", "engine", "engines", "server", "servers", "upstream", "upstreams"}, name) && r.set.lookup("worker-urls") != nil {
		return "did you mean --worker-urls?"
	}
	if other := r.set.ownerOf(name); other != "" {
		return "--" + name + " is a flag of smg " + other
	}
	var known []string
	for n := range r.set.byName {
		known = append(known, n)
	}
	slices.Sort(known)
	if names := suggest(name, known); len(names) > 0 || r.set.passthrough {
		return didYouMean(names, "--", "smg serve --help=all lists the flags")
	}
	return "smg " + r.set.command + " --help=all lists the flags"
}

// nearMiss is the flag of serve that an engine flag looks like: a typo of it, the
// beginning of one, or a flag of the gateway without its prefix. --log-level,
// --engine, and what the launcher reads of the engines' flags are theirs by right.
func (r *rewriter) nearMiss(name string) string {
	if name == "engine" || launcher.SizesEngines(name) || slices.Contains(sharedFlags(), name) {
		return ""
	}
	if e := r.set.lookup(routerPrefix + name); e != nil && !e.Later && name != "log-level" {
		return e.name
	}
	best, bestRank := "", nearEnough+2
	for _, e := range r.set.entries {
		if e.Observed {
			continue // the engines understand their own abbreviations
		}
		for _, n := range e.names() {
			rank := distance(name, n)
			if rank > nearEnough {
				if name == "" || !strings.HasPrefix(n, name) {
					continue
				}
				rank = nearEnough + 1
			}
			if rank < bestRank {
				best, bestRank = n, rank
			}
		}
	}
	return best
}
