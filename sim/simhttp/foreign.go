package simhttp

import (
	"encoding/json"
	"fmt"
	"net/http"

	"smg/sim/simtext"
)

// messages answers POST /v1/messages, the API of Anthropic, which both engines serve
// as a chat.
func (s *Server) messages(a *answer, r *http.Request, f *fields) {
	t := s.decodeOpenAI(f, "chatcmpl-", r.Header.Get("X-Request-Id"))
	t.n, t.echo = 1, false
	t.sampling.Stop = f.texts("stop_sequences")
	if !f.has("max_tokens") {
		f.fail("max_tokens", "max_tokens: Field required")
	}
	said := read[[]simtext.Message](f, "messages")
	if f.err == nil && len(said) == 0 {
		f.fail("messages", "messages: Field required and not empty")
	}
	if f.err == nil {
		chat, err := simtext.FromAnthropic(f.raw["system"], said)
		s.converse(f, t, chat, err)
	}
	if !s.accept(a, t, f, f.limit("max_tokens", "", -1)) {
		return
	}
	s.perform(a, t, &messagesFormat{task: t, kvParams: s.dialect.kvParams})
}

// responses answers POST /v1/responses. Nothing is kept of it.
func (s *Server) responses(a *answer, r *http.Request, f *fields) {
	t := s.decodeOpenAI(f, "resp_", r.Header.Get("X-Request-Id"))
	t.n, t.echo = 1, false
	if !f.has("input") {
		f.fail("input", "input: Field required")
	}
	if f.err == nil {
		chat, err := simtext.FromResponses(read[string](f, "instructions"), f.raw["input"])
		s.converse(f, t, chat, err)
	}
	if !s.accept(a, t, f, f.limit("max_output_tokens", "", -1)) {
		return
	}
	s.perform(a, t, &responsesFormat{task: t, dialect: &s.dialect, created: s.clock().Unix()})
}

// converse makes a conversation, or why there is none, the prompt of t.
func (s *Server) converse(f *fields, t *task, chat []simtext.Message, err error) {
	var text string
	if err == nil {
		text, err = simtext.FlattenChat(chat, f.raw["tools"])
	}
	if err != nil {
		f.fail("messages", "%v", err)
		return
	}
	t.prompts = []prompt{f.textPrompt(text)}
	s.readMedia(f, t, chat)
}

// event appends an event of a type, which its data repeat.
func event(dst []byte, kind string, fields map[string]any) []byte {
	fields["type"] = kind
	raw, err := json.Marshal(fields)
	if err != nil {
		raw = []byte(`{}`) // strings, numbers and valid raw JSON always encode
	}
	return fmt.Appendf(dst, "event: %s\ndata: %s\n\n", kind, raw)
}

// encoded is v as JSON.
func encoded(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return []byte(`{}`) // strings, numbers and valid raw JSON always encode
	}
	return raw
}

// messagesFormat renders answers in the form of Anthropic.
type messagesFormat struct {
	*task
	kvParams bool
}

func (m *messagesFormat) stopReason(p progress) string {
	switch a := m.answers[0]; {
	case !p.done:
		return ""
	case a.Finish == simtext.FinishLength:
		return "max_tokens"
	case a.StopString != "":
		return "stop_sequence"
	}
	return "end_turn"
}

func (m *messagesFormat) usage(states []progress) map[string]any {
	u := m.usageOf(states)
	return map[string]any{"input_tokens": u.prompt, "output_tokens": u.completion, "cache_read_input_tokens": u.cached}
}

func (m *messagesFormat) message(content []any, states []progress) map[string]any {
	out := map[string]any{
		"id": m.id, "type": "message", "role": "assistant", "model": m.model, "content": content,
		"stop_reason": nil, "stop_sequence": nil, "usage": m.usage(states),
	}
	if reason := m.stopReason(states[0]); reason != "" {
		out["stop_reason"] = reason
	}
	if stop := m.answers[0].StopString; stop != "" && states[0].done {
		out["stop_sequence"] = stop
	}
	return out
}

func (m *messagesFormat) whole(_ *task, states []progress) []byte {
	out := m.message([]any{map[string]any{"type": "text", "text": partial(m.answers[0], states[0].tokens)}}, states)
	if m.kvParams {
		out["kv_transfer_params"] = json.RawMessage(nil)
		if m.kvAnswer != nil {
			out["kv_transfer_params"] = json.RawMessage(m.kvAnswer)
		}
	}
	return encoded(out)
}

func (m *messagesFormat) opening(dst []byte, _ int) []byte {
	dst = event(dst, "message_start", map[string]any{"message": m.message([]any{}, []progress{{}})})
	return event(dst, "content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
}

func (m *messagesFormat) delta(dst []byte, _ int, p progress) []byte {
	return event(dst, "content_block_delta", map[string]any{
		"index": 0, "delta": map[string]any{"type": "text_delta", "text": m.answers[0].Deltas[p.tokens-1]},
	})
}

func (m *messagesFormat) last(dst []byte, choice int, p progress, merged bool) []byte {
	if merged {
		dst = m.delta(dst, choice, p)
	}
	dst = event(dst, "content_block_stop", map[string]any{"index": 0})
	dst = event(dst, "message_delta", map[string]any{"delta": map[string]any{"stop_reason": m.stopReason(p)}, "usage": m.usage([]progress{p})})
	return event(dst, "message_stop", map[string]any{})
}

func (m *messagesFormat) failed(dst []byte, e *apiError) []byte {
	return event(dst, "error", map[string]any{"error": map[string]any{"type": e.kind(), "message": e.message}})
}

func (m *messagesFormat) closing(dst []byte, _ []progress) []byte { return dst }

// responsesFormat renders OpenAI's responses.
type responsesFormat struct {
	*task
	dialect *dialect
	created int64
}

func (o *responsesFormat) response(states []progress) map[string]any {
	status, text := "in_progress", ""
	if p := states[0]; p.done {
		status, text = "completed", partial(o.answers[0], p.tokens)
		if o.answers[0].Finish == simtext.FinishLength {
			status = "incomplete"
		}
	}
	u := o.usageOf(states)
	return map[string]any{
		"id": o.id, "object": "response", "created_at": o.created, "status": status, "model": o.model,
		"output": []any{map[string]any{
			"id": "msg_" + o.id, "type": "message", "role": "assistant", "status": status,
			"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}},
		}},
		"usage": map[string]any{
			"input_tokens": u.prompt, "output_tokens": u.completion, "total_tokens": u.prompt + u.completion,
			"input_tokens_details": map[string]any{"cached_tokens": u.cached},
		},
	}
}

func (o *responsesFormat) whole(_ *task, states []progress) []byte {
	out := o.response(states)
	if o.dialect.kvParams {
		out["kv_transfer_params"] = json.RawMessage(nil)
		if o.kvAnswer != nil {
			out["kv_transfer_params"] = json.RawMessage(o.kvAnswer)
		}
	}
	return encoded(out)
}

func (o *responsesFormat) opening(dst []byte, _ int) []byte {
	return event(dst, "response.created", map[string]any{"response": o.response([]progress{{}})})
}

func (o *responsesFormat) delta(dst []byte, _ int, p progress) []byte {
	return event(dst, "response.output_text.delta", map[string]any{
		"item_id": "msg_" + o.id, "output_index": 0, "content_index": 0, "delta": o.answers[0].Deltas[p.tokens-1],
	})
}

func (o *responsesFormat) last(dst []byte, choice int, p progress, merged bool) []byte {
	if merged {
		dst = o.delta(dst, choice, p)
	}
	return event(dst, "response.completed", map[string]any{"response": o.response([]progress{p})})
}

func (o *responsesFormat) failed(dst []byte, e *apiError) []byte {
	return fmt.Appendf(dst, "data: %s\n\n", encoded(o.dialect.streamError(e)))
}

func (o *responsesFormat) closing(dst []byte, _ []progress) []byte { return dst }
