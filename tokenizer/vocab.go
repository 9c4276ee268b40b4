package tokenizer

import "fmt"

// vocab are tokens and their ids.
type vocab struct {
	ids    map[string]uint32
	tokens map[uint32]string
}

func newVocab(ids map[string]uint32) vocab {
	v := vocab{ids: ids, tokens: make(map[uint32]string, len(ids))}
	for token, id := range ids {
		v.tokens[id] = token
	}
	return v
}

func (v *vocab) id(token string) (uint32, bool) {
	id, ok := v.ids[token]
	return id, ok
}

func (v *vocab) token(id uint32) (string, bool) {
	token, ok := v.tokens[id]
	return token, ok
}

func (v *vocab) size() int { return len(v.ids) }

// byteTokens are the ids of <0x00> to <0xFF>, -1 where there is none.
func (v *vocab) byteTokens() *[256]int64 {
	var b [256]int64
	for i := range b {
		b[i] = -1
		if id, ok := v.ids[fmt.Sprintf("<0x%02X>", i)]; ok {
			b[i] = int64(id)
		}
	}
	return &b
}
