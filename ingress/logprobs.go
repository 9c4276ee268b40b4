package ingress

import (
	"bytes"
	"slices"
	"strconv"

	"smg/ingress/body"
)

// promptLogprobs is what a prefill worker's answer says of the probabilities of its
// prompts' tokens. It has decode's answer say the same: decode knows only those of the
// tokens that it has made.
type promptLogprobs struct {
	srv    *Server
	events bool
	held   int64  // of the budget
	lost   bool   // it was too much to keep
	all    []byte // of an answer that is no stream
	list   bool   // the answer is one
	// meta is what is said of each answer, by its index as it is written.
	meta map[string]body.Doc
}

const (
	generatePath = "/generate"
	fieldMeta    = "meta_info"
	firstOfMeta  = "input_token_logprobs"
)

// promptFields are the members of meta_info that tell of a prompt's tokens.
func promptFields() [3]string {
	return [...]string{firstOfMeta, "input_top_logprobs", "input_token_ids_logprobs"}
}

// wantsLogprobs says whether the client asks for probabilities of its prompts' tokens.
// Only SGLang's own API has them.
func wantsLogprobs(rt *route, b *body.Body) bool {
	if rt.path != generatePath {
		return false
	}
	v := body.Doc(b.Member("return_logprob"))
	return string(v) == "true" || slices.ContainsFunc(v.Elements(), func(e body.Doc) bool { return string(e) == "true" })
}

// reserve takes n bytes of the budget for what is kept of an answer.
func (p *promptLogprobs) reserve(n int) bool {
	if p.lost || p.held+int64(n) > p.srv.cfg.MaxPayloadBytes || !p.srv.buffers.reserve(int64(n)) {
		p.lost, p.all, p.meta = true, nil, nil
		return false
	}
	p.held += int64(n)
	return true
}

func (p *promptLogprobs) release() { p.srv.buffers.release(p.held) }

// piece takes one of prefill's answer, if that is no stream.
func (p *promptLogprobs) piece(b []byte) {
	if p.reserve(len(b)) {
		p.all = append(p.all, b...)
	}
}

// said takes an event of prefill's answer. The last one that tells counts.
func (p *promptLogprobs) said(event []byte) {
	d, ok := body.CheckDoc(eventData(event))
	if !ok {
		return
	}
	meta := d.At(fieldMeta)
	if meta.At(firstOfMeta) == nil || !p.reserve(len(meta)) {
		return
	}
	if p.meta == nil {
		p.meta = map[string]body.Doc{}
	}
	p.meta[indexOf(d)] = bytes.Clone(meta)
}

// ended takes the end of prefill's answer.
func (p *promptLogprobs) ended() {
	d, ok := body.CheckDoc(p.all)
	if p.lost || p.events || !ok {
		return
	}
	p.meta = map[string]body.Doc{}
	answers := d.Elements()
	if p.list = answers != nil; !p.list {
		answers = []body.Doc{d}
	}
	for i, a := range answers {
		p.meta[strconv.Itoa(i)] = a.At(fieldMeta)
	}
}

// indexOf is which of several answers an event belongs to.
func indexOf(d body.Doc) string {
	if i := d.At("index"); i != nil {
		return string(i)
	}
	return "0"
}

func (p *promptLogprobs) event(dst, event []byte) []byte {
	data := eventData(event)
	d, ok := body.CheckDoc(data)
	if !ok {
		return append(dst, event...)
	}
	return appendEvent(dst, event, data, p.merged(d, indexOf(d)))
}

func (p *promptLogprobs) whole(answer []byte) []byte {
	d, ok := body.CheckDoc(answer)
	if !ok {
		return answer
	}
	answers := d.Elements()
	switch {
	case answers == nil && !p.list:
		return p.merged(d, "0")
	case !p.list || len(answers) != len(p.meta):
		return answer
	}
	all := make([]byte, 0, len(answer)+len(p.all))
	for i, a := range answers {
		all = append(append(all, "[,"[min(i, 1)]), p.merged(a, strconv.Itoa(i))...)
	}
	return append(all, ']')
}

// merged is one answer of decode's with what prefill has said of its prompt. Numbers
// stay as they are written.
func (p *promptLogprobs) merged(d body.Doc, index string) []byte {
	prefill := p.meta[index]
	if !isArray(prefill.At(firstOfMeta)) || !isArray(d.At(fieldMeta, firstOfMeta)) {
		return d
	}
	for _, field := range promptFields() {
		before, after := prefill.At(field), d.At(fieldMeta, field)
		if !isArray(before) {
			continue
		}
		if changed, ok := d.Set(nil, concat(before, after), fieldMeta, field); ok {
			d = changed
		}
	}
	return d
}

func isArray(d body.Doc) bool { return len(d) > 0 && d[0] == '[' }

// concat is an array and then another; what is none counts as empty.
func concat(a, b body.Doc) []byte {
	if !isArray(b) {
		return a
	}
	first, second := bytes.TrimSpace(a[1:len(a)-1]), bytes.TrimSpace(b[1:len(b)-1])
	joined := make([]byte, 0, len(a)+len(b))
	joined = append(append(joined, '['), first...)
	if len(first) > 0 && len(second) > 0 {
		joined = append(joined, ',')
	}
	return append(append(joined, second...), ']')
}
