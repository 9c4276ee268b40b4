package flags

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
)

// TestPythonLauncher holds what the Python launcher knows of command lines, which it looks
// at before this program does, to what is in the tables.
func TestPythonLauncher(t *testing.T) {
	code, err := os.ReadFile("../../../python/smg/_check.py")
	if err != nil {
		t.Fatal(err)
	}
	tuple := func(name string) (words []string) {
		m := regexp.MustCompile(`(?s)\n` + name + ` = \((.*?)\)`).FindSubmatch(code)
		if m == nil {
			t.Fatalf("there is no %s", name)
		}
		for _, w := range regexp.MustCompile(`"([^"]*)"`).FindAllSubmatch(m[1], -1) {
			words = append(words, string(w[1]))
		}
		return words
	}
	var dashed []string
	known := map[string]bool{}
	for _, d := range Table() {
		known[d.Name] = true
		if d.Dashed {
			dashed = append(dashed, d.Name)
		}
	}
	if diff := cmp.Diff(dashed, tuple("DASHED")); diff != "" {
		t.Errorf("flags whose value may begin with a dash (-table +launcher):\n%s", diff)
	}
	for _, m := range regexp.MustCompile(`(?m)^    "([a-z-]+)": tuple`).FindAllSubmatch(code, -1) {
		if name := string(m[1]); !known[name] {
			t.Errorf("the launcher judges --%s, which there is not", name)
		}
	}
	if got, want := tuple("POLICIES"), policy.Names(); !slices.Equal(got, want) {
		t.Errorf("policies %q, want %q", got, want)
	}
}
