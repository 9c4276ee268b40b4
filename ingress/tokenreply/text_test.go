package tokenreply_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine/rpc"
	"smg/ingress/tokenreply"
)

// ended is what a choice has in the end.
type ended struct {
	Text   string
	Finish string
	Stop   any // what it stopped at
	Tokens int
}

// whole reads an answer of chat that is no stream.
func whole(t testing.TB, answer string) ended {
	t.Helper()
	var a struct {
		Choices []struct {
			Message struct{ Content string }
			Finish  string `json:"finish_reason"`
			Matched any    `json:"matched_stop"`
			Reason  any    `json:"stop_reason"`
		}
		Usage struct {
			Completion int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	c := a.Choices[0]
	if c.Matched == nil {
		c.Matched = c.Reason
	}
	return ended{c.Message.Content, c.Finish, c.Matched, a.Usage.Completion}
}

func TestStops(t *testing.T) {
	v, ids := words("Hello", ", wor", "ld. B", "ye", " END", "abc", "a", "b")
	hello, wor, ld, ye, end, abc, a, b := ids[0], ids[1], ids[2], ids[3], ids[4], ids[5], ids[6], ids[7]
	tests := []struct {
		name   string
		change func(*tokenreply.Request)
		finish string
		at     *uint32
		text   string // that the engine says it stopped at
		tokens []uint32
		want   ended
	}{
		{name: "length", finish: "length", tokens: []uint32{hello, wor}, want: ended{"Hello, wor", "length", nil, 2}},
		{name: "natural end", finish: "stop", at: new(tokenEOS), tokens: []uint32{hello, tokenEOS}, want: ended{"Hello", "stop", float64(tokenEOS), 2}},
		{name: "natural end, untold", finish: "stop", tokens: []uint32{hello, tokenEOS}, want: ended{"Hello", "stop", float64(tokenEOS), 2}},
		{name: "natural end, its token not sent", finish: "stop", at: new(tokenEOS), tokens: []uint32{hello}, want: ended{"Hello", "stop", float64(tokenEOS), 1}},
		{
			name: "natural end, shown", finish: "stop", at: new(tokenEOS), tokens: []uint32{hello, tokenEOS},
			change: func(r *tokenreply.Request) { r.KeepStop, r.SkipSpecial = true, false },
			want:   ended{"Hello</s>", "stop", float64(tokenEOS), 2},
		},
		{
			name: "natural end, special ones shown", finish: "stop", at: new(tokenEOS), tokens: []uint32{tokenTool, hello, tokenEOS},
			change: func(r *tokenreply.Request) { r.SkipSpecial = false },
			want:   ended{"<|tool|>Hello", "stop", float64(tokenEOS), 3},
		},
		{
			name: "vLLM has no reason for a natural end", finish: "stop", at: new(tokenEOS), tokens: []uint32{hello, tokenEOS},
			change: func(r *tokenreply.Request) { r.Engine = tokenreply.VLLM },
			want:   ended{"Hello", "stop", nil, 2},
		},
		{
			name: "vLLM has one for a stop token", finish: "stop", at: new(ye), tokens: []uint32{hello, ye},
			change: func(r *tokenreply.Request) { r.Engine, r.StopTokens = tokenreply.VLLM, []uint32{ye} },
			want:   ended{"Hello", "stop", float64(ye), 2},
		},
		{
			name: "the end is ignored", finish: "length", tokens: []uint32{hello, tokenEOS, wor},
			change: func(r *tokenreply.Request) { r.EOS, r.SkipSpecial = nil, false },
			want:   ended{"Hello</s>, wor", "length", nil, 3},
		},
		{
			name: "a stop token", finish: "stop", at: new(ye), tokens: []uint32{hello, ye},
			change: func(r *tokenreply.Request) { r.StopTokens = []uint32{ye} },
			want:   ended{"Hello", "stop", float64(ye), 2},
		},
		{
			name: "a stop token, kept", finish: "stop", at: new(ye), tokens: []uint32{hello, ye},
			change: func(r *tokenreply.Request) { r.StopTokens, r.KeepStop = []uint32{ye}, true },
			want:   ended{"Helloye", "stop", float64(ye), 2},
		},
		{
			name: "a stop token that the engine passes", finish: "length", tokens: []uint32{ye, hello, ye},
			change: func(r *tokenreply.Request) { r.StopTokens = []uint32{ye} },
			want:   ended{"yeHelloye", "length", nil, 3},
		},
		{name: "a stop token that the engine alone knows", finish: "stop", at: new(end), tokens: []uint32{hello, end}, want: ended{"Hello", "stop", float64(end), 2}},
		{
			name: "a stop string in a token", finish: "stop", text: "or", tokens: []uint32{hello, wor},
			change: func(r *tokenreply.Request) { r.Stop = []string{"or"} },
			want:   ended{"Hello, w", "stop", "or", 2},
		},
		{
			name: "a stop string over three tokens", finish: "stop", text: "lo, world", tokens: []uint32{hello, wor, ld},
			change: func(r *tokenreply.Request) { r.Stop = []string{"lo, world"} },
			want:   ended{"Hel", "stop", "lo, world", 3},
		},
		{
			name: "a stop string, kept", finish: "stop", text: "world", tokens: []uint32{hello, wor, ld},
			change: func(r *tokenreply.Request) { r.Stop, r.KeepStop = []string{"world"}, true },
			want:   ended{"Hello, world", "stop", "world", 3},
		},
		{
			name: "a stop string that the engine has not seen", finish: "length", tokens: []uint32{hello, wor, ld, ye, end},
			change: func(r *tokenreply.Request) { r.Stop = []string{". Bye"} },
			want:   ended{"Hello, world", "stop", ". Bye", 4},
		},
		{
			name: "a stop string that the text has not", finish: "stop", text: "?", tokens: []uint32{hello},
			change: func(r *tokenreply.Request) { r.Stop = []string{"?"} },
			want:   ended{"Hello", "stop", "?", 1},
		},
		{
			name: "the begin of a stop string at the end", finish: "length", tokens: []uint32{hello, wor},
			change: func(r *tokenreply.Request) { r.Stop = []string{"world"} },
			want:   ended{"Hello, wor", "length", nil, 2},
		},
		{
			name: "of several the one that begins first", finish: "stop", text: "c", tokens: []uint32{hello, abc},
			change: func(r *tokenreply.Request) { r.Stop = []string{"c", "bc", "b"} },
			want:   ended{"Helloa", "stop", "bc", 2},
		},
		{
			name: "a stop string in front of the end", finish: "stop", text: "orld", tokens: []uint32{wor, ld, tokenEOS},
			change: func(r *tokenreply.Request) { r.Stop = []string{"orld"} },
			want:   ended{", w", "stop", "orld", 2},
		},
		{
			name: "not before there are as many tokens", finish: "stop", text: "l", tokens: []uint32{hello, hello, wor, ld},
			change: func(r *tokenreply.Request) { r.Stop, r.MinTokens = []string{"l"}, 3 },
			want:   ended{"HelloHello, wor", "stop", "l", 4},
		},
		{
			name: "overlapping itself", finish: "length", tokens: []uint32{abc, abc, ye},
			change: func(r *tokenreply.Request) { r.Stop = []string{"abcabcabc", "cabcy"} },
			want:   ended{"ab", "stop", "cabcy", 3},
		},
		{
			name: "begun again while it goes on", finish: "stop", text: "aab", tokens: []uint32{a, a, a, b},
			change: func(r *tokenreply.Request) { r.Stop = []string{"aab"} },
			want:   ended{"a", "stop", "aab", 4},
		},
		{
			name: "overlapping one that came too early", finish: "stop", text: "aa", tokens: []uint32{a, a, a, b},
			change: func(r *tokenreply.Request) { r.Stop, r.MinTokens = []string{"aa"}, 3 },
			want:   ended{"a", "stop", "aa", 3},
		},
		{
			name: "another token than the last", finish: "stop", at: new(tokenEOS), tokens: []uint32{hello, ye},
			change: func(r *tokenreply.Request) { r.StopTokens = []uint32{ye} },
			want:   ended{"Helloye", "stop", float64(tokenEOS), 2},
		},
		{
			name: "vLLM has one for the end, if that was asked for", finish: "stop", at: new(tokenEOS), tokens: []uint32{hello, tokenEOS},
			change: func(r *tokenreply.Request) { r.Engine, r.StopTokens = tokenreply.VLLM, []uint32{tokenEOS} },
			want:   ended{"Hello", "stop", float64(tokenEOS), 2},
		},
		{name: "aborted", finish: "abort", tokens: []uint32{hello}, want: ended{"Hello", "abort", nil, 1}},
		{name: "no word for why", tokens: []uint32{hello}, want: ended{"Hello", "stop", nil, 1}},
		{name: "another word", finish: "content_filter", tokens: []uint32{hello, tokenEOS}, want: ended{"Hello", "content_filter", nil, 2}},
		{name: "nothing", finish: "length", want: ended{"", "length", nil, 0}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			req := chat()
			if tc.change != nil {
				tc.change(req)
			}
			p := last(tc.finish, tc.tokens...)
			p.StopToken, p.StopText = tc.at, tc.text
			if diff := cmp.Diff(tc.want, whole(t, run(t, req, v, p))); diff != "" {
				t.Errorf("in one piece (-want +got):\n%s", diff)
			}
			var pieces []*rpc.Piece
			for _, token := range tc.tokens {
				pieces = append(pieces, piece(token))
			}
			if tc.name == "a stop token that the engine alone knows" {
				return // it was shown before the engine told
			}
			p.Tokens = nil
			if diff := cmp.Diff(tc.want, whole(t, run(t, req, v, append(pieces, p)...))); diff != "" {
				t.Errorf("token by token, the end behind (-want +got):\n%s", diff)
			}
		})
	}
}

// deltas are the texts of a stream of chat.
func deltas(t testing.TB, stream string) (all []string) {
	t.Helper()
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "data: [DONE]\n\n"), "\n\n") {
		if event == "" {
			continue
		}
		var e struct {
			Choices []struct {
				Delta struct{ Content string }
			}
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &e); err != nil {
			t.Fatalf("%v: %s", err, event)
		}
		for _, c := range e.Choices {
			all = append(all, c.Delta.Content)
		}
	}
	return all
}

// Text goes out with the piece that makes it certain.
func TestHeldBack(t *testing.T) {
	v, ids := words("ab", "cd", "e", "\xf0\x9f", "\x98", "\x80!", "\n")
	ab, cd, e, smile1, smile2, smile3, line := ids[0], ids[1], ids[2], ids[3], ids[4], ids[5], ids[6]
	tests := []struct {
		name   string
		stop   []string
		keep   bool
		tokens []uint32
		want   []string // of each piece
	}{
		{name: "nothing to stop at", tokens: []uint32{ab, cd}, want: []string{"ab", "cd"}},
		{name: "no begin of it", stop: []string{"x"}, tokens: []uint32{ab, cd}, want: []string{"ab", "cd"}},
		{name: "a begin, given up", stop: []string{"bcx"}, tokens: []uint32{ab, cd, e}, want: []string{"a", "bcd", "e"}},
		{name: "a begin, shortened", stop: []string{"abcde", "dx"}, tokens: []uint32{ab, cd, cd}, want: []string{"", "", "abcdc"}},
		{name: "a begin, kept anyway", stop: []string{"bcx"}, keep: true, tokens: []uint32{ab, cd}, want: []string{"ab", "cd"}},
		{name: "the whole", stop: []string{"bcd"}, tokens: []uint32{ab, cd}, want: []string{"a", ""}},
		{name: "the whole, kept", stop: []string{"bc"}, keep: true, tokens: []uint32{ab, cd}, want: []string{"ab", "c"}},
		{name: "a character in parts", tokens: []uint32{smile1, smile2, smile3}, want: []string{"", "", "😀!"}},
		{name: "a stop string that ends in a part", stop: []string{"😀"}, tokens: []uint32{ab, smile1, smile2, smile3}, want: []string{"ab", "", "", ""}},
		{name: "a line that may be two", stop: []string{"\n\n"}, tokens: []uint32{line, e}, want: []string{"", "\ne"}},
		{name: "special ones", tokens: []uint32{tokenTool, ab}, want: []string{"", "ab"}},
		{name: "what may be the end", tokens: []uint32{ab, tokenStop, cd}, want: []string{"ab", "", "cd"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			req := chat()
			req.Stream, req.Stop, req.KeepStop, req.StopTokens = true, tc.stop, tc.keep, []uint32{tokenStop}
			r := begin(t, req, v)
			var got []string
			for i, token := range tc.tokens {
				parts := deltas(t, string(add(t, r, nil, piece(token))))
				if i == 0 {
					if len(parts) == 0 || parts[0] != "" {
						t.Fatalf("the first piece begins with %q, no event with the role", parts)
					}
					parts = parts[1:]
				}
				got = append(got, strings.Join(parts, ""))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What never became a character is shown as such, once.
func TestHalfCharacters(t *testing.T) {
	v, ids := words("a", "\xf0\x9f", "\xff", "b", `"\`, "\x01\x7f\u2028<&>")
	tests := []struct {
		name   string
		tokens []uint32
		want   string
	}{
		{"at the end", []uint32{ids[0], ids[1]}, "a\ufffd"},
		{"in between", []uint32{ids[0], ids[1], ids[3]}, "a\ufffdb"},
		{"no begin of any", []uint32{ids[2], ids[3]}, "\ufffdb"},
		{"quotes", []uint32{ids[4]}, `"\`},
		{"controls", []uint32{ids[5]}, "\x01\x7f\u2028<&>"},
		{"no token of the vocabulary", []uint32{4711, ids[0]}, "a"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := whole(t, run(t, chat(), v, last("length", tc.tokens...))).Text; got != tc.want {
				t.Errorf("in one piece %q, want %q", got, tc.want)
			}
			req := chat()
			req.Stream = true
			var pieces []*rpc.Piece
			for _, token := range tc.tokens {
				pieces = append(pieces, piece(token))
			}
			if got := strings.Join(deltas(t, run(t, req, v, append(pieces, last("length"))...)), ""); got != tc.want {
				t.Errorf("token by token %q, want %q", got, tc.want)
			}
		})
	}
}
