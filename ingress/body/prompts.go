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

// CountOne is that of requests for which one room is enough, whatever they hold.
func CountOne(*Body) int { return 0 }

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
	for w, ok := enter(array); ok; ok = w.next() {
		if n == 0 {
			first = w.typ()
		}
		w.value()
		n++
	}
	return n, first
}
