package flags

import (
	"slices"
	"strings"
)

// later takes a flag whose feature is not built yet.
func (r *rewriter) later(e *entry, typed, value string, hasValue bool) error {
	switch {
	case hasValue:
	case e.Kind == Bool:
		value = "true"
	case e.Kind == List:
		n := 0
		for n < len(r.args) && !strings.HasPrefix(r.args[n], "-") {
			n++
		}
		value, r.args = strings.Join(r.args[:n], " "), r.args[n:]
	case len(r.args) == 0 || !e.takes(r.args[0]):
		return usage(typed, "write "+typed+" "+e.Value, "a value is missing")
	default:
		value, r.args = r.args[0], r.args[1:]
	}
	where := typed
	if e.Kind != Bool && !e.Secret {
		where += " " + redact(value)
	}
	return e.refuseLater(where, value)
}

// refuseLater refuses the values of e that do not hold anyway: scripts that say those go
// on to work. where names the flag or its variable, as typed.
func (e *entry) refuseLater(where, value string) error {
	usual := e.Default
	if e.Kind == Bool {
		usual = "false"
	}
	if value == usual || slices.Contains(e.Also, value) {
		return nil
	}
	hint := "leave it out"
	if usual != "" && e.Kind != Bool {
		hint += ", or write --" + e.name + " " + usual
	}
	return usage(where, hint, "--%s is not supported yet", e.name)
}
