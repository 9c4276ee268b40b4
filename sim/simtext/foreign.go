package simtext

import (
	"encoding/json"
	"errors"
	"fmt"
)

// FromAnthropic is a conversation in the form of Anthropic's messages as one of chats:
// the system prompt comes first, images become image_url parts. Blocks of other types
// stay as they are.
func FromAnthropic(system json.RawMessage, messages []Message) ([]Message, error) {
	var all []Message
	if set(system) {
		all = append(all, Message{Role: "system", Content: system})
	}
	for i, m := range messages {
		content, err := convert(m.Content, anthropicPart)
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		all = append(all, Message{Role: m.Role, Content: content})
	}
	return all, nil
}

// anthropicPart is a block as a part of a chat, nil for one that stays as it is.
func anthropicPart(raw json.RawMessage) (json.RawMessage, error) {
	var b struct {
		Type   string `json:"type"`
		Source struct {
			Type  string `json:"type"`
			Media string `json:"media_type"`
			Data  string `json:"data"`
			URL   string `json:"url"`
		} `json:"source"`
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, fmt.Errorf("not a content block: %w", err)
	}
	switch {
	case b.Type != "image":
		return nil, nil
	case b.Source.Type == "url" && b.Source.URL != "":
		return imagePart(b.Source.URL)
	case b.Source.Type == "base64" && b.Source.Data != "" && b.Source.Media != "":
		return imagePart("data:" + b.Source.Media + ";base64," + b.Source.Data)
	}
	return nil, errors.New("an image needs a source of type base64 or url")
}

func imagePart(url string) (json.RawMessage, error) {
	raw, err := json.Marshal(map[string]any{"type": "image_url", "image_url": map[string]string{"url": url}})
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	return raw, nil
}

// FromResponses is the input of a response as a conversation: a text is the user's,
// items that are no messages are left out.
func FromResponses(instructions string, input json.RawMessage) ([]Message, error) {
	var all []Message
	say := func(role string, content any) error {
		raw, err := json.Marshal(content)
		if err != nil {
			return fmt.Errorf("%s: %w", role, err)
		}
		all = append(all, Message{Role: role, Content: raw})
		return nil
	}
	if instructions != "" {
		if err := say("system", instructions); err != nil {
			return nil, err
		}
	}
	if set(input) && input[0] == '"' {
		return append(all, Message{Role: "user", Content: input}), nil
	}
	var items []struct {
		Message
		Type string `json:"type"`
	}
	if err := json.Unmarshal(input, &items); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	for i, item := range items {
		if item.Type != "" && item.Type != "message" {
			continue
		}
		content, err := convert(item.Content, responsesPart)
		if err != nil {
			return nil, fmt.Errorf("input[%d]: %w", i, err)
		}
		all = append(all, Message{Role: item.Role, Content: content})
	}
	if len(all) == 0 {
		return nil, errors.New("input holds no message")
	}
	return all, nil
}

func responsesPart(raw json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image string `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("not a content part: %w", err)
	}
	switch p.Type {
	case "input_text", "output_text":
		part, err := json.Marshal(map[string]string{"type": "text", "text": p.Text})
		if err != nil {
			return nil, fmt.Errorf("text: %w", err)
		}
		return part, nil
	case "input_image":
		return imagePart(p.Image)
	}
	return nil, nil
}

// convert replaces the parts of a content that one returns another for.
func convert(content json.RawMessage, one func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	if !set(content) || content[0] != '[' {
		return content, nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(content, &parts); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	for k, raw := range parts {
		part, err := one(raw)
		if err != nil {
			return nil, fmt.Errorf("content[%d]: %w", k, err)
		}
		if part != nil {
			parts[k] = part
		}
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	return raw, nil
}
