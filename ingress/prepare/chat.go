package prepare

import (
	"context"
	"errors"
	"strings"
	"time"

	"smg/tokenizer/chattemplate"
	"smg/tokenizer/jinja"
	"smg/tokens"
)

// chat makes the prompt of a chat and encodes it.
func (r *Request) chat(ctx context.Context, f *fields, m *tokens.Model, now time.Time) error {
	if m.Chat == nil {
		return invalid("the model has no chat template: give one with --chat-template, or send the prompt to /v1/completions")
	}
	list, _ := f.get("messages").(*jinja.List)
	if list == nil {
		return invalid("messages must be a list")
	}
	c := &chattemplate.Chat{Now: now}
	parts := m.Chat.TakesParts(false)
	for i, v := range list.Items {
		message, err := messageOf(i, v, parts)
		if err != nil {
			return err
		}
		c.Messages = append(c.Messages, message)
	}
	r.chatOptions(f, c)
	special := f.boolean("add_special_tokens", false) // the template has them
	keep := r.truncation(f, m)
	w := openAILogprobs(f, Chat, false)
	if f.fault != nil {
		return f.fault
	}
	text, err := m.Chat.Prompt(ctx, c)
	var refusal *chattemplate.Refusal
	switch {
	case errors.As(err, &refusal):
		return invalid("%s", refusal.Message)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return invalid("%v", err)
	}
	p := Prompt{Text: text, Logprobs: w}
	if text != "" {
		if p.Tokens, err = encode(m, text, special); err != nil {
			return err
		}
	}
	if keep > 0 && len(p.Tokens) > keep {
		p.Tokens, p.Text = p.Tokens[len(p.Tokens)-keep:], ""
	}
	r.Prompts = []Prompt{p}
	return nil
}

// chatOptions reads what templates are told beside the messages.
func (r *Request) chatOptions(f *fields, c *chattemplate.Chat) {
	options := f.object("chat_template_kwargs")
	f.take(options)
	c.Options = options.dict.Clone()
	if effort := f.get("reasoning_effort"); effort != nil {
		if _, said := c.Options.Get("reasoning_effort"); !said {
			c.Options.Set("reasoning_effort", effort)
		}
	}
	c.Documents = f.get("documents")
	flag := func(name string, otherwise bool) bool {
		v := f.boolean(name, otherwise)
		if o, said := options.dict.Get(name); said {
			v, _ = o.(bool)
			c.Options.Delete(name)
		}
		return v
	}
	c.Continue = flag("continue_final_message", false)
	c.Answer = flag("add_generation_prompt", !c.Continue)
	if c.Continue && c.Answer {
		f.fail("continue_final_message and add_generation_prompt cannot both be true")
	}
	for _, name := range []string{"messages", "tools", "documents"} {
		c.Options.Delete(name) // they have a place of their own
	}
}

// messageOf is a message as templates take it: its parts as one text, or with parts as
// a list of texts, and the arguments of tool calls as values.
func messageOf(i int, v jinja.Value, parts bool) (jinja.Value, error) {
	d, ok := v.(*jinja.Dict)
	if !ok {
		return nil, invalid("messages[%d] must be an object", i)
	}
	if role, _ := d.Get("role"); asks(role) {
		if _, ok := role.(string); !ok {
			return nil, invalid("messages[%d].role must be a string", i)
		}
	} else {
		return nil, invalid("messages[%d] needs a role", i)
	}
	d = d.Clone()
	content, _ := d.Get("content")
	switch c := content.(type) {
	case nil:
		d.Set("content", "")
	case string:
	case *jinja.List:
		texts, err := textsOf(i, c)
		if err != nil {
			return nil, err
		}
		if !parts {
			d.Set("content", strings.Join(texts, "\n"))
			break
		}
		list := &jinja.List{}
		for _, text := range texts {
			part := &jinja.Dict{}
			part.Set("type", "text")
			part.Set("text", text)
			list.Items = append(list.Items, part)
		}
		d.Set("content", list)
	default:
		return nil, invalid("messages[%d].content must be a string or a list of parts", i)
	}
	if calls, ok := d.Get("tool_calls"); ok {
		if !asks(calls) {
			d.Delete("tool_calls")
			return d, nil
		}
		parsed, err := callsOf(i, calls)
		if err != nil {
			return nil, err
		}
		d.Set("tool_calls", parsed)
	}
	return d, nil
}

// textsOf are the texts of a message's parts.
func textsOf(i int, parts *jinja.List) ([]string, error) {
	texts := make([]string, 0, len(parts.Items))
	for k, v := range parts.Items {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
			continue
		}
		d, ok := v.(*jinja.Dict)
		if !ok {
			return nil, invalid("messages[%d].content[%d] must be an object", i, k)
		}
		kind, _ := d.Get("type")
		key := "text"
		switch kind {
		case "text", "input_text", "output_text":
		case "refusal", "thinking":
			key, _ = kind.(string)
		case nil:
			if _, ok := d.Get("text"); !ok {
				return nil, invalid("messages[%d].content[%d] needs a type", i, k)
			}
		default:
			name, _ := kind.(string)
			return nil, media("messages with parts of type " + name)
		}
		text, _ := d.Get(key)
		s, ok := text.(string)
		if !ok {
			return nil, invalid("messages[%d].content[%d].%s must be a string", i, k, key)
		}
		texts = append(texts, s)
	}
	return texts, nil
}

// callsOf are the tool calls of a message, with their arguments as values: clients send
// them as JSON in a string, templates want what is in it.
func callsOf(i int, v jinja.Value) (jinja.Value, error) {
	list, ok := v.(*jinja.List)
	if !ok {
		return nil, invalid("messages[%d].tool_calls must be a list", i)
	}
	out := &jinja.List{}
	for k, v := range list.Items {
		call, ok := v.(*jinja.Dict)
		if !ok {
			return nil, invalid("messages[%d].tool_calls[%d] must be an object", i, k)
		}
		if function, ok := call.Get("function"); ok {
			if fn, ok := function.(*jinja.Dict); ok {
				fn = fn.Clone()
				if err := parseArguments(fn); err != nil {
					return nil, invalid("messages[%d].tool_calls[%d].function.arguments: %v", i, k, err)
				}
				call = call.Clone()
				call.Set("function", fn)
			}
		}
		out.Items = append(out.Items, call)
	}
	return out, nil
}

func parseArguments(fn *jinja.Dict) error {
	v, ok := fn.Get("arguments")
	if !ok {
		return nil
	}
	text, ok := v.(string)
	switch {
	case v == nil || ok && strings.TrimSpace(text) == "":
		fn.Set("arguments", &jinja.Dict{})
	case ok:
		parsed, err := jinja.FromJSON([]byte(text))
		if err != nil {
			return err
		}
		fn.Set("arguments", parsed)
	}
	return nil
}
