package bootstrap

import (
	"strings"
	"testing"
	"testing/synctest"

	"smg/worker"
)

func TestDisagg(t *testing.T) {
	for _, tt := range []struct {
		runtime worker.Runtime
		leg     worker.Leg
		refused bool
	}{
		{"trtllm", worker.Prefill, true},
		{"mlx", worker.Decode, true},
		{"external", worker.Decode, true},
		{"external", worker.Regular, false},
		{"trtllm", worker.Encode, false},
		{worker.Generic, worker.Decode, false},
		{worker.SGLang, worker.Prefill, false},
		{worker.VLLM, worker.Decode, false},
	} {
		t.Run("F24_"+string(tt.runtime)+"_"+tt.leg.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{}
				r := registrar(t, &prober{}, m, func(*Config) {})
				if err := r.Add(asked(t, "http://w:1", func(s *worker.Spec) { s.Leg, s.Runtime = tt.leg, tt.runtime })); err != nil {
					t.Fatal(err)
				}
				run(t, r, long)
				got := m.now[worker.IDOf("http://w:1")].Conflict
				if refused := strings.HasPrefix(got, "runtime_pd_not_supported: "); refused != tt.refused || !tt.refused && got != "" {
					t.Errorf("conflict %q, want one: %v", got, tt.refused)
				}
			})
		})
	}
}
