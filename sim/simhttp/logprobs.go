package simhttp

import (
	"fmt"

	"smg/sim/simtext"
)

// logprobs is what a request of /generate wants to know of probabilities. The numbers
// tell what they belong to, see docs/sim.md, and have more digits than a float64.
type logprobs struct {
	want  []bool // per prompt
	start int    // of the prompt's tokens, negative for none
	top   int
	ids   []simtext.Token
}

// readLogprobs reads it; nil if nothing is wanted.
func (f *fields) readLogprobs(prompts int) *logprobs {
	l := &logprobs{start: readOr(f, "logprob_start_len", -1), top: read[int](f, "top_logprobs_num"), ids: read[[]simtext.Token](f, "token_ids_logprob")}
	switch {
	case !f.has("return_logprob"):
		return nil
	case f.raw["return_logprob"][0] == '[':
		if l.want = read[[]bool](f, "return_logprob"); len(l.want) != prompts {
			f.fail("return_logprob", "return_logprob: %d values for %d prompts", len(l.want), prompts)
		}
	default:
		want := read[bool](f, "return_logprob")
		for range prompts {
			l.want = append(l.want, want)
		}
	}
	return l
}

// append appends what an engine in this mode says of a choice. Of a prompt that it has
// not computed it knows nothing.
func (l *logprobs) append(dst []byte, mode Mode, n, choice int, p prompt, out []simtext.Token) []byte {
	if l == nil || !l.want[choice/n] {
		return dst
	}
	var in []simtext.Token
	if mode != Decode && l.start >= 0 {
		in = p.tokens[min(l.start, len(p.tokens)):]
	}
	said := 2
	if mode == Prefill {
		said = 9 // decode's count
	}
	dst = l.tokens(append(dst, `,"input_token_logprobs":`...), 1, l.start, in)
	dst = l.tokens(append(dst, `,"output_token_logprobs":`...), said, 0, out)
	if l.top > 0 {
		dst = l.several(append(dst, `,"input_top_logprobs":`...), 3, l.start, len(in), make([]simtext.Token, l.top))
		dst = l.several(append(dst, `,"output_top_logprobs":`...), 4, 0, len(out), make([]simtext.Token, l.top))
	}
	if len(l.ids) > 0 {
		dst = l.several(append(dst, `,"input_token_ids_logprobs":`...), 5, l.start, len(in), l.ids)
	}
	return dst
}

// tokens appends one entry per token. The first of a prompt has no number.
func (l *logprobs) tokens(dst []byte, what, start int, tokens []simtext.Token) []byte {
	dst = append(dst, '[')
	for i, t := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		if what == 1 && start+i == 0 {
			dst = fmt.Appendf(dst, "[null,%d,null]", t)
			continue
		}
		dst = fmt.Appendf(dst, "[%s,%d,null]", logprob(what, start+i), t)
	}
	return append(dst, ']')
}

// several appends a list of the same tokens for each place.
func (l *logprobs) several(dst []byte, what, start, places int, tokens []simtext.Token) []byte {
	dst = append(dst, '[')
	for i := range places {
		if i > 0 {
			dst = append(dst, ',')
		}
		if what != 4 && start+i == 0 {
			dst = append(dst, "null"...)
			continue
		}
		dst = append(dst, '[')
		for k, t := range tokens {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = fmt.Appendf(dst, "[%s,%d,null]", logprob(what, start+i), int(t)+k)
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

func logprob(what, place int) string { return fmt.Sprintf("-%d.%06d00000000000000001", what, place) }
