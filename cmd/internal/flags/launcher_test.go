package flags

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPythonLauncher says early that what the Python package has of the table is old.
// The package's own tests compare all of it.
func TestPythonLauncher(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../../python/smg/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var dashed []string
	fields := read("_fields.py")
	for _, d := range Table() {
		if d.Dashed && !slices.Contains(dashed, d.Name) {
			dashed = append(dashed, d.Name)
		}
		if d.In&gateway != 0 && !strings.Contains(fields, `Flag("`+d.Name+`", `) {
			t.Errorf("_fields.py lacks --%s: run make golden", d.Name)
		}
	}
	if want := `DASHED = ("` + strings.Join(dashed, `", "`) + `")`; !strings.Contains(read("_flags.py"), want) {
		t.Errorf("_flags.py lacks %s: run make golden", want)
	}
}
