package tokenreply

import (
	"unicode/utf8"

	"smg/engine/rpc"
)

// prompt is what is known of one.
type prompt struct {
	tokens int    // as the engine counts them, else as they were sent
	echo   string // what its answers begin with
	told   bool   // the engine has spoken of its tokens' probabilities
	cached *int   // of the tokens, where it is not for the answering engine to say
	parts  parts
	left   int // choices that have not ended
}

// TellPrompt says what is known of the tokens of a prompt. What comes first counts:
// where one engine computes the prompt and another one the answer, that is the first
// one's, if it comes before the other's pieces.
func (r *Reply) TellPrompt(i int, l *rpc.Logprobs) {
	if i < 0 || i >= len(r.prompts) || l == nil || r.prompts[i].told {
		return
	}
	p, w := &r.prompts[i], &r.req.Prompts[i]
	p.told = true
	if !w.Logprobs.Prompt || w.Logprobs.From < 0 || r.req.API == Chat || r.req.API == Completions && !r.req.Echo {
		return
	}
	n := places(l)
	from := max(0, n-max(0, len(w.Tokens)-w.Logprobs.From)) // some engines tell of all
	var offsets Detokenizer
	if r.req.API == Completions {
		offsets = r.words.Stream(r.req.SkipSpecial)
	}
	runes, all := 0, utf8.RuneCountInString(p.echo)
	for k := range n {
		at := min(runes, all)
		if offsets != nil {
			r.one[0] = l.Tokens[k]
			runes += utf8.RuneCountInString(offsets.Push(r.one[:]...))
		}
		if k < from {
			continue
		}
		r.tell(&p.parts, w, l, k, at)
	}
}

// TellCached says how many tokens of a prompt were in the cache, whatever the engine says
// that answers: it may have got all of them from another one.
func (r *Reply) TellCached(i, tokens int) {
	if i >= 0 && i < len(r.prompts) {
		r.prompts[i].cached = &tokens
	}
}

// cachedOf is how many tokens of its prompt choice i has found in the cache.
func (r *Reply) cachedOf(i int) int {
	if n := r.prompts[i/r.req.N].cached; n != nil {
		return *n
	}
	return r.choices[i].cached
}

// echoOf is the text of a prompt.
func (r *Reply) echoOf(p *Prompt) string {
	if p.Text != "" || r.req.API != Completions || !r.req.Echo {
		return p.Text
	}
	s := r.words.Stream(r.req.SkipSpecial)
	return s.Push(p.Tokens...) + s.End()
}
