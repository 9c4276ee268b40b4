package gateway

import (
	"testing"

	"smg/engine"
	"smg/worker"
)

// TestRuntimeOfEngines has the command line say what an engine is that does not say it.
func TestRuntimeOfEngines(t *testing.T) {
	tests := []struct {
		name, said, owner, backend string
		want                       worker.Runtime
	}{
		{"it says so", "sglang", "sglang", "vllm", worker.SGLang},
		{"it does not", "generic", "", "vllm", worker.VLLM},
		{"another owner", "generic", "somebody", "sglang", worker.SGLang},
		{"llama.cpp says so", "generic", "llamacpp", "vllm", worker.Generic},
		{"nobody says", "generic", "", "auto", worker.Generic},
		{"a kind without ways of its own", "generic", "", "llamacpp", worker.Generic},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info := engine.Info{Runtime: tt.said, Labels: map[string]string{"owned_by": tt.owner}}
			if got := (discoverer{backend: tt.backend}).runtime(info); got != tt.want {
				t.Errorf("it is taken for %s, want %s", got, tt.want)
			}
		})
	}
}
