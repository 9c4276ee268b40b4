package bootstrap

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smg/worker"
)

// TestAnEngineOfAnotherLegIsNotChosen: an SGLang engine that was started for decode
// lets prompts wait which were meant for prefill.
func TestAnEngineOfAnotherLegIsNotChosen(t *testing.T) {
	for _, tt := range []struct {
		name    string
		runtime worker.Runtime
		leg     worker.Leg
		said    string
		refused bool
	}{
		{"its own", worker.SGLang, worker.Decode, "decode", false},
		{"decode for prefill", worker.SGLang, worker.Prefill, "decode", true},
		{"prefill for decode", worker.SGLang, worker.Decode, "prefill", true},
		{"decode for whole requests", worker.SGLang, worker.Regular, "decode", true},
		{"whole", worker.SGLang, worker.Regular, "null", false},
		{"it does not tell", worker.SGLang, worker.Prefill, "", false},
		{"another runtime's label", worker.VLLM, worker.Prefill, "decode", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{}
				run(t, registrarOf(t, m, tt.leg, tt.runtime, tt.said), long)
				got := m.now[worker.IDOf("http://w:1")].Conflict
				if refused := strings.HasPrefix(got, "role_mismatch: "); refused != tt.refused || !tt.refused && got != "" {
					t.Errorf("conflict %q, want one: %v", got, tt.refused)
				}
			})
		})
	}
}

// TestAnothersWorkerIsLeftOnItsLeg has an ingress come whose command line confuses the
// legs of a fleet that runs.
func TestAnothersWorkerIsLeftOnItsLeg(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		run(t, registrarOf(t, m, worker.Decode, worker.SGLang, "decode"), long)
		first := m.specs[0].Clone()
		second := registrarOf(t, m, worker.Prefill, worker.SGLang, "decode")
		second.Heard(first.ID, first)
		run(t, second, long)
		if got := m.now[first.ID]; got.Leg != worker.Decode || got.Conflict != "" || !got.RegisteredAt.Equal(first.RegisteredAt) {
			t.Errorf("it is a %s worker now, conflict %q", got.Leg, got.Conflict)
		}
		second = registrarOf(t, m, worker.Prefill, worker.SGLang, "prefill") // the engine was started anew for it
		second.Heard(first.ID, first)
		run(t, second, time.Hour)
		if got := m.now[first.ID]; got.Leg != worker.Prefill {
			t.Errorf("it is a %s worker although its engine was started for prefill since", got.Leg)
		}
	})
}

// registrarOf has one worker to register, whose engine was started for said.
func registrarOf(t *testing.T, m *memory, leg worker.Leg, runtime worker.Runtime, said string) *Registrar {
	t.Helper()
	return registrar(t, &prober{found: Found{Runtime: runtime, Labels: map[string]string{modeLabel: said}}}, m, func(c *Config) {
		c.Workers = []Candidate{{URL: "http://w:1", Leg: leg}}
	})
}
