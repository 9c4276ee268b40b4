package ingress

import (
	"bytes"

	"smg/ingress/body"
)

// cachedTokens has decode's answer tell how much of the prompt prefill found in its
// cache: to decode all of it looks cached, since it was fetched. Where prefill did not
// tell, nobody does.
type cachedTokens struct {
	found []byte
	at    *cachedField
}

// cachedField is where the answers of a route say it.
type cachedField struct {
	mark  []byte     // no answer says it without
	paths [][]string // the first one is that of whole answers
}

var (
	openAICached = &cachedField{[]byte(`"cached_tokens"`), [][]string{{"usage", "prompt_tokens_details", "cached_tokens"}}}

	responsesCached = &cachedField{[]byte(`"cached_tokens"`), [][]string{
		{"usage", "input_tokens_details", "cached_tokens"},
		{"response", "usage", "input_tokens_details", "cached_tokens"},
	}}

	messagesCached = &cachedField{[]byte(`"cache_read_input_tokens"`), [][]string{
		{"usage", "cache_read_input_tokens"},
		{"message", "usage", "cache_read_input_tokens"},
	}}
)

// cachedFieldOf is that of the answers to path.
func cachedFieldOf(path string) *cachedField {
	switch path {
	case messagesPath:
		return messagesCached
	case responsesPath:
		return responsesCached
	}
	return openAICached
}

// of is what an engine's whole answer says that it found in its cache, nil if it does
// not say.
func (f *cachedField) of(answer []byte) []byte {
	if !bytes.Contains(answer, f.mark) {
		return nil
	}
	d, ok := body.CheckDoc(answer)
	if !ok {
		return nil
	}
	return bytes.Clone(d.At(f.paths[0]...))
}

// countsCached is the rewriter of an answer whose KV prefill has handed over, nil where
// it will not say how much was cached.
func (x *exchange) countsCached(rt *route, found []byte) rewriter {
	f := cachedFieldOf(rt.path)
	if b := &x.query.body; f == openAICached && x.query.stream && string(body.Doc(b.Member("stream_options")).At("include_usage")) != "true" {
		return nil
	}
	return &cachedTokens{found, f}
}

func (c *cachedTokens) whole(answer []byte) []byte {
	if !bytes.Contains(answer, c.at.mark) {
		return answer
	}
	d, ok := body.CheckDoc(answer)
	if !ok {
		return answer
	}
	for _, path := range c.at.paths {
		if d.At(path...) != nil {
			d, _ = d.Set(nil, c.found, path...)
		}
	}
	return d
}

func (c *cachedTokens) event(dst, event []byte) []byte {
	if !bytes.Contains(event, c.at.mark) {
		return append(dst, event...)
	}
	data := eventData(event)
	return appendEvent(dst, event, data, c.whole(data))
}

// appendEvent appends an event whose data has become changed. Its other fields stay.
func appendEvent(dst, event, data, changed []byte) []byte {
	if bytes.Equal(data, changed) {
		return append(dst, event...)
	}
	if before, after, ok := bytes.Cut(event, data); ok {
		return append(append(append(dst, before...), changed...), after...)
	}
	if !bytes.HasPrefix(event, []byte("data:")) {
		return append(dst, event...)
	}
	// Its data was in several lines.
	dst = append(append(dst, "data: "...), changed...)
	return append(dst, "\n\n"...)
}
