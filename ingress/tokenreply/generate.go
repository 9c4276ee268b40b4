package tokenreply

import "strconv"

// many says whether the answer to Generate is a list.
func (r *Reply) many() bool { return r.req.Batch || r.req.N > 1 }

// generated appends an answer that is no stream.
func (r *Reply) generated(dst []byte) []byte {
	if !r.many() {
		return r.generateItem(dst, 0)
	}
	dst = append(dst, '[')
	for i := range r.choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.generateItem(dst, i)
	}
	return append(dst, ']')
}

// generateEvent appends an event of a choice: all of it from the beginning, or what is
// new.
func (r *Reply) generateEvent(dst []byte, i int) []byte {
	dst = append(dst, "data: "...)
	dst = r.generateItem(dst, i)
	c := &r.choices[i]
	if r.req.Incremental {
		c.parts.clear()
	}
	c.begun = true
	return append(dst, "\n\n"...)
}

func (r *Reply) generateItem(dst []byte, i int) []byte {
	c, p := &r.choices[i], &r.prompts[i/r.req.N]
	dst = append(dst, `{"text":"`...)
	dst = append(dst, c.parts.text...)
	dst = append(dst, `","output_ids":[`...)
	dst = append(dst, c.parts.ids...)
	dst = append(dst, `],"meta_info":{"id":`...)
	dst = appendString(dst, r.req.Prompts[i/r.req.N].ID)
	dst = append(dst, `,"finish_reason":`...)
	dst = r.generateReason(dst, c)
	dst = append(dst, `,"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(p.tokens), 10)
	dst = append(dst, `,"weight_version":"default","total_retractions":0,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(c.tokens), 10)
	dst = append(dst, `,"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.cachedOf(i)), 10)
	dst = r.generateLogprobs(dst, i)
	if c.ended && r.req.Elapsed != nil {
		dst = append(dst, `,"e2e_latency":`...)
		dst = strconv.AppendFloat(dst, r.req.Elapsed().Seconds(), 'f', 6, 64)
	}
	dst = append(dst, '}')
	if r.many() && r.req.Stream {
		dst = append(dst, `,"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
	}
	return append(dst, '}')
}

// generateReason appends why a choice ended, in SGLang's own form.
func (r *Reply) generateReason(dst []byte, c *choice) []byte {
	if !c.ended {
		return append(dst, "null"...)
	}
	switch c.finish {
	case finishAbort:
		return append(dst, `{"type":"abort","message":"Aborted","status_code":null,"err_type":null}`...)
	case finishLength:
		dst = append(dst, `{"type":"length","length":`...)
		return append(strconv.AppendInt(dst, int64(c.tokens), 10), '}')
	case finishStop:
		return append(r.stop(append(dst, `{"type":"stop","matched":`...), c, true), '}')
	}
	dst = append(dst, `{"type":`...)
	return append(appendString(dst, c.finish), '}')
}

// generateLogprobs appends the probabilities that a prompt wants. Events of what is new
// tell of the prompt once.
func (r *Reply) generateLogprobs(dst []byte, i int) []byte {
	c, p := &r.choices[i], &r.prompts[i/r.req.N].parts
	w := &r.req.Prompts[i/r.req.N]
	if !w.Logprobs.Output {
		return dst
	}
	if c.begun && r.req.Incremental {
		p = &parts{}
	}
	dst = list(dst, `,"input_token_logprobs":[`, p.values)
	dst = list(dst, `,"output_token_logprobs":[`, c.parts.values)
	if w.Logprobs.Top > 0 {
		dst = list(dst, `,"input_top_logprobs":[`, p.tops)
		dst = list(dst, `,"output_top_logprobs":[`, c.parts.tops)
	}
	if len(w.Logprobs.Tokens) > 0 {
		dst = list(dst, `,"input_token_ids_logprobs":[`, p.asked)
		dst = list(dst, `,"output_token_ids_logprobs":[`, c.parts.asked)
	}
	return dst
}

func list(dst []byte, before string, items []byte) []byte {
	dst = append(dst, before...)
	dst = append(dst, items...)
	return append(dst, ']')
}
