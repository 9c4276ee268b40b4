package flags

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"smg/policy"
)

// specFlag is a line of testdata/spec_flags.txt.
type specFlag struct {
	later    bool
	commands []string
	names    []string
	usual    string // default value
}

func specFlags(t *testing.T) (all []specFlag) {
	t.Helper()
	text, err := os.ReadFile("testdata/spec_flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if line[0] == '#' {
			continue
		}
		if len(f) != 4 || !slices.Contains([]string{"MUST", "SHOULD", "LATER"}, f[0]) {
			t.Fatalf("not a flag: %q", line)
		}
		usual := f[3]
		if usual == "-" {
			usual = ""
		}
		all = append(all, specFlag{f[0] == "LATER", strings.Split(f[1], ","), strings.Split(f[2], "|"), usual})
	}
	return all
}

// find is the flag as the first of its commands has it.
func (f specFlag) find(t *testing.T, command, name string) *entry {
	t.Helper()
	if command == "router" {
		command, name = nameServe, routerPrefix+name
	}
	e := newSet(command, Table()).lookup(name)
	if e == nil {
		t.Errorf("smg %s has no --%s", command, name)
	}
	return e
}

// testSpecFlags is case 78 where it is about flags: all are there, and help shows those
// that work.
func testSpecFlags(t *testing.T) {
	help := map[string]string{}
	for _, command := range []string{nameLaunch, nameServe, nameSelector} {
		_, _, help[command] = run(nil, command, "--help=all")
	}
	all := specFlags(t)
	if len(all) < 150 {
		t.Errorf("%d flags", len(all))
	}
	for _, f := range all {
		for _, command := range f.commands {
			for i, name := range f.names {
				e := f.find(t, command, name)
				if e == nil {
					continue
				}
				if e.Later != f.later {
					t.Errorf("--%s: planned %v, want %v", name, e.Later, f.later)
				}
				if i == 0 && command != nameServe && !sameValue(e.Default, f.usual) {
					t.Errorf("--%s is %q by default, want %q", name, e.Default, f.usual)
				}
				shown := nameServe
				if command != "router" {
					shown = command
				}
				if !f.later && !strings.Contains(help[shown], "--"+e.name) {
					t.Errorf("smg %s --help=all lacks --%s", shown, e.name)
				}
			}
		}
	}
}

// sameValue compares numbers as such.
func sameValue(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return a == b || errX == nil && errY == nil && x == y
}

// testFirstScreens is case 78 where it is about what help shows first.
func testFirstScreens(t *testing.T) {
	_, code, text := run(nil, "--help")
	if n := strings.Count(text, "\n"); code != 0 || n > 40 || !strings.Contains(text, "--pd-disaggregation --prefill http://") {
		t.Errorf("exit %d, %d lines\n%s", code, n, text)
	}
	_, code, text = run(nil, "launch", "--help=policy")
	for _, name := range policy.Names() {
		if code != 0 || !strings.Contains(text, "\n  "+name+" ") {
			t.Errorf("--help=policy lacks %s", name)
		}
	}
	_, code, text = run(nil, "launch", "--help=cache")
	for _, name := range []string{"cache-threshold", "cache-index", "cache-boundaries", "cache-ttl-secs"} {
		if code != 0 || !strings.Contains(text, "--"+name) {
			t.Errorf("--help=cache lacks --%s", name)
		}
	}
}
