package prepare

import "smg/tokenizer/jinja"

// refuse finds what a body asks for that engines over gRPC cannot do. What asks for
// nothing (null, false, an empty list) is let through.
func refuse(rt Route, f *fields) error {
	if rt == Chat {
		if err := refuseTools(f); err != nil {
			return err
		}
	}
	for _, name := range []string{
		"best_of", "use_beam_search", "suffix", "bad_words", "logits_processors", "custom_logit_processor", "lora_path", "lora_id", "session_params",
		"input_embeds", "prompt_embeds", "return_hidden_states", "prompt_logprobs", "separate_reasoning", "audio", "stop_regex", "chat_template", "allowed_token_ids",
		"vllm_xargs", "kv_transfer_params", "custom_params",
	} {
		v := f.get(name)
		if name == "best_of" && v == int64(1) || name == "prompt_logprobs" && v == int64(0) {
			continue
		}
		if asks(v) {
			return unsupported("%s", name)
		}
	}
	for _, name := range []string{"image_data", "video_data", "audio_data"} {
		if asks(f.get(name)) {
			return media(name)
		}
	}
	if l, ok := f.get("modalities").(*jinja.List); ok {
		for _, v := range l.Items {
			if v != "text" {
				return media("modalities")
			}
		}
	}
	return nil
}

func media(what string) *Fault {
	return &Fault{CodeMedia, what + ": engines over gRPC take text only, serve the model with --connection-mode http"}
}

// asks reports whether a value asks for something.
func asks(v jinja.Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case *jinja.List:
		return len(v.Items) > 0
	case *jinja.Dict:
		return v.Len() > 0
	}
	return true
}

// refuseTools refuses tools that the model is to call. Those of messages that lie behind
// are a part of the prompt.
func refuseTools(f *fields) error {
	choice := f.get("tool_choice")
	if choice == "none" {
		f.get("tools")
		f.get("functions")
		f.get("parallel_tool_calls")
		return nil // the model is not to call any
	}
	for _, name := range []string{"tools", "functions", "function_call"} {
		if v := f.get(name); asks(v) && v != "none" {
			return unsupported("%s", name)
		}
	}
	f.get("parallel_tool_calls") // of no tools
	if choice != nil && choice != "auto" {
		return unsupported("tool_choice")
	}
	return nil
}
