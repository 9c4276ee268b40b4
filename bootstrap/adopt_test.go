package bootstrap

import (
	"testing"
	"testing/synctest"
	"time"

	"smg/worker"
)

// TestAWorkerOfTwoCommandLinesIsOne has an ingress come, or come back, whose command
// line names a worker that is registered: it is no new one, so that nobody forgets what
// is known of it. With other facts it is.
func TestAWorkerOfTwoCommandLinesIsOne(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		same   bool
	}{
		{"the same", nil, true},
		{"on another leg", func(c *Config) { c.Workers[0].Leg = worker.Decode }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{}
				run(t, registrar(t, &prober{}, m, nil), time.Minute)
				first := m.specs[0].Clone()
				first.Conflict = "it is in another's way"
				second := registrar(t, &prober{}, m, tt.change)
				second.Heard(first.ID, first)
				run(t, second, time.Minute)
				again := m.specs[len(m.specs)-1]
				if len(m.specs) != 2 {
					t.Fatalf("%d records were stored, want 2", len(m.specs))
				}
				if got := again.RegisteredAt.Equal(first.RegisteredAt); got != tt.same {
					t.Errorf("registered at %s and %s, the same: %v, want %v", first.RegisteredAt, again.RegisteredAt, got, tt.same)
				}
				if again.Conflict != "" {
					t.Errorf("conflict %q is the other's word", again.Conflict)
				}
			})
		})
	}
}
