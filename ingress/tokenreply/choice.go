package tokenreply

import (
	"slices"
	"unicode/utf8"

	"smg/engine/rpc"
)

// choice is one answer on its way from tokens to text.
type choice struct {
	text   Detokenizer
	begun  bool // there is an event of it
	ended  bool
	fresh  bool // parts.text has grown since the last event
	tokens int
	cached int
	runes  int // characters of the text, and of the prompt that is said before it

	matches []int32 // of each stop string: how much of it the text ends with
	pending []byte  // text that may be the begin of a stop string
	holds   bool    // held has no text yet: if nothing follows, the answer has stopped at it
	held    uint32

	// Why it ended, and at what.
	finish    string
	stopText  string
	stopToken uint32
	stopsAt   stopKind

	parts parts
}

// stopKind is what an answer stopped at.
type stopKind uint8

const (
	atNothing stopKind = iota
	atText
	atToken
	atEOS
)

const (
	finishStop   = "stop"
	finishLength = "length"
	finishAbort  = "abort"
)

// take brings c forward by a piece.
func (r *Reply) take(c *choice, w *Prompt, p *rpc.Piece) {
	if p.Cached > 0 {
		c.cached = p.Cached
	}
	for i := range p.Tokens {
		r.token(c, w, p, i)
		if c.ended {
			return
		}
	}
	if p.Done {
		r.end(c, p)
	}
}

// token takes the token at place i of a piece.
func (r *Reply) token(c *choice, w *Prompt, p *rpc.Piece, i int) {
	token := p.Tokens[i]
	if c.holds {
		c.holds = false
		if r.push(c, c.held); c.ended {
			return
		}
	}
	c.tokens++
	if r.req.API == Generate {
		c.parts.id(token)
	}
	if w.Logprobs.Output && i < places(p.Output) {
		r.tell(&c.parts, w, p.Output, i, c.runes)
	}
	if !r.req.KeepStop && (r.mayStop(token) || p.Done && i == len(p.Tokens)-1 && p.StopToken != nil && *p.StopToken == token) {
		c.holds, c.held = true, token
		return
	}
	r.push(c, token)
}

// mayStop says whether an answer may end with a token that is not a part of it.
func (r *Reply) mayStop(token uint32) bool {
	return slices.Contains(r.req.EOS, token) || slices.Contains(r.req.StopTokens, token)
}

// push makes text of a token.
func (r *Reply) push(c *choice, token uint32) {
	r.one[0] = token
	r.say(c, c.text.Push(r.one[:]...))
}

// end ends c as the engine says.
func (r *Reply) end(c *choice, p *rpc.Piece) {
	c.finish = p.Finish
	if c.finish == "" {
		c.finish = finishStop
	}
	stopped := c.finish == finishStop
	if c.holds {
		c.holds = false
		if stopped && p.StopText == "" && (p.StopToken == nil || *p.StopToken == c.held) {
			c.stopAt(r, c.held)
		} else if r.push(c, c.held); c.ended {
			return
		}
	}
	if stopped && c.stopsAt == atNothing {
		switch {
		case p.StopText != "":
			c.stopText, c.stopsAt = p.StopText, atText
		case p.StopToken != nil:
			c.stopAt(r, *p.StopToken)
		}
	}
	if r.say(c, c.text.End()); c.ended {
		return
	}
	c.ended = true
	show(c, c.pending)
	c.pending = nil
}

// stopAt notes the token that c stopped at.
func (c *choice) stopAt(r *Reply, token uint32) {
	c.stopToken, c.stopsAt = token, atToken
	if slices.Contains(r.req.EOS, token) && !slices.Contains(r.req.StopTokens, token) {
		c.stopsAt = atEOS
	}
}

// say takes text of c, up to a stop string. Of several that are found at the same time
// the one that begins first counts.
func (r *Reply) say(c *choice, text string) {
	if text == "" {
		return
	}
	if r.offsets {
		c.runes += utf8.RuneCountInString(text)
	}
	if len(r.stops) == 0 {
		show(c, text)
		return
	}
	base := len(c.pending)
	c.pending = append(c.pending, text...)
	found, from, upto, waits := -1, 0, 0, 0
	for i := range r.stops {
		s := &r.stops[i]
		end, at := s.find(c.matches[i], text)
		c.matches[i] = at
		waits = max(waits, int(at))
		if start := base + end - len(s.text); end > 0 && c.tokens >= r.req.MinTokens && (found < 0 || start < from) {
			found, from, upto = i, start, base+end
		}
	}
	switch {
	case found < 0 && r.req.KeepStop: // whatever becomes of it, it is part of the text
		show(c, c.pending)
		c.pending = c.pending[:0]
		return
	case found < 0:
		sure := len(c.pending) - waits
		show(c, c.pending[:sure])
		c.pending = c.pending[:copy(c.pending, c.pending[sure:])]
		return
	case r.req.KeepStop:
		from = upto
	}
	show(c, c.pending[:from])
	c.pending = nil
	c.ended, c.finish, c.stopText, c.stopsAt = true, finishStop, r.stops[found].text, atText
}

// show has text be a part of the answer.
func show[S string | []byte](c *choice, text S) {
	if len(text) > 0 {
		c.parts.text = appendEscaped(c.parts.text, text)
		c.fresh = true
	}
}
