package tokenizer

import (
	"strings"
	"testing"
	"time"
)

// Long runs take time in line with their length. The reference needs seconds for
// some of these.
func TestLongRuns(t *testing.T) {
	runs := map[string]string{
		"letters": "a", "spaces": " ", "lines": "\n", "space and line": " \n", "digits": "1", "marks": "e\u0301\u0323", "signs": "!?",
		"emoji": "👨‍👩‍👧", "Chinese": "中文", "apostrophes": "'s", "capitals": "aB", "half a special token": "<|im_start", "control": "\x00",
		"broken": "\xe4\xb8", "tabs and words": "\tx ", "marks alone": "\u0301",
	}
	for _, name := range []string{"qwen2", "llama2", "albert"} {
		k := goldenKind(t, name)
		for what, unit := range runs {
			measure := func(size int) time.Duration {
				text := strings.Repeat(unit, size/len(unit))
				start := time.Now()
				ids, err := k.tokenizer.Encode(text, true)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, what, err)
				}
				_ = k.tokenizer.Decode(ids, false)
				return time.Since(start)
			}
			// Ten times the text must not take a hundred times as long. Times below a
			// few milliseconds say nothing.
			short, long := measure(5_000), measure(50_000)
			if long > 200*time.Millisecond && long > 60*max(short, time.Millisecond) {
				short, long = min(short, measure(5_000)), min(long, measure(50_000))
				if long > 200*time.Millisecond && long > 60*max(short, time.Millisecond) {
					t.Errorf("%s, %s: %v for 5 kB, %v for 50 kB", name, what, short, long)
				}
			}
		}
	}
}

func TestParseRefused(t *testing.T) {
	const tail = `,"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}`
	deep := strings.Repeat(`{"type":"Sequence","normalizers":[`, 200) + strings.Repeat(`]}`, 200)
	tests := []struct {
		name string
		file string
		want string
	}{
		{"empty", ``, "no tokenizer.json"},
		{"not an object", `[]`, "no tokenizer.json"},
		{"no model", `{}`, "model: is missing"},
		{"version", `{"version":"2.0"` + tail, `version "2.0"`},
		{"model type", `{"model":{"type":"Magic","vocab":{}}}`, `model: type "Magic"`},
		{"vocabulary", `{"model":{"type":"WordLevel","vocab":{"a":"b"}}}`, "model: vocab"},
		{"negative id", `{"model":{"type":"WordLevel","vocab":{"a":-1}}}`, "model: vocab"},
		{"empty vocabulary", `{"model":{"type":"WordPiece","vocab":{}}}`, "empty"},
		{"merge", `{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}}`, `merges[0]: "ab"`},
		{"merge of three", `{"model":{"type":"BPE","vocab":{"a":0},"merges":["a a a"]}}`, "merges[0]"},
		{"merges", `{"model":{"type":"BPE","vocab":{"a":0},"merges":7}}`, "merges"},
		{"dropout", `{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}}`, "dropout"},
		{"unk_id", `{"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":5}}`, "unk_id 5"},
		{"score", `{"model":{"type":"Unigram","vocab":[["a","x"]],"unk_id":0}}`, "vocab[0]"},
		{"normalizer", `{"normalizer":{"type":"Fancy"}` + tail, `normalizer: type "Fancy"`},
		{"nested normalizer", `{"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"X"}]}` + tail, `normalizer: normalizers[1]: type "X"`},
		{"nested too deeply", `{"normalizer":` + deep + tail, "nested too deeply"},
		{"charsmap", `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"}` + tail, "precompiled_charsmap"},
		{"pattern", `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a("},"behavior":"Isolated","invert":false}` + tail, "pre_tokenizer: Split: regular expression"},
		{"property", `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\p{Nope}"},"behavior":"Isolated"}` + tail, `property "Nope"`},
		{"no pattern", `{"pre_tokenizer":{"type":"Split","behavior":"Isolated"}` + tail, "pattern"},
		{"behavior", `{"pre_tokenizer":{"type":"Punctuation","behavior":"Odd"}` + tail, `behavior "Odd"`},
		{"replacement", `{"pre_tokenizer":{"type":"Metaspace","replacement":"ab"}` + tail, "replacement"},
		{"length", `{"pre_tokenizer":{"type":"FixedLength","length":0}` + tail, "length 0"},
		{"special token", `{"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"X","type_id":0}}],"special_tokens":{}}` + tail, `"X"`},
		{"second sequence", `{"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B","type_id":0}}],"special_tokens":{}}` + tail, "single[0]"},
		{"decoder", `{"decoder":{"type":"Sequence","decoders":[{"type":"Y"}]}` + tail, `decoder: decoders[0]: type "Y"`},
		{"strip", `{"decoder":{"type":"Strip","content":"ab","start":1,"stop":0}` + tail, "Strip"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
		})
	}
}

func TestUnknownWord(t *testing.T) {
	tok, err := Parse([]byte(`{"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"?"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode("b", false); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("error %v, want one that names the word", err)
	}
	if ids, err := tok.Encode("a", false); err != nil || len(ids) != 1 {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestValidUTF8(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain", "plain"},
		{"\xff", "�"},
		{"\xe4\xb8", "�"},
		{"\xe4\xb8x", "�x"},
		{"\xf0\x9f\x91", "�"},
		{"\xf0\x9f\x91\xf0\x9f\x91\x8d", "�👍"},
		{"\xed\xa0\x80", "���"},
		{"\xc0\x80", "��"},
		{"\xf4\x90\x80\x80", "����"},
		{"\xe0\x80", "��"},
		{"\xc3", "�"},
		{"a\x80b", "a�b"},
	}
	for _, tt := range tests {
		if got := ValidUTF8(tt.in); got != tt.want {
			t.Errorf("ValidUTF8(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}
