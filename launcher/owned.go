package launcher

import (
	"slices"
	"strings"
)

// ownedFlags are the flags of an engine that the launcher sets itself. Where a user
// gives one, it must not reach the engine, which would take the last of two: the
// launcher would wait at a port that nobody has.
type ownedFlags struct {
	names []string // with dashes
	// merged are those whose value the launcher takes over into its own.
	merged []string
	// underscores: the engine reads "_" in a name as "-".
	underscores bool
	// abbreviated: the engine takes the beginning of a name for the name.
	abbreviated bool
}

// leastAbbreviation is how many letters of a name are taken for it. Fewer begin too
// many other flags, and the engine refuses them.
const leastAbbreviation = 3

// and is o with those of engines in roles.
func (o ownedFlags) and(s *sharing) ownedFlags {
	o.names, o.merged = slices.Concat(o.names, s.owned), s.merged
	return o
}

// has says whether key, an argument up to its "=", is one of o.
func (o ownedFlags) has(key string) bool {
	if o.underscores && strings.HasPrefix(key, "--") {
		key = strings.ReplaceAll(key, "_", "-")
	}
	if slices.Contains(o.names, key) {
		return true
	}
	if !o.abbreviated || len(key) < len("--")+leastAbbreviation || !strings.HasPrefix(key, "--") {
		return false
	}
	return slices.ContainsFunc(o.names, func(name string) bool { return strings.HasPrefix(name, key) })
}

// remove takes the flags of o out of args. A flag with "=" goes alone; one without
// takes the next argument along unless that starts with "-", so a dropped boolean
// never eats the flag behind it. dropped names each flag that is lost, once, as it was
// written.
func (o ownedFlags) remove(args []string) (rest, dropped []string) {
	for i := 0; i < len(args); i++ {
		key, _, hasValue := strings.Cut(args[i], "=")
		if !o.has(key) {
			rest = append(rest, args[i])
			continue
		}
		if !slices.Contains(o.merged, canonicalFlag(key)) {
			dropped = appendNew(dropped, key)
		}
		for !hasValue && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			hasValue = key != encoderURLsFlag // which takes all that follows
		}
	}
	return rest, dropped
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
