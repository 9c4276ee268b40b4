package flags

import (
	"os/exec"
	"strings"
	"testing"
)

// TestMan holds docs/man/smg.1 to the tables, and to what groff understands.
func TestMan(t *testing.T) {
	page := Man()
	golden(t, "man/smg.1", page)
	plain := strings.ReplaceAll(page, `\-`, "-")
	for _, d := range Table() {
		if !strings.Contains(plain, "--"+d.Name) || !d.Later && !strings.Contains(page, roff(d.Help)) {
			t.Errorf("--%s is missing", d.Name)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("no groff here: the page is not formatted")
		return
	}
	format := exec.Command(groff, "-man", "-Tutf8", "-ww", "-rLL=100n", "-P-cbou")
	format.Stdin = strings.NewReader(page)
	var warnings strings.Builder
	format.Stderr = &warnings
	out, err := format.Output()
	if err != nil || warnings.Len() > 0 {
		t.Fatalf("%v\n%s", err, warnings.String())
	}
	for _, want := range []string{"\nNAME\n", "--prefill URL [PORT|none]\n", "--history-backend,", "cache_aware", "Variable: SMG_NATS_URL."} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the formatted page has no %q", want)
		}
	}
}
