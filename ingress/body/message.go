package body

// message is what routing reads of one: JSON values as they are written, nil where
// there is none. Of a repeated key the last counts.
type message struct {
	kind      []byte // "type"
	role      []byte
	content   []byte
	reasoning [2][]byte // "reasoning_content", "reasoning"
}

// reasoned is the reasoning of the message. A client sends back what it got, under
// one of two names, or under both.
func (m *message) reasoned() []byte {
	if r := m.reasoning[0]; len(r) > len(`""`) && r[0] == '"' {
		return r
	}
	return m.reasoning[1]
}

// message takes the value at hand, which is no message if it is no object.
func (w *walk) message() (m message) {
	if w.typ() != TypeObject {
		w.value()
		return m
	}
	for ok := w.open(); ok; ok = w.next() {
		switch string(w.key()) {
		case "type":
			m.kind = w.value()
		case "role":
			m.role = w.value()
		case "content":
			m.content = w.value()
		case "reasoning_content":
			m.reasoning[0] = w.value()
		case "reasoning":
			m.reasoning[1] = w.value()
		default:
			w.value()
		}
	}
	return m
}

// content adds the text of a message: a string, or the text parts of a list. A part
// is an object or, as some engines take it, the text alone.
func (j *joiner) content(value []byte) {
	j.add(value)
	for w, ok := enter(value); ok; ok = w.next() {
		if w.typ() == TypeObject {
			j.add(w.textPart())
		} else {
			j.add(w.value())
		}
	}
}

// textPart takes the object at hand and returns its text, nil if it is no text part.
func (w *walk) textPart() []byte {
	var kind, text []byte
	for ok := w.open(); ok; ok = w.next() {
		switch string(w.key()) {
		case "type":
			kind = w.value()
		case "text":
			text = w.value()
		default:
			w.value()
		}
	}
	if says(kind, "text") || says(kind, "input_text") || says(kind, "output_text") {
		return text
	}
	return nil
}
