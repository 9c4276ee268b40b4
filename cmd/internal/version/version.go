// Package version says which build of smg is running. The number stands in one
// file, VERSION, which the Python package reads too; the commit comes from what
// the Go tool stamps into a binary. It knows nothing of the programs that print it.
package version

import (
	"cmp"
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version overrides the number of the VERSION file when the linker sets it
// (-ldflags "-X smg/cmd/internal/version.Version=1.2.3"). Nothing else writes it.
var Version string

//go:embed VERSION
var file string

// String returns the version number alone, such as "0.1.0".
func String() string {
	if Version != "" {
		return Version
	}
	return strings.TrimSpace(file)
}

// Line returns one line for people: program name, version and, where the build
// carries one, the short commit: "smg 0.1.0 (commit abc1234)".
func Line(program string) string {
	b := read()
	if b.commit == "" {
		return program + " " + String()
	}
	short := b.commit[:min(7, len(b.commit))]
	return fmt.Sprintf("%s %s (commit %s)", program, String(), short)
}

// Verbose returns several lines, without a newline at the end: version, commit and
// whether the tree was clean, time of that commit, Go version, operating system and
// architecture. There is no build time, so that two builds of a commit are equal.
func Verbose(program string) string {
	b := read()
	lines := []string{
		program + " " + String(),
		"commit    " + cmp.Or(b.commit, "unknown") + b.state(),
		"committed " + cmp.Or(b.time, "unknown"),
		"go        " + runtime.Version(),
		"platform  " + runtime.GOOS + "/" + runtime.GOARCH,
	}
	return strings.Join(lines, "\n")
}

// stamp is what the Go tool knew about the source tree when it built the binary.
type stamp struct {
	commit   string
	time     string
	modified string
}

func (s stamp) state() string {
	switch s.modified {
	case "true":
		return " (dirty)"
	case "false":
		return " (clean)"
	default:
		return ""
	}
}

func read() stamp {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return stamp{}
	}
	return from(info.Settings)
}

func from(settings []debug.BuildSetting) stamp {
	var s stamp
	for _, kv := range settings {
		switch kv.Key {
		case "vcs.revision":
			s.commit = kv.Value
		case "vcs.time":
			s.time = kv.Value
		case "vcs.modified":
			s.modified = kv.Value
		}
	}
	return s
}
