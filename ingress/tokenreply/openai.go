package tokenreply

import "strconv"

// openAIHead is how answers begin, events as well.
func (r *Reply) openAIHead() []byte {
	object := "text_completion"
	switch {
	case r.req.API == Chat && r.req.Stream:
		object = "chat.completion.chunk"
	case r.req.API == Chat:
		object = "chat.completion"
	}
	var dst []byte
	if r.req.Stream {
		dst = append(dst, "data: "...)
	}
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, r.req.ID)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, r.req.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, r.req.Model)
	return append(dst, `,"choices":[`...)
}

// echoed has the text of all choices begin with their prompts.
func (r *Reply) echoed() {
	if r.req.API != Completions || !r.req.Echo {
		return
	}
	for i := range r.choices {
		c, p := &r.choices[i], &r.prompts[i/r.req.N]
		c.runes = len([]rune(p.echo))
	}
}

// openAIWhole appends an answer that is no stream.
func (r *Reply) openAIWhole(dst []byte) []byte {
	dst = append(dst, r.head...)
	for i := range r.choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		c, p := &r.choices[i], &r.prompts[i/r.req.N]
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		if r.req.API == Chat {
			dst = append(dst, `,"message":{"role":"assistant","content":"`...)
			dst = append(dst, c.parts.text...)
			dst = append(dst, '"')
			dst = append(dst, r.dialect.message...)
			dst = append(dst, '}')
			dst = r.logprobs(dst, i, nil, &c.parts)
		} else {
			dst = append(dst, `,"text":"`...)
			var echo *parts
			if r.req.Echo {
				dst = appendEscaped(dst, p.echo)
				echo = &p.parts
			}
			dst = append(dst, c.parts.text...)
			dst = append(dst, '"')
			dst = r.logprobs(dst, i, echo, &c.parts)
		}
		dst = r.reason(dst, c)
	}
	dst = append(dst, "],"...)
	dst = r.usage(dst, r.Usage())
	return append(append(dst, r.dialect.answerTail...), '}')
}

// openAIOpening appends the event that a choice begins with, if it does with one.
func (r *Reply) openAIOpening(dst []byte, i int) []byte {
	p := &r.prompts[i/r.req.N]
	switch {
	case r.req.API == Chat:
		dst = r.frame(dst, i)
		dst = append(dst, `"role":"assistant","content":"`...)
		dst = r.textEnd(dst)
		dst = append(dst, `,"logprobs":null`...)
	case r.req.Echo:
		dst = r.frame(dst, i)
		dst = append(dst, '"')
		dst = appendEscaped(dst, p.echo)
		dst = r.textEnd(dst)
		dst = r.logprobs(dst, i, &p.parts, nil)
	default:
		return dst
	}
	u := r.usageOf(i)
	u.Completion = 0
	return r.eventEnd(r.open(dst), u)
}

// frame begins an event up to the text of a choice.
func (r *Reply) frame(dst []byte, i int) []byte {
	dst = append(dst, r.head...)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	if r.req.API == Chat {
		return append(dst, `,"delta":{`...)
	}
	return append(dst, `,"text":`...)
}

// textEnd ends a text in an event.
func (r *Reply) textEnd(dst []byte) []byte {
	dst = append(dst, '"')
	if r.req.API == Chat {
		dst = append(dst, r.dialect.deltaTail...)
		dst = append(dst, '}')
	}
	return dst
}

// news appends an event's text of a choice and what goes with it, up to why it ended.
func (r *Reply) news(dst []byte, i int) []byte {
	c := &r.choices[i]
	dst = r.frame(dst, i)
	if r.req.API == Chat {
		dst = append(dst, r.dialect.role...)
		dst = append(dst, `"content":`...)
	}
	dst = append(dst, '"')
	dst = append(dst, c.parts.text...)
	dst = r.textEnd(dst)
	dst = r.logprobs(dst, i, nil, &c.parts)
	c.parts.clear()
	c.fresh = false
	return dst
}

func (r *Reply) openAIDelta(dst []byte, i int) []byte {
	return r.eventEnd(r.open(r.news(dst, i)), r.usageOf(i))
}

func (r *Reply) openAILast(dst []byte, i int) []byte {
	return r.eventEnd(r.reason(r.news(dst, i), &r.choices[i]), r.usageOf(i))
}

// open ends a choice that goes on.
func (r *Reply) open(dst []byte) []byte {
	dst = append(dst, `,"finish_reason":null,"`...)
	dst = append(dst, r.dialect.stopKey...)
	return append(dst, `":null}`...)
}

// reason ends a choice with why it ended, and what it stopped at.
func (r *Reply) reason(dst []byte, c *choice) []byte {
	dst = append(dst, `,"finish_reason":`...)
	if c.ended {
		dst = appendString(dst, c.finish)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"`...)
	dst = append(dst, r.dialect.stopKey...)
	dst = append(dst, `":`...)
	return append(r.stop(dst, c, r.dialect.tellsEOS), '}')
}

// stop appends what c stopped at.
func (r *Reply) stop(dst []byte, c *choice, eos bool) []byte {
	switch {
	case c.stopsAt == atText:
		return appendString(dst, c.stopText)
	case c.stopsAt == atToken, c.stopsAt == atEOS && eos:
		return strconv.AppendUint(dst, uint64(c.stopToken), 10)
	default:
		return append(dst, "null"...)
	}
}

// eventEnd ends an event of a choice.
func (r *Reply) eventEnd(dst []byte, u Usage) []byte {
	dst = append(dst, ']')
	if r.req.IncludeUsage && r.req.ContinuousUsage {
		dst = r.usage(append(dst, ','), u)
	} else {
		dst = append(dst, r.dialect.chunkTail...)
	}
	return append(dst, "}\n\n"...)
}

// openAIClosing appends the event with the counts of all.
func (r *Reply) openAIClosing(dst []byte) []byte {
	dst = append(dst, r.head...)
	dst = append(dst, "],"...)
	dst = r.usage(dst, r.Usage())
	return append(dst, "}\n\n"...)
}

func (r *Reply) usage(dst []byte, u Usage) []byte {
	dst = append(dst, `"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt+u.Completion), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Completion), 10)
	dst = append(dst, `,"prompt_tokens_details":`...)
	if r.req.HideCached {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, `{"cached_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.Cached), 10)
		dst = append(dst, '}')
	}
	return append(append(dst, r.dialect.usageTail...), '}')
}

// logprobs appends what is told of the tokens of a prompt and of an answer; each may be
// nil.
func (r *Reply) logprobs(dst []byte, i int, prompt, answer *parts) []byte {
	dst = append(dst, `,"logprobs":`...)
	lists := make([]*parts, 0, 2)
	for _, p := range [...]*parts{prompt, answer} {
		if p != nil && len(p.values) > 0 {
			lists = append(lists, p)
		}
	}
	w := &r.req.Prompts[i/r.req.N]
	if !w.Logprobs.Output || len(lists) == 0 && r.req.Stream {
		return append(dst, "null"...)
	}
	if r.req.API == Chat {
		return append(joined(dst, `{"content":[`, lists, values), "]}"...)
	}
	dst = joined(dst, `{"text_offset":[`, lists, offsets)
	dst = joined(dst, `],"token_logprobs":[`, lists, values)
	dst = joined(dst, `],"tokens":[`, lists, names)
	dst = joined(dst, `],"top_logprobs":[`, lists, tops)
	return append(dst, "]}"...)
}

func values(p *parts) []byte  { return p.values }
func names(p *parts) []byte   { return p.names }
func tops(p *parts) []byte    { return p.tops }
func offsets(p *parts) []byte { return p.offsets }

// joined appends one list of what several have.
func joined(dst []byte, before string, all []*parts, part func(*parts) []byte) []byte {
	dst = append(dst, before...)
	for i, p := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, part(p)...)
	}
	return dst
}
