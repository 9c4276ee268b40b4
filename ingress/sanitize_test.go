package ingress

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/ingress/body"
)

func TestOneToken(t *testing.T) {
	for _, c := range []struct{ name, path, body, want string }{
		{"what makes no sense beside one token", chatPath, `{"a":1,"stream":true,"stream_options":{"include_usage":true},"min_tokens":5,"max_tokens":9}`, `{"a":1,"stream":false,"max_tokens":1}`},
		{"no limit", chatPath, `{"a":1}`, `{"a":1,"stream":false,"max_tokens":1}`},
		{"n", chatPath, `{"n":1}`, `{"n":1,"stream":false,"max_tokens":1}`},
		{"n is null", chatPath, `{"n":null}`, `{"n":null,"stream":false,"max_tokens":1}`},
		{"a chat's newer limit", chatPath, `{"max_tokens":9,"max_completion_tokens":8}`, `{"max_completion_tokens":1,"stream":false}`},
		{"which completions have not", "/v1/completions", `{"max_completion_tokens":8}`, `{"max_completion_tokens":8,"stream":false,"max_tokens":1}`},
		{"responses", "/v1/responses", `{"max_output_tokens":9}`, `{"max_output_tokens":1,"stream":false}`},
		{"responses without a limit", "/v1/responses", `{"a":1}`, `{"a":1,"stream":false,"max_output_tokens":1}`},
		{"messages", "/v1/messages", `{"max_tokens":9}`, `{"max_tokens":1,"stream":false}`},
		{"what a client has no say in", chatPath, `{"kv_transfer_params":{},"bootstrap\u005froom":1,"routed_dp_rank":1,"max_tokens":2}`, `{"max_tokens":1,"stream":false}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := body.Parse([]byte(c.body), 512)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, string(b.Edit(oneToken(c.path, &b)...))); d != "" {
				t.Error(d)
			}
		})
	}
}
