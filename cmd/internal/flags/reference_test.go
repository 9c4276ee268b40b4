package flags

import (
	"strings"
	"testing"
)

// TestReference holds docs/flags.md to the tables.
func TestReference(t *testing.T) {
	page := Reference()
	golden(t, "flags.md", page)
	for _, d := range Table() {
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			if !strings.Contains(page, "`--"+name+"`") && !strings.Contains(page, "`--"+name+" ") {
				t.Errorf("--%s is missing", name)
			}
		}
	}
	for line := range strings.Lines(page) {
		if n := strings.Count(line, "|") - strings.Count(line, `\|`); strings.HasPrefix(line, "|") && n != 6 && n != 4 {
			t.Errorf("a cell breaks: %s", line)
		}
	}
	for _, want := range []string{
		"| `--cache-threshold SHARE`<br>`--cache-match-threshold` | `0.3` | `SMG_FLAG_CACHE_THRESHOLD` | launch, serve (`--router-`), selector, replay | Share of a prompt",
		"| `--no-color` |  | `SMG_FLAG_NO_COLOR`<br>`NO_COLOR` (any value) |",
		"| `--backend NAME` | `sglang` | `SMG_DEFAULT_BACKEND` | serve | Kind of engine",
		"| `--prefill URL [PORT\\|none]` |", "One of random, round_robin,",
		"| `--history-backend NAME` | `memory` | Where conversations",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}
