package body

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Media lists the media of a body in their order. A body without any costs a look at
// its messages.
type Media func(*Body) ([]Item, error)

var (
	_ Media = MediaChat
	_ Media = MediaMessages
)

// Item is one image, video or sound.
type Item struct {
	Part []byte // JSON text: the part of a chat that it is
	Kind string // image, video or audio
	// Hash names the content: SHA-256 of type, a zero byte, and URL or data URL, in
	// lower-case hex. It does not depend on how the JSON is written.
	Hash string
}

// mediaRoles are the messages whose media count: what an assistant said has been
// seen before.
var mediaRoles = []string{"user", "system", "developer", "tool"}

// MediaChat lists the media of a chat.
func MediaChat(b *Body) ([]Item, error) { return b.items(mediaRoles, itemOf) }

// items lists the media of messages that have one of these roles.
func (b *Body) items(roles []string, one func(json.RawMessage) (Item, bool, error)) ([]Item, error) {
	if b.Field(KeyMessages).Type != TypeArray {
		return nil, nil
	}
	var messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(b.Value(KeyMessages), &messages); err != nil {
		return nil, mediaError("`messages` is no list of messages: " + err.Error())
	}
	var items []Item
	for _, m := range messages {
		if !slices.Contains(roles, m.Role) || len(m.Content) == 0 || m.Content[0] != '[' {
			continue
		}
		var parts []json.RawMessage
		if err := json.Unmarshal(m.Content, &parts); err != nil {
			return nil, mediaError("the content of a message is no list of parts: " + err.Error())
		}
		for _, p := range parts {
			item, ok, err := one(p)
			if err != nil {
				return nil, err
			}
			if ok {
				items = append(items, item)
			}
		}
	}
	return items, nil
}

type mediaURL struct {
	URL string `json:"url"`
}

// itemOf is the medium of a part, if it is one.
func itemOf(raw json.RawMessage) (Item, bool, error) {
	var p struct {
		Type     string    `json:"type"`
		ImageURL *mediaURL `json:"image_url"`
		VideoURL *mediaURL `json:"video_url"`
		AudioURL *mediaURL `json:"audio_url"`
		Audio    *struct {
			Data   string `json:"data"`
			Format string `json:"format"`
		} `json:"input_audio"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return Item{}, false, mediaError("a part of a message cannot be read: " + err.Error())
	}
	var content, kind string
	var from *mediaURL
	switch p.Type {
	case "image_url":
		kind, from = "image", p.ImageURL
	case "video_url":
		kind, from = "video", p.VideoURL
	case "audio_url":
		kind, from = "audio", p.AudioURL
	case "input_audio":
		if p.Audio == nil {
			return Item{}, false, mediaError("a part of type input_audio has no input_audio")
		}
		kind, content = "audio", "data:audio/"+p.Audio.Format+";base64,"+p.Audio.Data
	default:
		return Item{}, false, nil
	}
	if from != nil {
		content = from.URL
	}
	if content == "" {
		return Item{}, false, mediaError(fmt.Sprintf("a part of type %s has no URL", p.Type))
	}
	return Item{Part: raw, Kind: kind, Hash: contentHash(p.Type, content)}, true, nil
}

func contentHash(kind, url string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + url))
	return hex.EncodeToString(sum[:])
}

func mediaError(msg string) *Error { return &Error{Kind: KindRule, Key: "messages", Msg: msg} }
