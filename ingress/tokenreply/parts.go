package tokenreply

import (
	"slices"
	"strconv"
	"strings"

	"smg/engine/rpc"
)

// parts are what an answer is put together from, as the insides of JSON strings and
// lists: of all of it, or of what no event has said yet.
type parts struct {
	text, ids []byte
	// Of tokens: their probabilities (in chat, all that is told of them), those of other
	// tokens at their places, their names, and where in the text they begin.
	values, tops, asked, names, offsets []byte
}

// clear forgets all but the memory.
func (p *parts) clear() {
	for _, b := range p.all() {
		*b = (*b)[:0]
	}
}

func (p *parts) all() [7]*[]byte {
	return [...]*[]byte{&p.text, &p.ids, &p.values, &p.tops, &p.asked, &p.names, &p.offsets}
}

// size is how much memory p takes.
func (p *parts) size() (n int) {
	for _, b := range p.all() {
		n += cap(*b)
	}
	return n
}

func (p *parts) id(token uint32) {
	p.ids = strconv.AppendUint(appendItem(p.ids), uint64(token), 10)
}

// tell adds what is known of the token at place i, before which the text has as many
// characters as offset.
func (r *Reply) tell(p *parts, w *Prompt, l *rpc.Logprobs, i, offset int) {
	value, tops, others := place(l, i)
	token := rpc.TokenLogprob{Token: l.Tokens[i], Value: value}
	switch r.req.API {
	case Chat:
		p.values = r.chatToken(appendItem(p.values), token, tops[:min(len(tops), w.Logprobs.Top)])
	case Completions:
		name := shown(r.words.Text(token.Token))
		p.offsets = strconv.AppendInt(appendItem(p.offsets), int64(offset), 10)
		p.values = appendLogprob(appendItem(p.values), value)
		p.names = appendString(appendItem(p.names), name)
		p.tops = r.namedTops(appendItem(p.tops), token, name, tops[:min(len(tops), w.Logprobs.Top)])
	case Generate:
		p.values = r.triple(appendItem(p.values), w, token)
		if w.Logprobs.Top > 0 {
			p.tops = r.triples(appendItem(p.tops), w, tops)
		}
		if len(w.Logprobs.Tokens) > 0 {
			p.asked = r.triples(appendItem(p.asked), w, others)
		}
	}
}

// shown is the text of a token that may be less than a character.
func shown(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// chatToken appends a token and the likeliest ones in its place.
func (r *Reply) chatToken(dst []byte, t rpc.TokenLogprob, tops []rpc.TokenLogprob) []byte {
	dst = r.namedToken(dst, t)
	dst = append(dst, `,"top_logprobs":[`...)
	for i, top := range tops {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(r.namedToken(dst, top), '}')
	}
	return append(dst, "]}"...)
}

// namedToken appends a token's object, but for its end.
func (r *Reply) namedToken(dst []byte, t rpc.TokenLogprob) []byte {
	text := r.words.Text(t.Token)
	dst = append(dst, `{"token":`...)
	dst = appendString(dst, shown(text))
	dst = append(dst, `,"logprob":`...)
	dst = appendNumber(dst, t.Value)
	dst = append(dst, `,"bytes":[`...)
	for i := range len(text) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(text[i]), 10)
	}
	return append(dst, ']')
}

// namedTops appends the likeliest tokens by their text, and the one that it became. Of
// tokens that read the same the first counts.
func (r *Reply) namedTops(dst []byte, t rpc.TokenLogprob, name string, tops []rpc.TokenLogprob) []byte {
	if t.Value != t.Value {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	add := func(name string, value float32) {
		if slices.Contains(r.seen, name) {
			return
		}
		if len(r.seen) > 0 {
			dst = append(dst, ',')
		}
		r.seen = append(r.seen, name)
		dst = append(appendString(dst, name), ':')
		dst = appendNumber(dst, value)
	}
	r.seen = r.seen[:0]
	for _, top := range tops {
		add(shown(r.words.Text(top.Token)), top.Value)
	}
	add(name, t.Value)
	return append(dst, '}')
}

// triple appends a token as Generate tells of it.
func (r *Reply) triple(dst []byte, w *Prompt, t rpc.TokenLogprob) []byte {
	dst = appendLogprob(append(dst, '['), t.Value)
	dst = append(dst, ',')
	dst = strconv.AppendUint(dst, uint64(t.Token), 10)
	if !w.TokenText {
		return append(dst, ",null]"...)
	}
	dst = append(dst, ',')
	return append(appendString(dst, shown(r.words.Text(t.Token))), ']')
}

// triples appends what is told of one place, null if it is nothing.
func (r *Reply) triples(dst []byte, w *Prompt, all []rpc.TokenLogprob) []byte {
	if len(all) == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, t := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.triple(dst, w, t)
	}
	return append(dst, ']')
}

// place is what is told of the token at place i; tops and asked may be nil.
func place(l *rpc.Logprobs, i int) (value float32, tops, asked []rpc.TokenLogprob) {
	if i < len(l.Top) {
		tops = l.Top[i]
	}
	if i < len(l.Asked) {
		asked = l.Asked[i]
	}
	return l.Values[i], tops, asked
}

// places is of how many tokens l tells, which may be nil.
func places(l *rpc.Logprobs) int {
	if l == nil {
		return 0
	}
	return min(len(l.Tokens), len(l.Values))
}
