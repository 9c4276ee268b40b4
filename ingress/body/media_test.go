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
			items, err := MediaChat(&b)
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
		if _, err := MediaChat(&b); !errors.As(err, &e) || e.Kind != KindRule {
			t.Errorf("%s: got %v, want a rule fault", raw, err)
		}
	}
}

// TestMediaMessages sees that an image is the same to an encoder in either API's form.
func TestMediaMessages(t *testing.T) {
	parsed := func(raw string) *Body {
		b, err := Parse([]byte(raw), DefaultMaxDepth)
		if err != nil {
			t.Fatal(err)
		}
		return &b
	}
	const (
		inline = `{"type":"image","source":{"data":"aGk\u003d","type":"base64","media_type":"image\/png"}}`
		linked = `{"type":"image","source":{"type":"url","url":"http://a/1"}}`
	)
	got, err := MediaMessages(parsed(`{"messages":[{"role":"user","content":[{"type":"text","text":"x"},` + inline + `,` + linked + `,
		{"type":"tool_result","content":[` + linked + `]},{"type":"image","source":{"type":"file","file_id":"f"}}]},
		{"role":"assistant","content":[` + linked + `]},{"role":"user","content":"image"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want, err := MediaChat(parsed(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},
		{"type":"image_url","image_url":{"url":"http://a/1"}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("items (-chat +messages):\n%s", diff)
	}
	for _, raw := range []string{
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"aGk="}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url"}}]}]}`,
		`{"messages":[{"role":"user","content":[1]}]}`,
	} {
		var e *Error
		if _, err := MediaMessages(parsed(raw)); !errors.As(err, &e) || e.Kind != KindRule {
			t.Errorf("%s: got %v, want a rule fault", raw, err)
		}
	}
}

func TestMember(t *testing.T) {
	b, err := Parse([]byte(`{"a":1,"\u0062":{"c":2},"b":[3],"a":null}`), DefaultMaxDepth)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "null", "b": "[3]", "c": ""} {
		if got := string(b.Member(name)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
