package body

import "encoding/json"

// MediaMessages lists the images of a body in Anthropic's form: the blocks of the user's
// messages, and none inside the results of tools. Each is the part of a chat that
// engines turn it into, so that both forms of an image are the same to an encoder.
func MediaMessages(b *Body) ([]Item, error) { return b.items([]string{"user"}, blockItem) }

// blockItem is the image of a block, if it is one.
func blockItem(raw json.RawMessage) (Item, bool, error) {
	var p struct {
		Type   string `json:"type"`
		Source struct {
			Type      string `json:"type"`
			MediaType string `json:"media_type"`
			Data      string `json:"data"`
			URL       string `json:"url"`
		} `json:"source"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return Item{}, false, mediaError("a block of a message cannot be read: " + err.Error())
	}
	if p.Type != "image" {
		return Item{}, false, nil
	}
	var url string
	switch p.Source.Type {
	case "base64":
		if p.Source.Data == "" || p.Source.MediaType == "" {
			return Item{}, false, mediaError("an image of type base64 needs media_type and data")
		}
		url = "data:" + p.Source.MediaType + ";base64," + p.Source.Data
	case "url":
		if url = p.Source.URL; url == "" {
			return Item{}, false, mediaError("an image of type url has no URL")
		}
	default:
		return Item{}, false, nil // the engine knows what it is
	}
	part := AppendString([]byte(`{"type":"image_url","image_url":{"url":`), url)
	return Item{Part: append(part, "}}"...), Kind: "image", Hash: contentHash("image_url", url)}, true, nil
}
