package body

// MaxText is how much of a text routing looks at, in bytes.
const MaxText = 256 << 10

// Texter returns the routing text of a body: what the engine will read, so that
// requests which share a beginning share it in the text too. Parts are joined by one
// space; empty ones, those that are no text, and names of roles are left out. A body
// that does not have the expected shape has less text, down to none, and is no fault.
//
// text is the beginning of the routing text, at most limit bytes of it (MaxText where
// all is wanted that counts, 0 where only the length is), cut between two characters.
// chars is the length of all of it, in Unicode scalars. text belongs to Raw where it
// stands there as it is, else to *room, which grows as needed and whose contents are
// lost: nobody may write to text, and it is valid as long as both are.
type Texter func(b *Body, room *[]byte, limit int) (text []byte, chars int64)

var (
	_ Texter = TextChat
	_ Texter = TextCompletions
	_ Texter = TextGenerate
	_ Texter = TextMessages
	_ Texter = TextResponses
	_ Texter = TextEmbeddings
	_ Texter = TextClassify
	_ Texter = TextRerank
)

// TextChat is the text of all messages in their order, whatever their role. What an
// assistant has reasoned follows what it said.
func TextChat(b *Body, room *[]byte, limit int) (text []byte, chars int64) {
	j := joiner{room: room, limit: limit}
	for w, ok := enter(b.Value(KeyMessages)); ok; ok = w.next() {
		m := w.message()
		j.content(m.content)
		if says(m.role, "assistant") {
			j.add(m.reasoned())
		}
	}
	return j.done()
}

// TextCompletions is the prompt, or the prompts of an array.
func TextCompletions(b *Body, room *[]byte, limit int) (text []byte, chars int64) {
	return textOf(b, KeyPrompt, room, limit)
}

// TextGenerate is the text or texts. Without, it is the token ids of all sequences in
// decimal, for a policy that reads no ids: where TokensGenerate finds some they come
// first, and nobody need ask for the text.
func TextGenerate(b *Body, room *[]byte, limit int) (text []byte, chars int64) {
	if b.Field(KeyText).Given() {
		return textOf(b, KeyText, room, limit)
	}
	j := joiner{room: room, limit: limit}
	j.ids(b.Value(KeyInputIDs))
	return j.done()
}

// TextMessages is the system prompt and the text blocks of all messages, in the form
// of Anthropic.
func TextMessages(b *Body, room *[]byte, limit int) (text []byte, chars int64) {
	j := joiner{room: room, limit: limit}
	j.content(b.Value(KeySystem))
	for w, ok := enter(b.Value(KeyMessages)); ok; ok = w.next() {
		j.content(w.message().content)
	}
	return j.done()
}

// TextResponses is the input text, or the text of the input items that are messages.
func TextResponses(b *Body, room *[]byte, limit int) (text []byte, chars int64) {
	j := joiner{room: room, limit: limit}
	j.add(b.Value(KeyInput))
	for w, ok := enter(b.Value(KeyInput)); ok; ok = w.next() {
		if m := w.message(); m.kind == nil || says(m.kind, "message") {
			j.content(m.content)
		}
	}
	return j.done()
}

// TextEmbeddings is the input text or texts.
func TextEmbeddings(b *Body, room *[]byte, limit int) (text []byte, chars int64) {
	return textOf(b, KeyInput, room, limit)
}

// TextClassify is the input text or texts.
func TextClassify(b *Body, room *[]byte, limit int) (text []byte, chars int64) {
	return textOf(b, KeyInput, room, limit)
}

// TextRerank is the query.
func TextRerank(b *Body, room *[]byte, limit int) (text []byte, chars int64) {
	j := joiner{room: room, limit: limit}
	j.add(b.Value(KeyQuery))
	return j.done()
}

// textOf is the text of a string, or of the strings of an array.
func textOf(b *Body, k Key, room *[]byte, limit int) (text []byte, chars int64) {
	j := joiner{room: room, limit: limit}
	j.add(b.Value(k))
	for w, ok := enter(b.Value(k)); ok; ok = w.next() {
		j.add(w.value())
	}
	return j.done()
}

// ids adds the ids of a list, or of all lists in one, as they are written.
func (j *joiner) ids(list []byte) {
	for w, ok := enter(list); ok; ok = w.next() {
		value := w.value()
		j.id(value)
		for w, ok := enter(value); ok; ok = w.next() {
			j.id(w.value())
		}
	}
}

func (j *joiner) id(value []byte) {
	if _, end := tokenID(value, 0); end == len(value) {
		j.part(value, false)
	}
}
