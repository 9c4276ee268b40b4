package flags

import (
	"slices"
	"strings"
	"testing"
)

// TestHelpOfPlannedFlags finds what is not supported yet by all that help is asked for,
// and marked as such.
func TestHelpOfPlannedFlags(t *testing.T) {
	const mark = "\nplanned (not supported yet"
	for _, tt := range []struct {
		name, line string
		want       []string // in this order
		not        string
	}{
		{"all", "launch --help=all", []string{"--policy POLICY", mark, "--history-backend NAME", "\nMore: "}, ""},
		{"all of serve", "serve --help=all", []string{"--backend NAME", mark, "--router-history-backend NAME"}, ""},
		{"planned", "launch --help=planned", []string{mark, "--service-discovery ", "--redis-url"}, "--policy POLICY"},
		{"flag", "launch --help=redis-url", []string{mark, "--redis-url URL"}, "--redis-pool"},
		{"alias", "launch --help=--redis_pool_max", []string{mark, "--redis-pool-max-size"}, "--redis-url"},
		{"group", "launch --help=mesh", []string{mark, "--mesh-port PORT"}, "--redis-url"},
		{"word", "launch --help=kubernetes", []string{mark, "--service-discovery "}, "--mesh-port"},
		{"both", "launch --help=conversations", []string{mark, "--history-backend"}, "REDIS_URL"},
		{"groups", "launch --help=groups", []string{"policy ", "planned ", "not supported yet"}, "--redis-url"},
		{"everyday", "launch --help", []string{"--policy POLICY", "\nMore: "}, mark},
		{"first screen", "--help", []string{"\nMore: "}, "not supported"},
		{"replay has none", "replay --help=all", []string{"--rate X", "\nMore: "}, mark},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, code, text := run(nil, strings.Fields(tt.line)...)
			rest := text
			for _, want := range tt.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("exit %d: no %q where it should be\n%s", code, want, text)
				}
				rest = after
			}
			if code != 0 || tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("exit %d, or %q is in\n%s", code, tt.not, text)
			}
		})
	}
}

// TestGroupsOnATerminal: the lists of flags break where the terminal ends.
func TestGroupsOnATerminal(t *testing.T) {
	const width = 60
	cmd, err := Parse(Input{Args: []string{"launch", "--help=groups"}, Env: env(nil), Width: width})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(cmd.Output) {
		if n := len(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	plain, err := Parse(Input{Args: []string{"launch", "--help=groups"}, Env: env(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if want, got := strings.Fields(plain.Output), strings.Fields(cmd.Output); !slices.Equal(want, got) {
		t.Errorf("other words: %q, want %q", got, want)
	}
}
