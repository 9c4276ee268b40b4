package flags

import "strings"

// fallback has serve's gateway ask clients for the key that its engines were given on
// the same line, unless it was given one of its own: whoever starts an engine with a key
// expects that it is needed. It says whether it has.
func fallback(s *set, line *rewritten) bool {
	own := s.prefixed(nameAPIKey)
	if s.command != nameServe || line.has(own) || line.value(s.prefixed(nameNoFallback)) == "true" {
		return false
	}
	key := engineFlag(line.engineArgs, "--"+nameAPIKey)
	if key == "" {
		return false
	}
	line.flags = append(line.flags, given{own, key, "--" + nameAPIKey})
	return true
}

// value is a flag's last one, "" if it has none.
func (r *rewritten) value(name string) (v string) {
	for _, g := range r.flags {
		if g.name == name {
			v = g.value
		}
	}
	return v
}

// engineFlag is the value that an engine takes for a flag: the last one counts, and of
// several behind it the first.
func engineFlag(args []string, name string) (value string) {
	for i, arg := range args {
		typed, v, ok := strings.Cut(arg, "=")
		switch {
		case strings.ReplaceAll(typed, "_", "-") != name:
		case ok:
			value = v
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			value = args[i+1]
		}
	}
	return value
}
