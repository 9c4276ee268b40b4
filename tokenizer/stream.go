package tokenizer

// Stream decodes ids as they come. What it returns, put together, is what Decode
// makes of all ids, with one exception: of a run of byte tokens (<0xE2>) that is
// no UTF-8, Decode shows no character, while a Stream has shown those that were
// whole. It never returns a part of a character. Few decoders must see all ids to
// say anything, as when a pattern is replaced behind Fuse; then everything comes
// at the end. A Stream is for one goroutine.
type Stream struct {
	t           *Tokenizer
	out         text
	in          sink
	skipSpecial bool
}

// Stream begins a decoding; with skipSpecial special tokens give nothing.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	s := &Stream{t: t, skipSpecial: skipSpecial}
	s.out.space = len(t.dec) == 0
	s.in = chain(t.dec, &s.out, true)
	return s
}

// Push is the text that is certain with these ids; often none.
func (s *Stream) Push(ids ...uint32) string {
	for _, id := range ids {
		if token, ok := s.t.shown(id, s.skipSpecial); ok {
			s.in.put(token)
		}
	}
	return s.out.take()
}

// End is the text that waited for more. The stream is over after it.
func (s *Stream) End() string {
	s.in.end()
	return s.out.take()
}
