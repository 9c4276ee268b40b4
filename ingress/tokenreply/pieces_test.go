package tokenreply_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/engine/rpc"
	"smg/ingress/tokenreply"
)

// However tokens are cut into pieces, the text is the same, and a stream says in parts
// what a whole answer says.
func TestPieces(t *testing.T) { rapid.Check(t, checkPieces) }

func FuzzPieces(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkPieces)) }

// generated are the tokens of an answer, and why it ends.
type generated struct {
	tokens    []uint32
	values    []float32
	finish    string
	stopToken *uint32
	stops     bool // at the last token
}

func checkPieces(t *rapid.T) {
	texts := []string{
		"a", "b", "ab", "ba", "aab", " ", "é", "\xc3", "\xa9", "\xf0\x9f", "\x98\x80", "😀", "\xe2", "\x82", "\xac", "\xff",
		`"`, "\n", "\\", "", "e\u0301", "x<|y", "\u2028",
	}
	v, ids := words(texts...)
	ids = append(ids, tokenStop, tokenTool)
	req := chat()
	req.API = rapid.SampledFrom([]tokenreply.API{tokenreply.Chat, tokenreply.Completions, tokenreply.Generate}).Draw(t, "api")
	req.Engine = rapid.SampledFrom([]tokenreply.Engine{tokenreply.SGLang, tokenreply.VLLM}).Draw(t, "engine")
	req.KeepStop = rapid.Bool().Draw(t, "keep")
	req.SkipSpecial = rapid.Bool().Draw(t, "skip")
	req.StopTokens = []uint32{tokenStop}
	req.MinTokens = rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "min")
	req.Incremental = rapid.Bool().Draw(t, "incremental")
	req.Prompts[0].Logprobs.Output = true
	stop := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "é", "😀", "\n", "€", "x", "|"}), 1, 4)
	for _, parts := range rapid.SliceOfN(stop, 0, 3).Draw(t, "stops") {
		req.Stop = append(req.Stop, strings.Join(parts, ""))
	}
	g := generated{tokens: rapid.SliceOfN(rapid.SampledFrom(ids), 0, 24).Draw(t, "tokens"), finish: "length"}
	switch rapid.IntRange(0, 2).Draw(t, "end") {
	case 1:
		g.finish, g.stops, g.tokens = "stop", true, append(g.tokens, tokenEOS)
	case 2:
		g.finish, g.stops, g.tokens = "stop", true, append(g.tokens, tokenStop)
		g.stopToken = new(tokenStop)
	}
	for i := range g.tokens {
		g.values = append(g.values, -float32(i))
	}

	want := model(req, v, &g)
	for _, stream := range []bool{false, true} {
		req.Stream = stream
		r := begin(t, req, v)
		var all []byte
		said := 0
		for _, p := range cut(t, &g) {
			event, err := r.Append(nil, 0, p)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, event...)
			said += len(p.Tokens)
			if stream && !p.Done {
				got := content(t, req, string(all)).Text
				if least := certain(req, v, g.tokens[:said]); !strings.HasPrefix(got, least) {
					t.Fatalf("after %d tokens %q is out, of at least %q", said, got, least)
				}
			}
		}
		if !r.Done() {
			t.Fatal("the reply is not done")
		}
		answer := string(r.AppendEnd(all))
		if diff := cmp.Diff(want, content(t, req, answer)); diff != "" {
			t.Fatalf("stream %t: (-want +got):\n%s\n%s", stream, diff, answer)
		}
	}
}

// cut makes pieces of an answer.
func cut(t *rapid.T, g *generated) (pieces []*rpc.Piece) {
	from := 0
	for from < len(g.tokens) {
		n := rapid.IntRange(1, 4).Draw(t, "piece")
		upto := min(from+n, len(g.tokens))
		pieces = append(pieces, &rpc.Piece{
			Tokens: g.tokens[from:upto],
			Output: &rpc.Logprobs{Tokens: g.tokens[from:upto], Values: g.values[from:upto]},
		})
		from = upto
		if rapid.IntRange(0, 9).Draw(t, "empty") == 0 {
			pieces = append(pieces, &rpc.Piece{})
		}
	}
	if len(pieces) == 0 || rapid.Bool().Draw(t, "end apart") {
		pieces = append(pieces, &rpc.Piece{})
	}
	end := pieces[len(pieces)-1]
	end.Done, end.Finish, end.StopToken = true, g.finish, g.stopToken
	return pieces
}

// failer is a test of either kind.
type failer interface {
	Fatalf(format string, args ...any)
}

// outcome is what an answer of one choice comes down to.
type outcome struct {
	Text, Finish string
	Stop         any
	Tokens       int
	IDs          []uint32  // of Generate
	Values       []float64 // of tokens
	Offsets      []int     // of Completions
}

// model finds the same by looking at all of the text again with each token.
func model(req *tokenreply.Request, v *vocabulary, g *generated) outcome {
	o := outcome{Finish: g.finish, Tokens: len(g.tokens)}
	if g.stops {
		if last := g.tokens[len(g.tokens)-1]; g.stopToken != nil || !req.KeepStop {
			o.Stop = float64(last)
			if last == tokenEOS && req.Engine == tokenreply.VLLM && req.API != tokenreply.Generate {
				o.Stop = nil
			}
		}
	}
	d := v.Stream(req.SkipSpecial)
	text := ""
	grow := func(more string, tokens int) (stopped bool) {
		before := len(text)
		text += more
		if more == "" || tokens < req.MinTokens {
			return false
		}
		at := -1
		for _, s := range req.Stop {
			from := max(0, before-len(s)+1)
			if i := strings.Index(text[from:], s); i >= 0 && (at < 0 || from+i < at) {
				at, o.Stop = from+i, s
			}
		}
		if at < 0 {
			return false
		}
		if req.KeepStop {
			at += len(o.Stop.(string))
		}
		text, o.Finish, o.Tokens = text[:at], "stop", tokens
		return true
	}
	stopped := false
	for i, token := range g.tokens {
		o.Offsets = append(o.Offsets, utf8.RuneCountInString(text))
		if g.stops && i == len(g.tokens)-1 && !req.KeepStop {
			break
		}
		if stopped = grow(d.Push(token), i+1); stopped {
			break
		}
	}
	if !stopped {
		grow(d.End(), len(g.tokens))
	}
	o.Text = text
	for _, value := range g.values[:o.Tokens] {
		o.Values = append(o.Values, float64(value))
	}
	if req.API == tokenreply.Generate {
		o.IDs = append(o.IDs, g.tokens[:o.Tokens]...)
	}
	if req.API != tokenreply.Completions || o.Tokens == 0 {
		o.Offsets = nil
	}
	return o
}

// certain is what of the text can not be part of a stop string any more, with these
// tokens; a token that may end the answer waits for the next one.
func certain(req *tokenreply.Request, v *vocabulary, tokens []uint32) string {
	if n := len(tokens); n > 0 && slices.Contains([]uint32{tokenStop, tokenEOS}, tokens[n-1]) && !req.KeepStop {
		tokens = tokens[:n-1]
	}
	d := v.Stream(req.SkipSpecial)
	text := ""
	for _, token := range tokens {
		text += d.Push(token)
	}
	upto := len(text)
	for _, s := range req.Stop {
		for n := min(len(s)-1, len(text)); n > 0 && !req.KeepStop; n-- {
			if strings.HasSuffix(text, s[:n]) {
				upto = min(upto, len(text)-n)
				break
			}
		}
	}
	for _, s := range req.Stop {
		if strings.Contains(text, s) {
			return "" // the model tells where
		}
	}
	return text[:upto]
}

// content reads an answer of one choice, whole or in events.
func content(t failer, req *tokenreply.Request, answer string) (o outcome) {
	if !utf8.ValidString(answer) {
		t.Fatalf("no UTF-8: %q", answer)
	}
	for _, doc := range events(answer) {
		if doc == "[DONE]" || doc == "" {
			continue
		}
		if req.API == tokenreply.Generate {
			o.generate(t, req, doc)
			continue
		}
		o.openAI(t, doc)
	}
	return o
}

func (o *outcome) openAI(t failer, doc string) {
	var e struct {
		Choices []struct {
			Text           string
			Message, Delta struct{ Content string }
			Logprobs       struct {
				Content []struct{ Logprob float64 }
				Values  []float64 `json:"token_logprobs"`
				Offsets []int     `json:"text_offset"`
			}
			Finish  string `json:"finish_reason"`
			Matched any    `json:"matched_stop"`
			Reason  any    `json:"stop_reason"`
		}
	}
	if err := json.Unmarshal([]byte(doc), &e); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	for _, c := range e.Choices {
		o.Text += c.Text + c.Message.Content + c.Delta.Content
		for _, item := range c.Logprobs.Content {
			o.Values = append(o.Values, item.Logprob)
		}
		o.Values = append(o.Values, c.Logprobs.Values...)
		o.Offsets = append(o.Offsets, c.Logprobs.Offsets...)
		o.Tokens = len(o.Values)
		o.Finish = c.Finish
		if o.Stop = c.Matched; o.Stop == nil {
			o.Stop = c.Reason
		}
	}
}

func (o *outcome) generate(t failer, req *tokenreply.Request, doc string) {
	var e struct {
		Text string
		IDs  []uint32 `json:"output_ids"`
		Meta struct {
			Finish *struct {
				Type    string
				Matched any
			} `json:"finish_reason"`
			Completion int     `json:"completion_tokens"`
			Values     [][]any `json:"output_token_logprobs"`
		} `json:"meta_info"`
	}
	if err := json.Unmarshal([]byte(doc), &e); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	var values []float64
	for _, item := range e.Meta.Values {
		values = append(values, item[0].(float64))
	}
	if !req.Incremental || !req.Stream {
		if !strings.HasPrefix(e.Text, o.Text) || len(e.IDs) < len(o.IDs) {
			t.Fatalf("an event takes back what was said: %q, then %q", o.Text, e.Text)
		}
		*o = outcome{}
	}
	o.Text += e.Text
	o.IDs = slices.Concat(o.IDs, e.IDs)
	o.Values = slices.Concat(o.Values, values)
	o.Tokens = e.Meta.Completion
	if e.Meta.Finish != nil {
		o.Finish, o.Stop = e.Meta.Finish.Type, e.Meta.Finish.Matched
	}
}
