package body

import "math"

const (
	// MaxTokens is how many token ids of a body routing looks at.
	MaxTokens = 65536
	// MaxHintTokens is how many ids a header may hold.
	MaxHintTokens = 512
	// MaxHintBytes is how long their list may be.
	MaxHintBytes = 4096
)

// Tokener appends the token ids of a body's prompt to dst, of a batch those of the
// first sequence, and at most MaxTokens. count is how many there are: 0, with dst as
// it was, if the body has none or something among them is no unsigned 32-bit integer.
type Tokener func(b *Body, dst []uint32) (ids []uint32, count int64)

var (
	_ Tokener = TokensCompletions
	_ Tokener = TokensGenerate
)

// TokensGenerate returns the input_ids.
func TokensGenerate(b *Body, dst []uint32) (ids []uint32, count int64) {
	return appendTokens(dst, b.Value(KeyInputIDs))
}

// TokensCompletions returns the ids of a prompt that is given as such.
func TokensCompletions(b *Body, dst []uint32) (ids []uint32, count int64) {
	return appendTokens(dst, b.Value(KeyPrompt))
}

func appendTokens(dst []uint32, list []byte) (ids []uint32, count int64) {
	if one := first(list); len(one) > 0 && one[0] == '[' {
		list = one
	}
	ids = dst
	for w, ok := enter(list); ok; ok = w.next() {
		// Not w.value: digits are looked at once.
		id, end := tokenID(list, w.i)
		if end < 0 || !endsScalar(list[end]) {
			return dst, 0
		}
		w.i = end
		if count++; count <= MaxTokens {
			ids = append(ids, id)
		}
	}
	return ids, count
}

// ParseTokens appends the ids of a comma-separated list in a header to dst. It returns
// false, and dst as it was, if value is not one to MaxHintTokens decimal numbers of 32
// bits in at most MaxHintBytes bytes. Zeros may lead.
func ParseTokens(dst []uint32, value string) (ids []uint32, ok bool) {
	if len(value) > MaxHintBytes {
		return dst, false
	}
	ids = dst
	for i := 0; ; i++ {
		id, end := tokenID(value, i)
		if end < 0 || len(ids)-len(dst) == MaxHintTokens {
			return dst, false
		}
		ids = append(ids, id)
		if i = end; i == len(value) {
			return ids, true
		}
		if value[i] != ',' {
			return dst, false
		}
	}
}

// tokenID reads the decimal digits from i on. end is the index after them, -1 if
// there are none or the number is too large.
func tokenID[T string | []byte](in T, i int) (id uint32, end int) {
	var n uint64
	end = i
	for ; end < len(in); end++ {
		d := in[end] - '0'
		if d > 9 {
			break
		}
		if n = n*10 + uint64(d); n > math.MaxUint32 {
			return 0, -1
		}
	}
	if end == i {
		return 0, -1
	}
	return uint32(n), end
}
