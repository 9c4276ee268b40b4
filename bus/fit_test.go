package bus

import (
	"strings"
	"testing"

	"smg/bus/natsd"
)

func TestCheckVersion(t *testing.T) {
	for _, tt := range []struct {
		version string
		ok      bool
	}{
		{"2.11.0", true},
		{"2.11", true},
		{"2.15.2", true},
		{"2.12.0-preview.1", true},
		{"3.0.0", true},
		{"2.10.29", false},
		{"2.9.0", false},
		{"1.4.1", false},
		{"0.0.0-dev", false},
		{"", true}, // not known to be old
		{"dev", true},
		{"2.x", true},
	} {
		t.Run(tt.version, func(t *testing.T) {
			err := checkVersion(tt.version)
			switch {
			case tt.ok && err != nil:
				t.Errorf("got %v", err)
			case !tt.ok && (err == nil || !strings.Contains(err.Error(), "version "+tt.version+": install 2.11 or newer")):
				t.Errorf("got %v", err)
			}
		})
	}
}

// The two packages agree on how an embedded server is told from others, though
// they know nothing of each other.
func TestEmbeddedName(t *testing.T) {
	if embeddedName != natsd.NamePrefix {
		t.Errorf("got %q, natsd has %q", embeddedName, natsd.NamePrefix)
	}
}

func TestAddressHasNoSecrets(t *testing.T) {
	c := Config{URL: "nats://user:pass@a:1, tls://token@b:2,c:3"}
	if got, want := c.Address(), "nats://a:1,tls://b:2,nats://c:3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Config{URL: "nats://user:pass@a:b:c"}).Address(); strings.Contains(got, "pass") {
		t.Errorf("got %q", got)
	}
}

func TestSaidOnce(t *testing.T) {
	var s said
	if !s.first("a") || s.first("a") || !s.first("b") {
		t.Error("not said once")
	}
	s.forget()
	if !s.first("a") {
		t.Error("not forgotten")
	}
}
