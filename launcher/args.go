package launcher

import (
	"slices"
	"strings"
)

// lastValue is the value that args give a flag, which has several names, with two
// dashes; of several the last counts, as for the engine. One dash is as good as two,
// and "_" as "-": some engine takes each.
func lastValue(args []string, names ...string) (value string, ok bool) {
	_, value, ok = lastFlag(args, names...)
	return value, ok
}

// lastFlag is lastValue along with the name as it was written.
func lastFlag(args []string, names ...string) (typed, value string, ok bool) {
	for i, a := range args {
		key, v, hasValue := strings.Cut(a, "=")
		if !strings.HasPrefix(key, "-") || !slices.Contains(names, canonicalFlag(key)) {
			continue
		}
		if !hasValue {
			if i+1 == len(args) {
				continue
			}
			v = args[i+1]
		}
		typed, value, ok = key, v, true
	}
	return typed, value, ok
}

// hasFlag says whether args have a flag that takes no value.
func hasFlag(args []string, name string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") && canonicalFlag(a) == name })
}

func canonicalFlag(key string) string {
	return "--" + strings.ReplaceAll(strings.TrimLeft(key, "-"), "_", "-")
}

// LastArg is the value that engine arguments give a flag, by its name with two dashes.
// Of several the last counts, as for the engine.
func LastArg(args []string, name string) (value string, ok bool) { return lastValue(args, name) }
