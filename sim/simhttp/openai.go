package simhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"smg/sim/simtext"
)

// chat answers POST /v1/chat/completions.
func (s *Server) chat(a *answer, r *http.Request, f *fields) {
	t := s.decodeOpenAI(f, "chatcmpl-", r.Header.Get("X-Request-Id"))
	if read[bool](f, "logprobs") || read[int](f, "top_logprobs") > 0 {
		f.fail("logprobs", "logprobs are not supported by the simulated engine")
	}
	messages := read[[]simtext.Message](f, "messages")
	if f.err == nil && len(messages) == 0 {
		f.fail("messages", "messages: Field required and not empty")
	}
	want := f.limit("max_completion_tokens", "max_tokens", -1)
	if f.err == nil {
		text, err := simtext.FlattenChat(messages, f.raw["tools"])
		if err != nil {
			f.fail("messages", "%v", err)
		}
		t.prompts = []prompt{f.textPrompt(text)}
	}
	if f.err == nil {
		s.readMedia(f, t, messages)
	}
	if !s.accept(a, t, f, want) {
		return
	}
	s.perform(a, t, &openAIFormat{task: t, dialect: &s.dialect, created: s.clock().Unix(), chat: true})
}

// completions answers POST /v1/completions.
func (s *Server) completions(a *answer, r *http.Request, f *fields) {
	t := s.decodeOpenAI(f, "cmpl-", r.Header.Get("X-Request-Id"))
	if f.has("logprobs") {
		f.fail("logprobs", "logprobs are not supported by the simulated engine")
	}
	t.prompts, t.batch = f.prompts("prompt")
	if t.echo && len(t.prompts) > 0 && t.prompts[0].byID {
		f.fail("echo", "echo of token ids is not supported by the simulated engine")
	}
	const defaultLimit = 16
	if !s.accept(a, t, f, f.limit("max_tokens", "", defaultLimit)) {
		return
	}
	s.perform(a, t, &openAIFormat{task: t, dialect: &s.dialect, created: s.clock().Unix()})
}

// limit reads the output limit from name, or from older if that is absent.
func (f *fields) limit(name, older string, otherwise int) int {
	for _, field := range []string{name, older} {
		if !f.has(field) {
			continue
		}
		n := read[int](f, field)
		if n < 1 {
			f.fail(field, "%s must be at least 1, got %d.", field, n)
		}
		return n
	}
	return otherwise
}

// accept answers with the first fault of the request, if it has one.
func (s *Server) accept(a *answer, t *task, f *fields, want int) bool {
	err := f.err
	if err == nil {
		err = s.fit(t, want)
	}
	if err == nil {
		err = s.refuseEncoder(t)
	}
	if err == nil {
		err = s.readTransfer(f, t)
	}
	if err != nil {
		s.writeError(a, err)
		return false
	}
	return true
}

// openAIFormat renders chat and completions.
type openAIFormat struct {
	*task
	dialect *dialect
	created int64
	chat    bool
}

func (o *openAIFormat) head(dst []byte, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, o.id)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, o.created, 10)
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, o.model)
	return append(dst, `,"choices":[`...)
}

// object names the kind of answer.
func (o *openAIFormat) object() string {
	if o.chat {
		return "chat.completion"
	}
	return "text_completion"
}

// chunk names the kind of event.
func (o *openAIFormat) chunk() string {
	if o.chat {
		return "chat.completion.chunk"
	}
	return "text_completion"
}

// why appends the finish reason and what the choice stopped at.
func (o *openAIFormat) why(dst []byte, choice int, p progress) []byte {
	reason, stop := `"abort"`, "null"
	if !p.aborted {
		answer := o.answers[choice]
		reason = `"` + string(answer.Finish) + `"`
		stop = o.dialect.stop(answer)
	}
	return fmt.Appendf(dst, `,"logprobs":null,"finish_reason":%s,"%s":%s}`, reason, o.dialect.stopKey, stop)
}

func (o *openAIFormat) usage(dst []byte, u usage) []byte {
	details := "null"
	if !o.hideCached {
		details = fmt.Sprintf(`{"cached_tokens":%d}`, u.cached)
	}
	return fmt.Appendf(dst, `"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":%s%s}`,
		u.prompt, u.prompt+u.completion, u.completion, details, o.dialect.usageTail)
}

func (o *openAIFormat) whole(t *task, states []progress) []byte {
	dst := o.head(nil, o.object())
	for i, p := range states {
		if i > 0 {
			dst = append(dst, ',')
		}
		text := partial(o.answers[i], p.tokens)
		if o.chat {
			dst = fmt.Appendf(dst, `{"index":%d,"message":{"role":"assistant","content":`, i)
			dst = appendString(dst, text)
			dst = append(dst, o.dialect.message...)
			dst = append(dst, '}')
		} else {
			if o.echo {
				text = o.prompts[i/o.n].text + text
			}
			dst = fmt.Appendf(dst, `{"index":%d,"text":`, i)
			dst = appendString(dst, text)
		}
		dst = o.why(dst, i, p)
	}
	dst = append(dst, "],"...)
	dst = o.usage(dst, t.usageOf(states))
	dst = append(dst, o.dialect.answerTail...)
	if o.dialect.kvParams {
		dst = append(dst, `,"kv_transfer_params":`...)
		if o.kvAnswer == nil {
			dst = append(dst, "null"...)
		}
		dst = append(dst, o.kvAnswer...)
	}
	return append(dst, '}')
}

// failed renders the error of a stream that has begun.
func (o *openAIFormat) failed(dst []byte, e *apiError) []byte {
	raw, err := json.Marshal(o.dialect.streamError(e))
	if err != nil {
		raw = []byte(`{}`) // strings and numbers always encode
	}
	return append(append(append(dst, "data: "...), raw...), "\n\n"...)
}

// partial is the text of the first n tokens.
func partial(a simtext.Answer, n int) string {
	a.Deltas = a.Deltas[:n]
	return a.Text()
}

func (o *openAIFormat) opening(dst []byte, choice int) []byte {
	switch {
	case o.chat:
		dst = o.frame(dst, choice)
		dst = append(dst, `"role":"assistant","content":""`...)
		dst = append(dst, o.dialect.deltaTail...)
		dst = append(dst, '}')
		return o.open(dst)
	case o.echo:
		dst = o.frame(dst, choice)
		dst = appendString(dst, o.prompts[choice/o.n].text)
		return o.open(dst)
	default:
		return dst
	}
}

// frame begins an event up to the text of a choice.
func (o *openAIFormat) frame(dst []byte, choice int) []byte {
	dst = append(dst, "data: "...)
	dst = o.head(dst, o.chunk())
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(choice), 10)
	if o.chat {
		return append(dst, `,"delta":{`...)
	}
	return append(dst, `,"text":`...)
}

// text appends the text of a choice, "" included.
func (o *openAIFormat) text(dst []byte, text string) []byte {
	if !o.chat {
		return appendString(dst, text)
	}
	dst = append(dst, o.dialect.role...)
	dst = append(dst, `"content":`...)
	dst = appendString(dst, text)
	dst = append(dst, o.dialect.deltaTail...)
	return append(dst, '}')
}

// open ends the event of a choice that goes on.
func (o *openAIFormat) open(dst []byte) []byte {
	dst = append(dst, `,"logprobs":null,"finish_reason":null,"`...)
	dst = append(dst, o.dialect.stopKey...)
	dst = append(dst, `":null}`...)
	return o.end(dst)
}

func (o *openAIFormat) end(dst []byte) []byte {
	dst = append(dst, ']')
	dst = append(dst, o.dialect.chunkTail...)
	return append(dst, "}\n\n"...)
}

func (o *openAIFormat) delta(dst []byte, choice int, p progress) []byte {
	return o.open(o.text(o.frame(dst, choice), o.answers[choice].Deltas[p.tokens-1]))
}

func (o *openAIFormat) last(dst []byte, choice int, p progress, merged bool) []byte {
	text := ""
	if merged {
		text = o.answers[choice].Deltas[p.tokens-1]
	}
	return o.end(o.why(o.text(o.frame(dst, choice), text), choice, p))
}

func (o *openAIFormat) closing(dst []byte, states []progress) []byte {
	if !o.wantUsage {
		return dst
	}
	dst = append(dst, "data: "...)
	dst = o.head(dst, o.chunk())
	dst = append(dst, "],"...)
	dst = o.usage(dst, o.usageOf(states))
	return append(dst, "}\n\n"...)
}
