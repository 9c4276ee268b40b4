package simtext

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Media is one image, video or sound in a message.
type Media struct {
	// Type is the type of the content part.
	Type string
	// URL is where the medium is, or a data: URL that holds it. The data of an
	// input_audio part is put into this form.
	URL string
}

// Hash names the content: SHA-256 over the type, a zero byte and the URL, in
// hexadecimal. Equal content in differently written JSON has the same hash.
func (m Media) Hash() string {
	sum := sha256.Sum256([]byte(m.Type + "\x00" + m.URL))
	return hex.EncodeToString(sum[:])
}

// Kind is image, video or audio.
func (m Media) Kind() string {
	kind, _ := kindOf(m.Type)
	return kind
}

// kindOf tells which media types a content part may hold.
func kindOf(partType string) (kind string, ok bool) {
	switch partType {
	case "image_url":
		return "image", true
	case "video_url":
		return "video", true
	case "audio_url", "input_audio":
		return "audio", true
	}
	return "", false
}

// Check reports why an engine could not read the medium: a URL that is none,
// data of another type, or more than limit bytes of it. Nothing is fetched.
func (m Media) Check(limit int) error {
	data, ok := strings.CutPrefix(m.URL, "data:")
	if !ok {
		u, err := url.Parse(m.URL)
		switch {
		case err != nil:
			return fmt.Errorf("the URL cannot be read: %w", err)
		case u.Scheme != "http" && u.Scheme != "https":
			return errors.New("the URL must be either a HTTP or data URL")
		case u.Host == "":
			return errors.New("the URL names no host")
		}
		return nil
	}
	head, payload, ok := strings.Cut(data, ",")
	if !ok {
		return errors.New("the data URL holds no data")
	}
	mime, isBase64 := strings.CutSuffix(head, ";base64")
	if !isBase64 {
		return errors.New("only base64 data URLs are supported")
	}
	if kind, _ := kindOf(m.Type); !strings.HasPrefix(mime, kind+"/") {
		return fmt.Errorf("%s holds data of the type %q", m.Type, mime)
	}
	if len(payload) == 0 {
		return errors.New("the data URL is empty")
	}
	if base64.StdEncoding.DecodedLen(len(payload)) > limit+2 {
		return fmt.Errorf("the data is larger than %d bytes", limit)
	}
	if _, err := base64.StdEncoding.DecodeString(payload); err != nil {
		return fmt.Errorf("the data is no base64: %w", err)
	}
	return nil
}

// MediaOf returns the media of a conversation, in order.
func MediaOf(messages []Message) ([]Media, error) {
	var all []Media
	for i, m := range messages {
		if !set(m.Content) || m.Content[0] != '[' {
			continue
		}
		var parts []json.RawMessage
		if err := json.Unmarshal(m.Content, &parts); err != nil {
			return nil, fmt.Errorf("messages[%d]: content: %w", i, err)
		}
		for k, raw := range parts {
			media, ok, err := mediaPart(raw)
			if err != nil {
				return nil, fmt.Errorf("messages[%d]: content[%d]: %w", i, k, err)
			}
			if ok {
				all = append(all, media)
			}
		}
	}
	return all, nil
}

// mediaPart reads a content part. It reports false for one of another kind.
func mediaPart(raw json.RawMessage) (Media, bool, error) {
	var part struct {
		Type       string          `json:"type"`
		ImageURL   json.RawMessage `json:"image_url"`
		VideoURL   json.RawMessage `json:"video_url"`
		AudioURL   json.RawMessage `json:"audio_url"`
		InputAudio struct {
			Data   string `json:"data"`
			Format string `json:"format"`
		} `json:"input_audio"`
	}
	if err := json.Unmarshal(raw, &part); err != nil {
		return Media{}, false, fmt.Errorf("not a content part: %w", err)
	}
	if _, ok := kindOf(part.Type); !ok {
		return Media{}, false, nil
	}
	m := Media{Type: part.Type}
	if part.Type == "input_audio" {
		if part.InputAudio.Data == "" || part.InputAudio.Format == "" {
			return m, false, errors.New("input_audio needs data and format")
		}
		m.URL = "data:audio/" + part.InputAudio.Format + ";base64," + part.InputAudio.Data
		return m, true, nil
	}
	where := map[string]json.RawMessage{"image_url": part.ImageURL, "video_url": part.VideoURL, "audio_url": part.AudioURL}[part.Type]
	// Both {"url": …} and the bare URL are in use.
	var nested struct {
		URL string `json:"url"`
	}
	if bytes.HasPrefix(where, []byte(`"`)) {
		if err := json.Unmarshal(where, &m.URL); err != nil {
			return m, false, fmt.Errorf("%s: %w", part.Type, err)
		}
	} else if len(where) > 0 {
		if err := json.Unmarshal(where, &nested); err != nil {
			return m, false, fmt.Errorf("%s: %w", part.Type, err)
		}
		m.URL = nested.URL
	}
	if m.URL == "" {
		return m, false, fmt.Errorf("%s needs a url", part.Type)
	}
	return m, true, nil
}
