package simhttp_test

import (
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

// TestEndsOfStreams: how a stream may be closed, or fail.
func TestEndsOfStreams(t *testing.T) {
	const mark = "data: [DONE]"
	two, none := 2, 0
	for _, tt := range []struct {
		name  string
		fault simctl.StreamFault
		path  string
		want  func(string) bool
	}{
		{"none", simctl.StreamFault{Done: simctl.DoneNever}, "/generate", func(s string) bool { return !strings.Contains(s, mark) }},
		{"crlf", simctl.StreamFault{Done: simctl.DoneCRLF}, "/generate", func(s string) bool { return strings.HasSuffix(s, "\n\n"+mark+"\r\n\r\n") }},
		{"split", simctl.StreamFault{Done: simctl.DoneSplit}, "/generate", func(s string) bool { return strings.HasSuffix(s, "\n\n"+mark+"\n\n") }},
		{"quoted", simctl.StreamFault{Done: simctl.DoneQuoted}, "/generate", func(s string) bool {
			return strings.HasSuffix(s, mark+`\r\n\r\n"}`+"\n\n: "+mark+"\n\n"+mark+"\n\n")
		}},
		{"generate fails", simctl.StreamFault{FailAfter: &two}, "/generate", func(s string) bool {
			return strings.Count(s, `"finish_reason":null`) == 2 && strings.HasSuffix(s, `"status_code":500,"err_type":"InternalServerError"}}}`+"\n\n"+mark+"\n\n")
		}},
		{"completions fail", simctl.StreamFault{FailAfter: &none}, "/v1/completions", func(s string) bool {
			return strings.HasPrefix(s, `data: {"error":{`) && strings.Count(s, "data: ") == 2
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := simtest.Start(t, simtest.Config())
			if err := e.SetRules(t.Context(), simctl.Rule{Stream: &tt.fault}); err != nil {
				t.Fatal(err)
			}
			status, got := callerOf(t, e).post(tt.path, `{"text":"a","prompt":"a","stream":true}`)
			if status != 200 || !tt.want(got) {
				t.Errorf("status %d: %q", status, got)
			}
			atRest(t, e)
		})
	}
	t.Run("backwards", func(t *testing.T) {
		e := simtest.Start(t, simtest.Config())
		if err := e.SetRules(t.Context(), simctl.Rule{Stream: &simctl.StreamFault{Backwards: true}}); err != nil {
			t.Fatal(err)
		}
		_, got := callerOf(t, e).post("/generate", `{"text":["a","b"],"stream":true,"sampling_params":{"max_new_tokens":1}}`)
		if b, a := strings.Index(got, `"index":1`), strings.Index(got, `"index":0`); b < 0 || a < b {
			t.Errorf("%q", got)
		}
	})
	t.Run("hidden", func(t *testing.T) {
		cfg := simtest.Config()
		cfg.HideCached = true
		_, got := callerOf(t, simtest.Start(t, cfg)).post("/v1/completions", `{"prompt":"a"}`)
		if !strings.Contains(got, `"prompt_tokens_details":null`) {
			t.Errorf("%s", got)
		}
	})
}
