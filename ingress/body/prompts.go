package body

// Count is how many prompts a body holds, of those for which an engine that hands
// its KV over needs a room each: 0 for a body that is no batch.
type Count func(*Body) int

// CountChat counts the answers that a chat asks for, if it asks for several.
func CountChat(b *Body) int {
	if n, ok := b.N(); ok && n > 1 {
		return int(min(n, maxPrompts))
	}
	return 0
}

// CountCompletions counts an array of prompts, also of one. A flat list of token
// ids is one prompt.
func CountCompletions(b *Body) int { return batchOf(b, KeyPrompt) }

// CountGenerate counts a list of lists of token ids, or a list of texts.
func CountGenerate(b *Body) int {
	if n := batchOf(b, KeyInputIDs); n > 0 {
		return n
	}
	return batchOf(b, KeyText)
}

// maxPrompts bounds what a single number in a body can make the gateway write.
const maxPrompts = 4096

func batchOf(b *Body, k Key) int {
	f := b.Field(k)
	if f.Type != TypeArray {
		return 0
	}
	n, first := elements(b.Value(k))
	if first == TypeNumber {
		return 0
	}
	return n
}

// elements counts the elements of a valid JSON array, and tells the type of the
// first one.
func elements(array []byte) (n int, first Type) {
	depth, text := 0, false
	for i := 0; i < len(array); i++ {
		c := array[i]
		if text {
			switch c {
			case '\\':
				i++
			case '"':
				text = false
			}
			continue
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case ']', '}':
			depth--
			continue
		case ',':
			if depth == 1 {
				n++
			}
			continue
		}
		if depth == 1 && n == 0 {
			n, first = 1, typeOf(c)
		}
		switch c {
		case '[', '{':
			depth++
		case '"':
			text = true
		}
	}
	return n, first
}
