package flags

import (
	"errors"
	"slices"
	"strings"
)

// Kind says how a flag takes values.
type Kind uint8

// The kinds of flags.
const (
	// Bool is true when present; only its "=" form takes a value.
	Bool Kind = iota
	// Scalar takes exactly one value.
	Scalar
	// List takes all following arguments up to the next flag, and may be repeated.
	List
	// Repeated takes exactly one value, and may be repeated.
	Repeated
	// URLAndPort is Repeated with a URL that its bootstrap port may follow. Its value
	// is both, with a blank between.
	URLAndPort
)

// Scope says where a flag exists. It is a set.
type Scope uint8

// The scopes of flags.
const (
	// InLaunch is launch and the bare form.
	InLaunch Scope = 1 << iota
	// InRouter is serve, with the prefix "--router-".
	InRouter
	// InServe is serve, under the flag's own name.
	InServe
	// InIngress is the ingress alone.
	InIngress
	// InSelector is the selector of one leg alone.
	InSelector
	// InReplay is the replay of recordings, which also has the flags that tune
	// policies.
	InReplay
)

// Where the flags of the gateway exist: always in the commands that run all of it,
// prefixed in serve, and in those of the services that read them.
const (
	gateway      = InLaunch | InRouter
	serving      = gateway | InIngress
	choosing     = gateway | InSelector
	everyProcess = gateway | InIngress | InSelector
)

// plain are the commands where the flags of the gateway carry no prefix.
const plain = InLaunch | InIngress | InSelector

// routerPrefix marks the gateway's flags in serve.
const routerPrefix = "router-"

// Def defines one flag.
type Def struct {
	Name     string   // without dashes
	Aliases  []string // without dashes
	Kind     Kind
	Value    string   // placeholder in help, empty for Bool
	Default  string   // in the syntax of the flag; empty for an empty value or list
	Env      []string // variables besides SMG_FLAG_<NAME>
	Presence []string // Bool: variables that switch it on by any value but an empty one
	Help     string   // one sentence
	Group    string
	Everyday bool // shown on the first help screen
	// Dashed: the argument behind the flag is its value even if it begins with "-".
	Dashed bool
	// Secret: messages do not repeat the value, and children are given it by a variable.
	Secret bool
	// Later: the feature is not built yet. The flag is known by name, accepted with its
	// default value and refused with others, and it has no set.
	Later bool
	// Also are other values than the default one that say what holds anyway.
	Also []string
	// Observed: serve's, but passed to the engines as it was typed. It has no set.
	Observed bool
	In       Scope
	// Tunes names the policies whose choices the flag changes, and [stickySessions].
	Tunes []string

	set   func(s *Serve, value string) error
	clear func(s *Serve) // flags that hold several values: makes the list empty
}

// FlagEnv is the variable that every gateway flag also has.
func (d *Def) FlagEnv() string {
	return flagPrefix + strings.ToUpper(strings.ReplaceAll(d.Name, "-", "_"))
}

// variables lists the environment variables of d, the first that is set wins. Those
// that others share with a flag that is not built yet are not looked at.
func (d *Def) variables() []string {
	switch {
	case d.Later:
		return []string{d.FlagEnv()}
	case d.In&plain == 0:
		return d.Env
	}
	return append([]string{d.FlagEnv()}, d.Env...)
}

// Choices are the values of a flag that has no others, or nil.
func (d *Def) Choices() []string {
	if d.set == nil || d.Kind == Bool {
		return nil
	}
	if bad, ok := errors.AsType[*wrongChoice](d.set(&Serve{}, noValue)); ok {
		return bad.choices
	}
	return nil
}

// replayed says whether replay has the flag because it tunes policies.
func (d *Def) replayed() bool { return d.Tunes != nil && d.In&InSelector != 0 || d.Name == stickyFlag }

// noValue is none of any flag's choices.
const noValue = "\x00"

// Table returns the definitions of all flags, in the order of help.
func Table() []Def {
	return slices.Concat(launchTable(), policyTable(), stickyTable(), modelTable(), loadTable(), eventTable(), legTable(), sharingTable(), retryTable(),
		requestTable(), admissionTable(), authTable(), traceTable(), serviceTable(), recordTable(), replayTable(), serveTable(), laterTable())
}

// entry is a flag as one command knows it.
type entry struct {
	*Def
	name string // as typed after "--", with the command's prefix
	own  bool   // serve's own, not one of the gateway's
}

// names are all spellings of e, the canonical one first.
func (e *entry) names() []string {
	prefix := strings.TrimSuffix(e.name, e.Name)
	out := []string{e.name}
	for _, a := range e.Aliases {
		out = append(out, prefix+a)
	}
	return out
}

// set is the flags of one command.
type set struct {
	command string
	entries []*entry
	planned []*entry // those of flags that are not built yet
	byName  map[string]*entry
	// passthrough: what is not known belongs to the engine.
	passthrough bool
	// files: arguments that are no flags are files.
	files bool
	// bare: the flags came without a command, so a command's name among them is
	// one that stands in the wrong place.
	bare bool
}

func newSet(command string, table []Def) *set {
	s := &set{command: command, byName: map[string]*entry{}, passthrough: command == nameServe, files: command == nameReplay}
	for i := range table {
		d := &table[i]
		e := &entry{Def: d, name: d.Name}
		switch {
		case command != nameServe && d.In&scopeOf(command) != 0:
		case command == nameReplay && d.replayed():
		case command == nameServe && d.In&InServe != 0:
			e.own = true
		case command == nameServe && d.In&InRouter != 0:
			e.name = routerPrefix + d.Name
		default:
			continue
		}
		if d.Later {
			s.planned = append(s.planned, e)
		} else {
			s.entries = append(s.entries, e)
		}
		for _, n := range e.names() {
			s.byName[n] = e
		}
	}
	return s
}

// lookup finds a flag by its name without dashes; "_" is read as "-".
func (s *set) lookup(name string) *entry {
	return s.byName[strings.ReplaceAll(name, "_", "-")]
}

// ownerOf names another command where the flag can be used, or is empty.
func (s *set) ownerOf(name string) string {
	if s.passthrough || s.lookup(name) != nil {
		return "" // the engines may have it, or only the dashes are wrong
	}
	for _, command := range []string{nameSelector, nameIngress, nameLaunch, nameServe, nameReplay} {
		if command == s.command {
			continue
		}
		if e := newSet(command, Table()).lookup(name); e != nil && !e.Later {
			return command
		}
	}
	return ""
}
