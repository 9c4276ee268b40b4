package chattemplate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"smg/tokenizer/jinja"
)

// Chat is what a prompt is made of.
type Chat struct {
	// Messages are dicts.
	Messages []jinja.Value
	// Tools and Documents are lists, nil for none.
	Tools, Documents jinja.Value
	// Options are further variables, which count before the special tokens.
	Options *jinja.Dict
	// Answer has the prompt end with what begins the model's answer.
	Answer bool
	// Continue has the prompt end within the last message, for the model to go on with.
	Continue bool
	// Now is the time that templates can ask for.
	Now time.Time
}

// Refusal is a chat that cannot become a prompt, in words for who sent it.
type Refusal struct {
	Message string
	cause   error
}

func (r *Refusal) Error() string { return r.Message }
func (r *Refusal) Unwrap() error { return r.cause }

// continueTag marks where the last message ends.
const continueTag = "CONTINUE_FINAL_MESSAGE_TAG "

// TakesParts reports whether the template goes through the parts of messages; one that
// does not takes what they contain as text.
func (t *Templates) TakesParts(tools bool) bool {
	one, err := t.choose(tools)
	return err == nil && one.LoopsOverContent()
}

// choose is the template for a chat.
func (t *Templates) choose(tools bool) (*template, error) {
	if one, ok := t.named[toolName]; ok && tools {
		return one, nil
	}
	if one, ok := t.named[defaultName]; ok {
		return one, nil
	}
	if len(t.named) == 0 {
		return nil, ErrNone
	}
	return nil, fmt.Errorf("the model has chat templates called %s, but none called %s: choose one with --chat-template",
		strings.Join(slices.Sorted(maps.Keys(t.named)), ", "), defaultName)
}

// Prompt is the text of a chat. The error is a *Refusal where the chat is at fault,
// ErrNone where there is no template, or wraps the context's.
func (t *Templates) Prompt(ctx context.Context, c *Chat) (string, error) {
	one, err := t.choose(c.Tools != nil)
	if err != nil {
		return "", err
	}
	values := make(map[string]jinja.Value, len(t.special)+8)
	maps.Copy(values, t.special)
	if c.Options != nil {
		maps.Insert(values, c.Options.All())
	}
	messages := aliased(c.Messages)
	last := ""
	if c.Continue {
		if messages, last, err = tagged(messages); err != nil {
			return "", err
		}
	}
	values["messages"] = &jinja.List{Items: messages}
	values["tools"], values["documents"] = c.Tools, c.Documents
	values["add_generation_prompt"] = c.Answer
	text, err := one.Render(ctx, jinja.Run{Values: values, Limits: jinja.DefaultLimits(), Now: c.Now})
	switch {
	case err != nil:
		return "", refused(ctx, err)
	case c.Continue:
		return cutAtTag(text, last)
	}
	return text, nil
}

// refused is the error of a template. What it says of itself is for the client; so is
// the rest, since other messages might do.
func refused(ctx context.Context, err error) error {
	var e *jinja.Error
	switch {
	case ctx.Err() != nil:
		return err
	case errors.As(err, &e) && e.Raised:
		return &Refusal{Message: e.Message, cause: err}
	}
	return &Refusal{Message: fmt.Sprintf("the chat does not fit the model's chat template: %v", err), cause: err}
}

// reasoningFields are the names under which a message has what was thought before it.
func reasoningFields() []string { return []string{"reasoning_content", "thinking", "reasoning"} }

// aliased are messages in which what was thought has all names that templates look for.
func aliased(messages []jinja.Value) []jinja.Value {
	out := slices.Clone(messages)
	for i, m := range messages {
		d, ok := m.(*jinja.Dict)
		if !ok {
			continue
		}
		for _, name := range reasoningFields() {
			if v, ok := d.Get(name); ok && v != nil {
				n := &jinja.Dict{}
				n.Set("thinking", v)
				for k, x := range d.All() {
					n.Set(k, x)
				}
				n.Set("reasoning_content", v)
				out[i] = n
				break
			}
		}
	}
	return out
}

// tagged are messages of which the last one ends with a mark, and its text.
func tagged(messages []jinja.Value) ([]jinja.Value, string, error) {
	if len(messages) == 0 {
		return nil, "", &Refusal{Message: "continue_final_message needs a message to continue"}
	}
	d, ok := messages[len(messages)-1].(*jinja.Dict)
	if !ok {
		return nil, "", &Refusal{Message: "continue_final_message: the last message is no object"}
	}
	d = d.Clone()
	messages = append(slices.Clone(messages[:len(messages)-1]), d)
	content, _ := d.Get("content")
	switch v := content.(type) {
	case string:
		d.Set("content", v+continueTag)
		return messages, v, nil
	case *jinja.List:
		parts := slices.Clone(v.Items)
		for i := len(parts) - 1; i >= 0; i-- {
			part, ok := parts[i].(*jinja.Dict)
			if !ok {
				continue
			}
			if text, ok := part.Get("text"); ok {
				s, _ := text.(string)
				part = part.Clone()
				part.Set("text", s+continueTag)
				parts[i] = part
				d.Set("content", &jinja.List{Items: parts})
				return messages, s, nil
			}
		}
	}
	return nil, "", &Refusal{Message: "continue_final_message: the last message has no text to continue"}
}

// cutAtTag is the prompt up to where the last message ends.
func cutAtTag(text, last string) (string, error) {
	bare := strings.TrimSpace(continueTag)
	i := strings.LastIndex(text, bare)
	if i < 0 || !strings.Contains(text, strings.TrimSpace(last)) {
		return "", &Refusal{Message: "continue_final_message: the model's chat template leaves out the last message, or a part of it"}
	}
	if strings.HasPrefix(text[i:], continueTag) {
		return text[:i], nil
	}
	return strings.TrimRightFunc(text[:i], unicode.IsSpace), nil
}
