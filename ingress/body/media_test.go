package body

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedia(t *testing.T) {
	hash := func(kind, content string) string {
		sum := sha256.Sum256([]byte(kind + "\x00" + content))
		return hex.EncodeToString(sum[:])
	}
	tests := []struct {
		name string
		body string
		want []string
	}{
		{"text alone", `{"messages":[{"role":"user","content":"image_url"}]}`, nil},
		{"no messages", `{"prompt":"a"}`, nil},
		{
			"all kinds, in order",
			`{"messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"http:\/\/a"}}]},
			 {"role":"user","content":[{"type":"text","text":"x"},{"type":"video_url","video_url":{"url":"v"}},{"type":"audio_url","audio_url":{"url":"s"}},
			 {"type":"input_audio","input_audio":{"data":"QQ==","format":"wav"}}]}]}`,
			[]string{hash("image_url", "http://a"), hash("video_url", "v"), hash("audio_url", "s"), hash("input_audio", "data:audio/wav;base64,QQ==")},
		},
		{"an assistant's do not count", `{"messages":[{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"a"}}]}]}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Parse([]byte(tt.body), DefaultMaxDepth)
			if err != nil {
				t.Fatal(err)
			}
			items, err := b.Media()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range items {
				got = append(got, i.Hash)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("hashes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMediaRefuses(t *testing.T) {
	for _, raw := range []string{
		`{"messages":[1]}`,
		`{"messages":[{"role":"user","content":[1]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`,
	} {
		b, err := Parse([]byte(raw), DefaultMaxDepth)
		if err != nil {
			t.Fatal(err)
		}
		var e *Error
		if _, err := b.Media(); !errors.As(err, &e) || e.Kind != KindRule {
			t.Errorf("%s: got %v, want a rule fault", raw, err)
		}
	}
}
