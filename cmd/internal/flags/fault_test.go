package flags

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-multierror"
)

// detailed is an error in the style of the launcher's.
type detailed struct{}

func (detailed) Error() string    { return "engine 0 ended" }
func (detailed) Detail() []string { return []string{"command: x", "last output:"} }
func (detailed) Hint() string     { return "look at it" }

func TestReport(t *testing.T) {
	one := &Fault{What: "a stable port is required", Where: "--port 0", Hint: "give one", Code: 1}
	two := &Fault{What: "unknown flag", Where: "--x", Code: 2}
	tests := []struct {
		name string
		err  error
		code int
		want string
	}{
		{"nothing", nil, 0, ""},
		{"one fault", one, 1, "error: a stable port is required\n  --port 0\n  hint: give one\n"},
		{"no hint", two, 2, "error: unknown flag\n  --x\n"},
		{"list of one", multierror.Append(nil, one), 1, "error: a stable port is required\n  --port 0\n  hint: give one\n"},
		{"list", multierror.Append(nil, one, two), 2, "error: --port 0: a stable port is required; give one\nerror: --x: unknown flag\n"},
		{"wrapped", fmt.Errorf("reading flags: %w", two), 2, "error: unknown flag\n  --x\n"},
		{"plain", errors.New("disk full"), 1, "error: disk full\n"},
		{"detail", fmt.Errorf("serve: %w", detailed{}), 1, "error: serve: engine 0 ended\n  command: x\n  last output:\n  hint: look at it\n"},
		{"joined", errors.Join(errors.New("a"), errors.New("b")), 1, "error: a\nerror: b\n"},
		{"two causes are one error", fmt.Errorf("%w and %w", errors.New("a"), errors.New("b")), 1, "error: a and b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			if code := Report(&out, tt.err); code != tt.code {
				t.Errorf("code %d, want %d", code, tt.code)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
