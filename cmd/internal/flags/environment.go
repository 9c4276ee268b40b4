package flags

import (
	"fmt"
	"slices"
	"strings"
)

// flagPrefix is how the variables of flags begin.
const flagPrefix = "SMG_FLAG_"

// environment adds what variables say about flags that were not typed. Empty
// variables count as not set. Lists are split at white space.
func environment(s *set, r *rewritten, lookup func(string) (string, bool)) error {
	for _, e := range s.planned {
		name, value := firstVariable(e.variables(), lookup)
		where := name + "=" + redact(value)
		if e.Secret {
			where = name
		}
		if value == "" {
			continue
		}
		if err := e.refuseLater(where, value); err != nil {
			return err
		}
	}
	for _, e := range s.entries {
		if r.has(e.name) || e.Observed {
			continue
		}
		name, value := firstVariable(e.variables(), lookup)
		switch {
		case value == "":
			if name, _ := firstVariable(e.Presence, lookup); name != "" {
				r.flags = append(r.flags, given{e.name, "true", name})
			}
		case e.clear != nil:
			for _, v := range splitValues(e.Kind, value) {
				r.flags = append(r.flags, given{e.name, v, name + "=" + redact(v)})
			}
		case e.Kind == Bool && value != "true" && value != "false":
			return usage(name+"="+value, "write true or false", "%q is neither true nor false", value)
		case e.Secret:
			r.flags = append(r.flags, given{e.name, value, name})
		default:
			r.flags = append(r.flags, given{e.name, value, name + "=" + value})
		}
	}
	return nil
}

// splitValues takes the values of a variable apart at white space. A bootstrap port
// stays with its URL.
func splitValues(kind Kind, value string) []string {
	var out []string
	for v := range strings.FieldsSeq(value) {
		if kind == URLAndPort && len(out) > 0 && isBootstrapPort(v) {
			out[len(out)-1] += " " + v
			continue
		}
		out = append(out, v)
	}
	return out
}

// firstVariable finds the first of names that has a value.
func firstVariable(names []string, lookup func(string) (string, bool)) (name, value string) {
	for _, n := range names {
		if v, ok := lookup(n); ok && v != "" {
			return n, v
		}
	}
	return "", ""
}

// unknownVariables warns of those of names that look like the variable of a flag that
// there is not. A flag of another command is fine: services may share a file of
// variables.
func unknownVariables(names []string) (warnings []string) {
	names = slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { return !strings.HasPrefix(name, flagPrefix) })
	if len(names) == 0 {
		return nil
	}
	var known []string
	for _, d := range Table() {
		if name := d.FlagEnv(); !slices.Contains(known, name) { // a flag may have a row for each command
			known = append(known, name)
		}
	}
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("variable %s sets nothing: %s", name,
			didYouMean(suggest(name, known), "", "there is no such flag, smg --help=all lists them")))
	}
	return warnings
}

// unreadVariables warns of those of names that look like the variable of a flag of serve's
// own, which has none, unless the flag was given.
func (s *set) unreadVariables(names []string, r *rewritten) (warnings []string) {
	for _, e := range s.entries {
		if !e.own || r.has(e.name) || !slices.Contains(names, e.FlagEnv()) {
			continue
		}
		if o := s.lookup(routerPrefix + e.Name); o != nil && o.FlagEnv() == e.FlagEnv() {
			warnings = append(warnings, fmt.Sprintf("variable %s is for --%s: for the engines of serve write --%s", e.FlagEnv(), o.name, e.name))
			continue
		}
		warnings = append(warnings, fmt.Sprintf("variable %s sets nothing for serve: write --%s", e.FlagEnv(), e.name))
	}
	return warnings
}
