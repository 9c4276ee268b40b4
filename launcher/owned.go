package launcher

import (
	"slices"
	"strings"
)

// removeOwned takes the launcher's own flags out of args. A flag with "=" goes
// alone; one without takes the next argument along unless that starts with "-", so
// a dropped boolean never eats the flag behind it. dropped names each flag once.
func removeOwned(args, owned []string) (rest, dropped []string) {
	for i := 0; i < len(args); i++ {
		key, _, hasValue := strings.Cut(args[i], "=")
		if !slices.Contains(owned, key) {
			rest = append(rest, args[i])
			continue
		}
		if !slices.Contains(dropped, key) {
			dropped = append(dropped, key)
		}
		if !hasValue && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
		}
	}
	return rest, dropped
}
