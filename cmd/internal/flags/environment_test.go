package flags

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnknownVariables: a unit file with a typing error in it must not do nothing in
// silence.
func TestUnknownVariables(t *testing.T) {
	in := Input{
		Args: []string{"launch", "--worker-urls", "http://w:1"}, Env: func(string) (string, bool) { return "", false },
		Variables: []string{"SMG_FLAG_WORKER_URL", "SMG_FLAG_POLICYY", "SMG_FLAG_NONSENSE_OF_ALL_KINDS", "SMG_FLAG_LEG", "SMG_FLAG_POLICY", "SMG_PORT", "PATH"},
	}
	cmd, err := Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"variable SMG_FLAG_NONSENSE_OF_ALL_KINDS sets nothing: there is no such flag, smg --help=all lists them",
		"variable SMG_FLAG_POLICYY sets nothing: did you mean SMG_FLAG_POLICY?",
		"variable SMG_FLAG_WORKER_URL sets nothing: did you mean SMG_FLAG_WORKER_URLS?",
	}
	if diff := cmp.Diff(want, cmd.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	in.Child = true // its parent has said so
	if cmd, err = Parse(in); err != nil || len(cmd.Warnings) != 0 {
		t.Errorf("a child warns: %v, %v", cmd.Warnings, err)
	}
}
