package tokenreply_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"smg/engine/rpc"
	"smg/ingress/tokenreply"
)

// vocabulary is a fake: tokens are bytes, which need not be whole characters.
type vocabulary struct {
	tokens  map[uint32]string
	special map[uint32]bool
}

func (v *vocabulary) Text(token uint32) string { return v.tokens[token] }

func (v *vocabulary) Stream(skipSpecial bool) tokenreply.Detokenizer {
	return &detokenizer{vocabulary: v, skip: skipSpecial}
}

// detokenizer holds back the bytes of a character that is not whole.
type detokenizer struct {
	*vocabulary
	skip bool
	rest string
}

func (d *detokenizer) Push(tokens ...uint32) string {
	text := d.rest
	for _, t := range tokens {
		if !d.skip || !d.special[t] {
			text += d.tokens[t]
		}
	}
	whole := len(text)
	for n := 1; n < min(utf8.UTFMax, len(text)+1); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				whole = len(text) - n
			}
			break
		}
	}
	d.rest = text[whole:]
	return strings.ToValidUTF8(text[:whole], "\ufffd")
}

func (d *detokenizer) End() string {
	text := d.rest
	d.rest = ""
	return strings.ToValidUTF8(text, "\ufffd")
}

// Tokens of words.
const (
	tokenEOS  uint32 = 2
	tokenStop uint32 = 3 // <|stop|>, special
	tokenTool uint32 = 4 // <|tool|>, special
)

// words is a vocabulary of the given texts, whose ids begin at 10.
func words(texts ...string) (v *vocabulary, ids []uint32) {
	v = &vocabulary{
		tokens:  map[uint32]string{tokenEOS: "</s>", tokenStop: "<|stop|>", tokenTool: "<|tool|>"},
		special: map[uint32]bool{tokenEOS: true, tokenStop: true, tokenTool: true},
	}
	for i, text := range texts {
		ids = append(ids, uint32(10+i))
		v.tokens[uint32(10+i)] = text
	}
	return v, ids
}

// chat is a usual request.
func chat() *tokenreply.Request {
	return &tokenreply.Request{
		API: tokenreply.Chat, Engine: tokenreply.SGLang, ID: "c-1", Model: "m", Created: 7,
		Prompts: []tokenreply.Prompt{{ID: "c-1", Tokens: []uint32{5, 6, 7}}}, N: 1,
		EOS: []uint32{tokenEOS}, SkipSpecial: true,
	}
}

func begin(t interface {
	Helper()
	Fatal(...any)
}, req *tokenreply.Request, v tokenreply.Vocabulary,
) *tokenreply.Reply {
	t.Helper()
	r, err := tokenreply.New(req, v)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run is all that a reply says to pieces of its first prompt.
func run(t testing.TB, req *tokenreply.Request, v tokenreply.Vocabulary, pieces ...*rpc.Piece) string {
	t.Helper()
	r := begin(t, req, v)
	var dst []byte
	for _, p := range pieces {
		dst = add(t, r, dst, p)
	}
	if !r.Done() {
		t.Error("the reply is not done")
	}
	return string(r.AppendEnd(dst))
}

func add(t testing.TB, r *tokenreply.Reply, dst []byte, p *rpc.Piece) []byte {
	t.Helper()
	dst, err := r.Append(dst, 0, p)
	if err != nil {
		t.Fatal(err)
	}
	return dst
}

// piece is one that goes on, and last one that ends a choice.
func piece(tokens ...uint32) *rpc.Piece { return &rpc.Piece{Tokens: tokens} }

func last(finish string, tokens ...uint32) *rpc.Piece {
	return &rpc.Piece{Tokens: tokens, Done: true, Finish: finish}
}
