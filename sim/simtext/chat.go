package simtext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"
)

// Message is one chat message as it comes over the wire. Content is absent,
// null, a string, or a list of parts.
type Message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// FlattenChat turns a conversation into the prompt that the engine computes:
//
//	<|tools|>\n{the tools as compact JSON}\n      only if there are tools
//	<|role|>\n{content}\n                         for each message
//	<|assistant|>\n
//
// Text parts are joined by newlines. Media become the marker <|media|> and the
// first 16 digits of Media.Hash; any other part the marker and a hash of its
// JSON. Tool calls follow the content as compact
// JSON on a line of their own.
func FlattenChat(messages []Message, tools json.RawMessage) (string, error) {
	var b strings.Builder
	if set(tools) {
		b.WriteString("<|tools|>\n")
		compact(&b, tools)
		b.WriteByte('\n')
	}
	for i, m := range messages {
		if m.Role == "" {
			return "", fmt.Errorf("messages[%d]: role is missing", i)
		}
		fmt.Fprintf(&b, "<|%s|>\n", m.Role)
		content, err := flattenContent(m.Content)
		if err != nil {
			return "", fmt.Errorf("messages[%d]: %w", i, err)
		}
		b.WriteString(content)
		b.WriteByte('\n')
		if set(m.ToolCalls) {
			compact(&b, m.ToolCalls)
			b.WriteByte('\n')
		}
	}
	b.WriteString("<|assistant|>\n")
	return b.String(), nil
}

func set(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) && !bytes.Equal(raw, []byte("[]"))
}

// compact writes raw without insignificant space. raw has been parsed before,
// so it is valid.
func compact(b *strings.Builder, raw json.RawMessage) {
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		b.Write(raw)
		return
	}
	b.Write(buf.Bytes())
}

func flattenContent(raw json.RawMessage) (string, error) {
	if !set(raw) {
		return "", nil
	}
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", fmt.Errorf("content: %w", err)
		}
		return s, nil
	case '[':
		var parts []json.RawMessage
		if err := json.Unmarshal(raw, &parts); err != nil {
			return "", fmt.Errorf("content: %w", err)
		}
		texts := make([]string, len(parts))
		for i, p := range parts {
			text, err := flattenPart(p)
			if err != nil {
				return "", fmt.Errorf("content[%d]: %w", i, err)
			}
			texts[i] = text
		}
		return strings.Join(texts, "\n"), nil
	default:
		return "", fmt.Errorf("content must be a string or a list of parts")
	}
}

func flattenPart(raw json.RawMessage) (string, error) {
	var part struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(raw, &part); err != nil {
		return "", fmt.Errorf("not a content part: %w", err)
	}
	if part.Type == "" {
		return "", fmt.Errorf("type is missing")
	}
	if part.Type == "text" {
		if part.Text == nil {
			return "", fmt.Errorf("text is missing")
		}
		return *part.Text, nil
	}
	media, ok, err := mediaPart(raw)
	if err != nil {
		return "", err
	}
	if ok {
		return "<|media|>" + media.Hash()[:16], nil
	}
	var b strings.Builder
	compact(&b, raw)
	return fmt.Sprintf("<|media|>%016x", xxh3.HashString(b.String())), nil
}
