package simhttp

import (
	"encoding/json"

	"smg/sim/simtext"
)

// checkStray refuses what is not for this engine: real ones leave such members alone,
// so that nobody notices who sent them here.
func (s *Server) checkStray(f *fields) {
	names := []string{"data_parallel_rank", "routed_dp_rank", "disagg_prefill_dp_rank"} // there is one rank
	if s.cfg.Kind == VLLM || s.cfg.Disagg.Mode == Unified {
		names = append(names, "bootstrap_host", "bootstrap_port", "bootstrap_room")
	}
	if s.cfg.Kind == SGLang {
		names = append(names, "kv_transfer_params")
	}
	for _, name := range names {
		if _, ok := f.raw[name]; ok {
			f.fail(name, "%s: this engine has no such part", name)
		}
	}
}

// checkPrimer refuses what an encoder would read for nothing: it is to be asked for one
// medium at a time, and for nothing else.
func (s *Server) checkPrimer(f *fields, messages []simtext.Message) {
	for _, name := range []string{"tools", "tool_choice", "response_format", "stop", "logprobs", "stream_options"} {
		if f.has(name) {
			f.fail(name, "%s: this engine encodes media", name)
		}
	}
	var parts []json.RawMessage
	if len(messages) == 1 && len(messages[0].Content) > 0 && messages[0].Content[0] == '[' {
		if err := json.Unmarshal(messages[0].Content, &parts); err != nil {
			f.fail("messages", "messages[0]: content: %v", err)
		}
	}
	if len(parts) != 1 {
		f.fail("messages", "this engine encodes media: ask for one of them at a time, without text")
	}
}
