//go:build linux

package launcher

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// takes is how many values a flag has.
type takes uint8

const (
	nothing takes = iota
	one
	several
)

func (t takes) String() string { return [...]string{"nothing", "one value", "several values"}[t] }

var (
	columns    = regexp.MustCompile(` {2,}`)
	afterComma = regexp.MustCompile(`, +`)
)

// flagsOf reads an engine's help: the flags that its lines begin with, and how many
// values those take. It knows the forms of argparse and of llama.cpp.
func flagsOf(help string) map[string]takes {
	found := map[string]takes{}
	for line := range strings.Lines(help) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		line = afterComma.ReplaceAllString(strings.TrimSpace(line), ", ")
		if indent > 2 || !strings.HasPrefix(line, "-") {
			continue // the text about a flag
		}
		head := columns.Split(line, 2)[0]
		var names []string
		kind := nothing
		for part := range strings.SplitSeq(head, ", ") {
			words := strings.Fields(part)
			if len(words) == 0 || !strings.HasPrefix(words[0], "-") {
				continue
			}
			names = append(names, words[0])
			switch {
			case strings.HasSuffix(part, "...]"):
				kind = several
			case len(words) > 1 && (!strings.HasPrefix(words[1], "[") || strings.HasPrefix(words[1], "['")):
				kind = one
			}
		}
		for _, n := range names {
			found[n] = max(found[n], kind)
		}
	}
	return found
}

func TestHelpIsRead(t *testing.T) {
	got := flagsOf(`usage: engine [-h] --not-here

options:
  --api-server-count API_SERVER_COUNT, -asc API_SERVER_COUNT
                        --nor-here How many
  --headless            Run alone. (default: False)
  --log, --no-log
  --mode {a,b,c}        One of them.
  --urls URLS [URLS ...], --addresses URLS [URLS ...]
  --maybe [N]
  --other ['a', 'b']    Either.
                        -inside
  -h, --help            show this help message and exit
-m,    --model FNAME                    model path to load
--metrics                               enable
-c,    --ctx-size N                     size (default: 0, 0 = loaded from model)
`)
	want := map[string]takes{
		"--api-server-count": one, "-asc": one, "--headless": nothing, "--log": nothing, "--no-log": nothing, "--mode": one,
		"--urls": several, "--addresses": several, "--maybe": nothing, "--other": one, "-h": nothing, "--help": nothing,
		"-m": one, "--model": one, "--metrics": nothing, "-c": one, "--ctx-size": one,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// recorded are the engines whose help was recorded, with the command lines that they
// must understand. `make engine-help` records it anew.
func recorded() []struct {
	file  string
	cfg   Config
	roles bool
} {
	return []struct {
		file  string
		cfg   Config
		roles bool
	}{
		{"../test/vllm/testdata/serve-help-0.32.0.txt", engineConfig(BackendVLLM, ModeHTTP, ""), true},
		{"testdata/help/sglang.txt", engineConfig(BackendSGLang, ModeHTTP, ""), true},
		{"testdata/help/llama-server.txt", engineConfig(BackendLlamaCPP, ModeHTTP, ""), false},
	}
}

// TestEnginesKnowTheFlags holds the command lines of serve to what the engines say of
// themselves.
func TestEnginesKnowTheFlags(t *testing.T) {
	for _, r := range recorded() {
		t.Run(r.cfg.Backend, func(t *testing.T) {
			data, err := os.ReadFile(r.file)
			if err != nil {
				t.Fatal(err)
			}
			known := flagsOf(string(data))
			if len(known) < 100 {
				t.Fatalf("%s has %d flags", r.file, len(known))
			}
			for _, argv := range allCommands(t, r.cfg, r.roles) {
				wantKnown(t, known, argv)
			}
			b, err := r.cfg.backend()
			if err != nil {
				t.Fatal(err)
			}
			wantUnambiguous(t, known, b.owned)
			if r.roles {
				inRoles := r.cfg
				inRoles.Prefill, inRoles.Decode = 1, 1
				share, err := inRoles.sharing(b)
				if err != nil {
					t.Fatal(err)
				}
				wantUnambiguous(t, known, b.owned.and(share))
				for _, name := range []string{"--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"} {
					if known[name] != one {
						t.Errorf("%s takes %v", name, known[name])
					}
				}
			}
		})
	}
}

// allCommands are the command lines that a backend's engines may be started with.
func allCommands(t *testing.T, cfg Config, roles bool) (all [][]string) {
	t.Helper()
	add := func(c Config, p Place) {
		argv, err := c.CommandLine("PY", p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, argv)
	}
	cfg.TokenDetails = true
	add(cfg, Place{Port: 31000})
	if !roles {
		return all
	}
	cfg.Encode, cfg.Prefill, cfg.Decode = 2, 1, 1
	for _, kv := range KVBackends() {
		cfg.KVBackend = kv
		for _, role := range []worker.Leg{worker.Encode, worker.Prefill, worker.Decode} {
			add(cfg, Place{Role: role, Port: 31000, BootstrapPort: 8998, SideChannelPort: 5600, Encoders: []string{"http://e1", "http://e2"}})
		}
	}
	return all
}

// wantKnown wants the engine to have every flag of a command line, with as many values
// as stand there.
func wantKnown(t *testing.T, known map[string]takes, argv []string) {
	t.Helper()
	rest := argv[1:]
	if rest[0] == "-m" && strings.Contains(rest[1], ".") && strings.HasSuffix(argv[0], "PY") && !strings.HasSuffix(rest[1], ".gguf") {
		rest = rest[2:] // the interpreter's
	}
	for len(rest) > 0 {
		flag := rest[0]
		n := 1
		for n < len(rest) && !strings.HasPrefix(rest[n], "-") {
			n++
		}
		rest = rest[n:]
		want, ok := known[flag]
		switch got := takes(min(n-1, 2)); {
		case !ok:
			t.Errorf("the engine has no %s: %q", flag, argv)
		case got != want && (got != one || want != several):
			t.Errorf("%s takes %v, and gets %v: %q", flag, want, got, argv)
		}
	}
}

// wantUnambiguous wants no flag of the engine to be taken for one of the launcher's
// that it is not.
func wantUnambiguous(t *testing.T, known map[string]takes, owned ownedFlags) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if owned.has(name) && !slices.Contains(owned.names, name) {
			t.Errorf("a user's %s would not reach the engine", name)
		}
	}
	var unknown []string
	for _, name := range owned.names {
		if _, ok := known[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		t.Errorf("the engine does not have %q", unknown)
	}
}
