package bootstrap

import (
	"strings"
	"testing"

	"smg/worker"
)

func TestPlanned(t *testing.T) {
	specs, err := Planned([]Candidate{
		{URL: "http://p:2", Leg: worker.Prefill, BootstrapPort: 8998, BootstrapSource: "cli"},
		{URL: "http://p:1", Leg: worker.Prefill, BootstrapPort: 8998},
		{URL: "http://q:1", Leg: worker.Prefill, BootstrapPort: 8998},
		{URL: "http://p:3", Leg: worker.Decode},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "http://p:2 has the bootstrap address p:8998", "", ""} {
		if s := specs[i]; (s.Conflict != "") != (want != "") || !strings.Contains(s.Conflict, want) || !s.RegisteredAt.IsZero() {
			t.Errorf("%s: conflict %q, want %q", s.URL, s.Conflict, want)
		}
	}
	if _, err := Planned([]Candidate{{URL: "ftp://p"}}); err == nil {
		t.Error("a URL that cannot be is taken")
	}
}
