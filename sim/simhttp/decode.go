package simhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"smg/sim/simtext"
)

// fields reads the members of a JSON object by their exact names; the last of
// several equal names counts. It keeps the first error, so that a decoder reads
// all fields and then looks once.
type fields struct {
	raw    map[string]json.RawMessage
	err    *apiError
	scheme simtext.Scheme // of the engine's tokens
}

func parseFields(body []byte, scheme simtext.Scheme) *fields {
	f := &fields{scheme: scheme}
	if err := json.Unmarshal(body, &f.raw); err != nil || f.raw == nil {
		f.err = badRequest("", "%s", malformed(err))
	}
	return f
}

func malformed(err error) string {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("JSON decode error at byte %d: %v", syntax.Offset, syntax)
	}
	return "The request body must be a JSON object"
}

func (f *fields) fail(param, format string, args ...any) {
	if f.err == nil {
		f.err = badRequest(param, format, args...)
	}
}

// has reports whether name is there and not null.
func (f *fields) has(name string) bool {
	raw, ok := f.raw[name]
	return ok && !bytes.Equal(raw, []byte("null"))
}

// read decodes a member; absent and null leave the zero value.
func read[T any](f *fields, name string) (v T) {
	if !f.has(name) {
		return v
	}
	if err := json.Unmarshal(f.raw[name], &v); err != nil {
		f.fail(name, "%s: %s", name, typeFault(err))
	}
	return v
}

// readOr is read with a value for members that are absent or null.
func readOr[T any](f *fields, name string, otherwise T) T {
	if !f.has(name) {
		return otherwise
	}
	return read[T](f, name)
}

func typeFault(err error) string {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("Input should be a valid %s, not %s", plainType(t.Type.String()), t.Value)
	}
	return err.Error()
}

func plainType(name string) string {
	switch {
	case strings.HasPrefix(name, "[]"):
		return "list"
	case strings.Contains(name, "int"), name == "simtext.Token":
		return "integer"
	case strings.HasPrefix(name, "float"):
		return "number"
	case name == "bool":
		return "boolean"
	case name == "string":
		return "string"
	default:
		return "object"
	}
}

// texts reads a string or a list of strings.
func (f *fields) texts(name string) []string {
	if !f.has(name) {
		return nil
	}
	if f.raw[name][0] == '[' {
		return read[[]string](f, name)
	}
	return []string{read[string](f, name)}
}

// prompt is one input text, or one list of token ids.
type prompt struct {
	text   string
	tokens []simtext.Token
	byID   bool
}

func (f *fields) textPrompt(text string) prompt {
	return prompt{text: text, tokens: f.scheme.Tokenize(text)}
}

// prompts reads what the API calls a prompt: a string, a list of strings, a
// list of token ids, or a list of such lists. It also tells whether it is a
// batch; a batch of one is one too.
func (f *fields) prompts(name string) (list []prompt, batch bool) {
	raw := bytes.TrimSpace(f.raw[name])
	if !f.has(name) || len(raw) == 0 {
		f.fail(name, "%s: Field required", name)
		return nil, false
	}
	if raw[0] == '"' {
		p := f.textPrompt(read[string](f, name))
		f.checkPrompt(name, p)
		return []prompt{p}, false
	}
	items := read[[]json.RawMessage](f, name)
	if f.err != nil {
		return nil, false
	}
	if len(items) == 0 {
		f.fail(name, "%s: an empty list is no prompt", name)
		return nil, false
	}
	switch items[0][0] {
	case '"':
		for _, text := range read[[]string](f, name) {
			list = append(list, f.textPrompt(text))
		}
		batch = true
	case '[':
		for _, ids := range read[[][]simtext.Token](f, name) {
			list = append(list, prompt{tokens: ids, byID: true})
		}
		batch = true
	default:
		list = []prompt{{tokens: read[[]simtext.Token](f, name), byID: true}}
	}
	for _, p := range list {
		f.checkPrompt(name, p)
	}
	return list, batch
}

func (f *fields) checkPrompt(name string, p prompt) {
	if len(p.tokens) == 0 {
		f.fail(name, "%s: The prompt cannot be empty", name)
	}
	for _, t := range p.tokens {
		if t >= simtext.VocabSize {
			f.fail(name, "%s: Token id %d is out of vocabulary", name, t)
			return
		}
	}
}

// checkStrict refuses what lenient engines let pass.
func (f *fields) checkStrict() {
	for _, name := range []string{
		"stream", "echo", "ignore_eos", "skip_special_tokens", "logprobs", "no_stop_trim",
		"include_stop_str_in_output", "use_beam_search", "parallel_tool_calls", "return_logprob",
	} {
		raw, ok := f.raw[name]
		if ok && bytes.Equal(raw, []byte("null")) {
			f.fail(name, "%s: Input should be a valid boolean, not null", name)
		}
	}
	if f.has("stream_options") && !read[bool](f, "stream") {
		f.fail("stream_options", "Stream options can only be defined when `stream=True`.")
	}
}
