package mooncake

// CharsPerToken is the length of every token of a prompt's text.
const CharsPerToken = 4

// Text appends the prompt as text, but no more than limit characters of it: words of
// three letters and a blank, one a token. Characters are bytes.
func (l *Line) Text(buf []byte, limit int) []byte {
	left := min(l.Input, limit/CharsPerToken)
	for _, id := range l.Blocks {
		left -= each(id, min(left, BlockSize), func(word uint16) {
			buf = append(buf, letters[word&31], letters[word>>5&31], letters[word>>10&31], ' ')
		})
	}
	return buf
}

// Tokens appends the ids of the prompt's tokens.
func (l *Line) Tokens(buf []uint32) []uint32 {
	left := l.Input
	for _, id := range l.Blocks {
		left -= each(id, min(left, BlockSize), func(word uint16) { buf = append(buf, uint32(word)) })
	}
	return buf
}

const letters = "abcdefghijklmnopqrstuvwxyz234567"

// each calls yield for the first n tokens of a block, which are a function of its
// id, and returns n. A token is one of 32,768 words.
func each(id uint64, n int, yield func(word uint16)) int {
	state, word := mix(&id), uint64(0) // mixed: blocks with neighbouring ids are not each other's shifted
	for i := range n {
		if i%4 == 0 { // 64 bits are good for four
			word = mix(&state)
		}
		yield(uint16(word) & 0x7fff)
		word >>= 16
	}
	return n
}

// mix is the next number of SplitMix64.
func mix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Common is how many leading blocks all lines share: a system prompt.
func Common(lines []Line) int {
	if len(lines) == 0 {
		return 0
	}
	first := lines[0].Blocks
	n := len(first)
	for i := range lines {
		blocks := lines[i].Blocks
		n = min(n, len(blocks))
		for n > 0 && blocks[n-1] != first[n-1] { // ids name prefixes: the last one decides
			n--
		}
	}
	return n
}

// Conversation tells which requests belong together, as far as a trace without
// sessions can: by the first block behind the common ones. A prompt that has no
// more than those belongs to its last block.
func (l *Line) Conversation(common int) uint64 {
	return l.Blocks[min(common, len(l.Blocks)-1)]
}
