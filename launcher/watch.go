package launcher

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// farewell is the line by which a launcher says that it stops by itself.
const farewell = "."

// Watch is the work of a watchdog: it reads from the launcher which process groups
// there are, and returns once the launcher has taken leave. If r ends without that, the
// launcher was killed: Watch sends SIGTERM to the groups, SIGKILL after limit to those
// that are left, and returns when they are gone. See [Config].Watchdog.
func Watch(r io.Reader, limit time.Duration) {
	endGroups(orphaned(r), limit, DefaultConfig().ReapTimeout)
}

// orphaned reads "+GROUP", "-GROUP" and [farewell] lines to the end and returns the
// groups that are left, none after a farewell. A line that was cut counts for nothing,
// and so do the numbers that would mean everybody's processes.
func orphaned(r io.Reader) (groups []int) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return groups
		}
		line = strings.TrimSuffix(line, "\n")
		if line == farewell {
			return nil
		}
		n, err := strconv.Atoi(line)
		switch {
		case err != nil || (n >= -1 && n <= 1):
		case n < 0:
			groups = slices.DeleteFunc(groups, func(g int) bool { return g == -n })
		case !slices.Contains(groups, n):
			groups = append(groups, n)
		}
	}
}

// endGroups ends process groups whose launcher is gone. A number is not given to
// anybody else while the group has members, so a group is signalled only as long as
// every look has found some.
func endGroups(groups []int, limit, reap time.Duration) {
	const seldom = 200 * time.Millisecond
	send := func(sig syscall.Signal) {
		groups = slices.DeleteFunc(groups, func(g int) bool { return !groupAlive(g) })
		for _, g := range groups {
			_ = signalGroup(g, sig) // gone is what was wanted
		}
	}
	send(syscall.SIGTERM)
	pause := 10 * time.Millisecond
	killAt := time.Now().Add(limit)
	killed := false
	for len(groups) > 0 {
		time.Sleep(pause)
		pause = min(2*pause, seldom)
		now := time.Now()
		switch {
		case !killed && now.After(killAt):
			killed = true
			send(syscall.SIGKILL)
		case now.After(killAt.Add(reap)):
			return
		default:
			groups = slices.DeleteFunc(groups, func(g int) bool { return !groupAlive(g) })
		}
	}
}
