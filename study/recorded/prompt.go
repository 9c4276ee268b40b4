package recorded

import (
	"encoding/binary"

	"smg/record"
	"smg/sim"
)

// prompt is the begin of a prompt as it was told: digests, or the prompt itself.
type prompt struct {
	ask     *record.Select
	digests []byte
	tokens  int // that the digests are of
	text    bool
}

// promptOf is the prompt of an ask.
func promptOf(ask *record.Select) prompt {
	p := prompt{ask: ask, tokens: ask.Seen}
	switch {
	case len(ask.IDs) > 0:
		p.digests = ask.IDs
	case len(ask.WholeIDs) > 0:
		p.digests = record.DigestIDs(nil, ask.WholeIDs)
	case len(ask.Text) > 0:
		p.digests, p.text = ask.Text, true
	case ask.WholeText != "":
		p.digests, _ = record.DigestText(nil, ask.WholeText)
		p.text = true
	}
	if p.text {
		p.tokens = (ask.Seen + record.CharsPerToken - 1) / record.CharsPerToken
	}
	return p
}

// length is how many tokens the whole prompt has, as far as anybody knows.
func (p *prompt) length() int {
	switch a := p.ask; {
	case a.Tokens > 0:
		return int(a.Tokens)
	case a.Chars > 0:
		return int((a.Chars + record.CharsPerToken - 1) / record.CharsPerToken)
	default:
		return max(1, int(min(a.Credit, maxUntold)), p.tokens)
	}
}

// maxUntold is the longest that a prompt is taken for of which only its credit is
// known.
const maxUntold = 1 << 20

func (p *prompt) digest(block int) uint64 {
	return binary.LittleEndian.Uint64(p.digests[record.DigestBytes*block:])
}

// blocks are the hashes of an engine's full blocks of size tokens, as far as the
// prompt was told. Prompts of different partitions share none.
func (p *prompt) blocks(size int) []sim.BlockHash {
	var out []sim.BlockHash
	for end := size; end <= min(p.tokens, p.length()); end += size {
		h := p.digest(record.BlockOf(end-1)) ^ partition(p.ask.Space)
		out = append(out, sim.BlockHash(mix(h+uint64(end))))
	}
	return out
}

// appendText appends the text as it was told, or one that begins like another where
// the one that was told does.
func (p *prompt) appendText(buf []byte) []byte {
	if p.ask.WholeText != "" {
		return append(buf, p.ask.WholeText...)
	}
	p.words(func(word uint16) {
		buf = append(buf, letters[word&31], letters[word>>5&31], letters[word>>10&31], ' ')
	})
	return buf[:min(len(buf), p.ask.Seen)]
}

const letters = "abcdefghijklmnopqrstuvwxyz234567"

// appendIDs appends the ids as they were told, or others that begin like others where
// those do.
func (p *prompt) appendIDs(buf []uint32) []uint32 {
	if len(p.ask.WholeIDs) > 0 {
		return append(buf, p.ask.WholeIDs...)
	}
	p.words(func(word uint16) { buf = append(buf, uint32(word)) })
	return buf
}

// words calls yield for each token that was told, with one of 32,768 words that is a
// function of the token's block.
func (p *prompt) words(yield func(word uint16)) {
	at := 0
	for i := range len(p.digests) / record.DigestBytes {
		state, word := p.digest(i), uint64(0)
		for n := 0; at < min(record.BlockEnd(i), p.tokens); at++ {
			if n%4 == 0 { // 64 bits are good for four
				state += golden
				word = mix(state)
			}
			yield(uint16(word) & 0x7fff)
			word >>= 16
			n++
		}
	}
}

const golden = 0x9e3779b97f4a7c15

// mix is the finalizer of SplitMix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
