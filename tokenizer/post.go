package tokenizer

// postPiece is a part of what a prompt becomes: ids that come with special tokens
// wanted, and then perhaps the text.
type postPiece struct {
	ids  []uint32
	text bool
}

// around puts ids before and after what there is.
func around(post []postPiece, before, after uint32) []postPiece {
	out := []postPiece{{ids: []uint32{before}}}
	out = append(out, post...)
	return append(out, postPiece{ids: []uint32{after}})
}
