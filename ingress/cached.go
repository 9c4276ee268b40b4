package ingress

import (
	"bytes"

	"smg/ingress/body"
)

// cachedTokens has decode's answer tell how much of the prompt prefill found in its
// cache: to decode all of it looks cached, since it was fetched. Where prefill did not
// tell, nobody does.
type cachedTokens struct{ found []byte }

// cachedOf is what an engine's answer says that it found in its cache, nil if it does
// not say.
func cachedOf(answer []byte) []byte {
	if !bytes.Contains(answer, []byte(`"cached_tokens"`)) {
		return nil
	}
	d, ok := body.CheckDoc(answer)
	if !ok {
		return nil
	}
	return bytes.Clone(d.At("usage", "prompt_tokens_details", "cached_tokens"))
}

// countsCached is the rewriter of an answer whose KV prefill has handed over, nil where
// it will not say how much was cached.
func (x *exchange) countsCached(found []byte) rewriter {
	if b := &x.query.body; x.query.stream && string(body.Doc(b.Member("stream_options")).At("include_usage")) != "true" {
		return nil
	}
	return &cachedTokens{found}
}

func (c *cachedTokens) whole(answer []byte) []byte {
	if !bytes.Contains(answer, []byte(`"cached_tokens"`)) {
		return answer
	}
	d, ok := body.CheckDoc(answer)
	if !ok || d.At("usage", "prompt_tokens_details", "cached_tokens") == nil {
		return answer
	}
	changed, _ := d.Set(nil, c.found, "usage", "prompt_tokens_details", "cached_tokens")
	return changed
}

func (c *cachedTokens) event(dst, event []byte) []byte {
	if !bytes.Contains(event, []byte(`"cached_tokens"`)) {
		return append(dst, event...)
	}
	data := eventData(event)
	return appendEvent(dst, event, data, c.whole(data))
}

// appendEvent appends an event whose data has become changed.
func appendEvent(dst, event, data, changed []byte) []byte {
	if bytes.Equal(data, changed) || !bytes.HasPrefix(event, []byte("data:")) {
		return append(dst, event...)
	}
	dst = append(append(dst, "data: "...), changed...)
	return append(dst, "\n\n"...)
}
