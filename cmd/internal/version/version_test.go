package version

import (
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStringIsTheFile(t *testing.T) {
	data, err := os.ReadFile("VERSION")
	if err != nil {
		t.Fatal(err)
	}
	got := String()
	if want := strings.TrimSpace(string(data)); got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9a-z.]+)?$`).MatchString(got) {
		t.Errorf("String() = %q is no version number", got)
	}
}

func TestStamp(t *testing.T) {
	tests := []struct {
		name     string
		settings []debug.BuildSetting
		want     stamp
		state    string
	}{
		{name: "nothing stamped"},
		{
			name: "clean",
			settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: "0123456789abcdef"},
				{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
				{Key: "vcs.modified", Value: "false"},
				{Key: "GOOS", Value: "linux"},
			},
			want:  stamp{commit: "0123456789abcdef", time: "2026-01-02T03:04:05Z", modified: "false"},
			state: " (clean)",
		},
		{
			name:     "dirty",
			settings: []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}},
			want:     stamp{modified: "true"},
			state:    " (dirty)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := from(tt.settings)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(stamp{})); diff != "" {
				t.Errorf("from() (-want +got):\n%s", diff)
			}
			if got.state() != tt.state {
				t.Errorf("state() = %q, want %q", got.state(), tt.state)
			}
		})
	}
}

func TestLines(t *testing.T) {
	if got, want := Line("smg"), "smg "+String(); !strings.HasPrefix(got, want) {
		t.Errorf("Line() = %q, want prefix %q", got, want)
	}
	got := Verbose("smg")
	for _, want := range []string{"smg " + String(), "commit ", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH} {
		if !strings.Contains(got, want) {
			t.Errorf("Verbose() lacks %q:\n%s", want, got)
		}
	}
}
