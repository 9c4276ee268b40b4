package tokenreply

import (
	"fmt"

	"smg/engine/rpc"
)

// Reply is the answer to one request. It is for one goroutine.
type Reply struct {
	req     *Request
	words   Vocabulary
	dialect dialect
	stops   []stopString
	prompts []prompt
	choices []choice
	left    int // choices that have not ended
	offsets bool
	over    bool
	one     [1]uint32
	seen    []string // names of one place
	head    []byte   // of an event or of a whole answer
}

// New begins an answer, whose text words makes. The error is about what the request says.
func New(req *Request, words Vocabulary) (*Reply, error) {
	if err := req.check(); err != nil {
		return nil, fmt.Errorf("an answer of tokens: %w", err)
	}
	n := len(req.Prompts) * req.N
	r := &Reply{
		req: req, words: words, dialect: dialectOf(req.Engine), left: n,
		prompts: make([]prompt, len(req.Prompts)), choices: make([]choice, n),
	}
	for _, text := range req.Stop {
		r.stops = append(r.stops, newStop(text))
	}
	matches := make([]int32, n*len(r.stops))
	for i := range r.prompts {
		p := &req.Prompts[i]
		r.prompts[i] = prompt{tokens: len(p.Tokens), echo: r.echoOf(p), left: req.N}
		r.offsets = r.offsets || req.API == Completions && p.Logprobs.Output
	}
	for i := range r.choices {
		c := &r.choices[i]
		c.text = words.Stream(req.SkipSpecial)
		c.matches, matches = matches[:len(r.stops):len(r.stops)], matches[len(r.stops):]
	}
	if req.API != Generate {
		r.head = r.openAIHead()
	}
	r.echoed()
	return r, nil
}

// Append takes a piece of an answer to a prompt, and appends to dst the events that it
// makes, if the answer is streamed. Pieces of a choice that has ended say nothing new. An
// error means that there is no such choice.
func (r *Reply) Append(dst []byte, prompt int, p *rpc.Piece) ([]byte, error) {
	if prompt < 0 || prompt >= len(r.prompts) || p.Index < 0 || p.Index >= r.req.N {
		return dst, fmt.Errorf("a piece of choice %d of prompt %d: there are %d of %d", p.Index, prompt, r.req.N, len(r.prompts))
	}
	i := prompt*r.req.N + p.Index
	c := &r.choices[i]
	if c.ended {
		return dst, nil
	}
	if p.Prompt > 0 {
		r.prompts[prompt].tokens = p.Prompt
	}
	if p.Input != nil {
		r.TellPrompt(prompt, p.Input)
	}
	r.take(c, &r.req.Prompts[prompt], p)
	if c.ended {
		r.left--
		r.prompts[prompt].left--
	}
	if r.req.Stream && (c.begun || len(p.Tokens) > 0 || c.ended) {
		dst = r.events(dst, i)
	}
	return dst, nil
}

// Done says whether all choices have ended. An engine may go on behind the end of one
// where it has not seen the stop string that ended it.
func (r *Reply) Done() bool { return r.left == 0 }

// PromptDone says whether all choices of one prompt have ended.
func (r *Reply) PromptDone(i int) bool { return r.prompts[i].left == 0 }

// AppendEnd appends what follows the last piece: of a stream its last events, else all of
// the answer. It is to be called once, when all is done; more calls append nothing.
func (r *Reply) AppendEnd(dst []byte) []byte {
	switch {
	case r.over:
		return dst
	case !r.req.Stream && r.req.API == Generate:
		dst = r.generated(dst)
	case !r.req.Stream:
		dst = r.openAIWhole(dst)
	default:
		if r.req.API != Generate && r.req.IncludeUsage {
			dst = r.openAIClosing(dst)
		}
		dst = append(dst, "data: [DONE]\n\n"...)
	}
	r.over = true
	return dst
}

// N is how many answers each prompt gets.
func (r *Reply) N() int { return r.req.N }

// Usage is what an answer has taken.
type Usage struct {
	Prompt, Completion int // tokens
	Cached             int // of the prompts'
}

// Usage adds up what all choices have taken so far. A prompt counts once.
func (r *Reply) Usage() Usage {
	var u Usage
	for i := range r.prompts {
		u = u.plus(r.usageOf(i * r.req.N))
		for k := 1; k < r.req.N; k++ {
			u.Completion += r.choices[i*r.req.N+k].tokens
		}
	}
	return u
}

// usageOf is that of one choice, with its prompt.
func (r *Reply) usageOf(i int) Usage {
	return Usage{r.prompts[i/r.req.N].tokens, r.choices[i].tokens, r.cachedOf(i)}
}

func (u Usage) plus(v Usage) Usage {
	return Usage{u.Prompt + v.Prompt, u.Completion + v.Completion, u.Cached + v.Cached}
}

// Held is about how many bytes the answer keeps.
func (r *Reply) Held() int {
	n := 0
	for i := range r.prompts {
		n += r.prompts[i].parts.size()
	}
	for i := range r.choices {
		n += r.choices[i].parts.size() + cap(r.choices[i].pending)
	}
	return n
}

// events appends what there is to say of a choice.
func (r *Reply) events(dst []byte, i int) []byte {
	c := &r.choices[i]
	if r.req.API == Generate {
		if c.ended || c.fresh {
			dst = r.generateEvent(dst, i)
			c.fresh = false
		}
		return dst
	}
	if !c.begun {
		c.begun = true
		dst = r.openAIOpening(dst, i)
	}
	if c.fresh && (!c.ended || !r.dialect.mergeLast) {
		dst = r.openAIDelta(dst, i)
	}
	if c.ended {
		dst = r.openAILast(dst, i)
	}
	return dst
}
