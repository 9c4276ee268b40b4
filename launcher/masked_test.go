package launcher

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCLIMasked has no key of an engine's command line shown where its failure is told.
func TestCLIMasked(t *testing.T) {
	t.Run("81_keys_of_engines", func(t *testing.T) {
		for _, tt := range []struct{ argv, want []string }{
			{[]string{"vllm", "--api-key", "canary", "--port", "1"}, []string{"vllm", "--api-key", "***", "--port", "1"}},
			{[]string{"vllm", "--api_key=canary"}, []string{"vllm", "--api_key=***"}},
			{[]string{"vllm", "--hf-token", "canary"}, []string{"vllm", "--hf-token", "***"}},
			{[]string{"vllm", "--api-key", "--port", "1"}, []string{"vllm", "--api-key", "--port", "1"}},
			{[]string{"vllm", "--tokenizer", "t", "--api-key"}, []string{"vllm", "--tokenizer", "t", "--api-key"}},
		} {
			if diff := cmp.Diff(tt.want, masked(tt.argv)); diff != "" {
				t.Error(diff)
			}
		}
	})
}
