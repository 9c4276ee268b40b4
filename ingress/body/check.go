package body

// Check tells whether a parsed body fits a route. Its errors are of type
// *Error, of KindType or KindRule. A key whose value is null counts as absent.
type Check func(*Body) error

var (
	_ Check = CheckChat
	_ Check = CheckCompletions
	_ Check = CheckGenerate
	_ Check = CheckMessages
	_ Check = CheckResponses
	_ Check = CheckInput
	_ Check = CheckRerank
)

// CheckChat holds the rules of chat completions: a model, and at least one
// message.
func CheckChat(b *Body) error {
	if err := b.required(KeyModel, TypeString); err != nil {
		return err
	}
	if err := b.required(KeyMessages, TypeArray); err != nil {
		return err
	}
	if b.empty(KeyMessages) {
		return b.fault(KindRule, KeyMessages, `"messages" must hold at least one message`)
	}
	return b.common()
}

// CheckCompletions holds the rules of completions: a model and a prompt.
func CheckCompletions(b *Body) error {
	if err := b.required(KeyModel, TypeString); err != nil {
		return err
	}
	if err := b.required(KeyPrompt, TypeString, TypeArray); err != nil {
		return err
	}
	return b.common()
}

// CheckGenerate holds the rules of the native route: exactly one of text and
// input_ids. A model is not required.
func CheckGenerate(b *Body) error {
	for _, err := range [...]error{
		b.optional(KeyModel, TypeString),
		b.optional(KeyStream, TypeBool),
		b.optional(KeyRID, TypeString, TypeArray),
		b.optional(KeyText, TypeString, TypeArray),
		b.optional(KeyInputIDs, TypeArray),
	} {
		if err != nil {
			return err
		}
	}
	switch text, ids := b.Field(KeyText).Given(), b.Field(KeyInputIDs).Given(); {
	case text && ids:
		return b.fault(KindRule, KeyInputIDs, `give either "text" or "input_ids", not both`)
	case !text && !ids:
		return b.fault(KindRule, KeyText, `"text" or "input_ids" is required`)
	}
	return nil
}

// CheckMessages holds the rules of Anthropic's messages: a model, a limit, and at least
// one message.
func CheckMessages(b *Body) error {
	for _, err := range [...]error{
		b.required(KeyModel, TypeString),
		b.required(KeyMaxTokens, TypeNumber),
		b.required(KeyMessages, TypeArray),
		b.optional(KeyStream, TypeBool),
	} {
		if err != nil {
			return err
		}
	}
	if b.empty(KeyMessages) {
		return b.fault(KindRule, KeyMessages, `"messages" must hold at least one message`)
	}
	return nil
}

// CheckResponses holds the rules of responses: a model and an input.
func CheckResponses(b *Body) error {
	if err := CheckInput(b); err != nil {
		return err
	}
	return b.optional(KeyStream, TypeBool)
}

// CheckInput holds the rules of embeddings and of classes: a model and an input.
func CheckInput(b *Body) error {
	if err := b.required(KeyModel, TypeString); err != nil {
		return err
	}
	return b.required(KeyInput, TypeString, TypeArray)
}

// CheckRerank holds the rules of reranking: a query, and at least one document. A model
// is not required.
func CheckRerank(b *Body) error {
	for _, err := range [...]error{
		b.optional(KeyModel, TypeString),
		b.required(KeyQuery, TypeString),
		b.required(KeyDocuments, TypeArray),
	} {
		if err != nil {
			return err
		}
	}
	if b.empty(KeyDocuments) {
		return b.fault(KindRule, KeyDocuments, `"documents" must hold at least one document`)
	}
	return nil
}

// empty tells whether the array that k holds has no elements.
func (b *Body) empty(k Key) bool {
	s := scanner{data: b.raw}
	return s.at(s.space(b.Field(k).Start+1)) == ']'
}

// common holds the rules of all routes in OpenAI's form.
func (b *Body) common() error {
	if err := b.optional(KeyStream, TypeBool); err != nil {
		return err
	}
	if err := b.optional(KeyN, TypeNumber); err != nil || !b.Field(KeyN).Given() {
		return err
	}
	switch n, whole := b.N(); {
	case !whole:
		return b.fault(KindType, KeyN, `"n" must be a whole number`)
	case n < 1:
		return b.fault(KindRule, KeyN, `"n" must be at least 1`)
	}
	return nil
}

func (b *Body) required(k Key, types ...Type) error {
	if !b.Field(k).Given() {
		return b.fault(KindRule, k, `"`+k.String()+`" is required`)
	}
	return b.optional(k, types...)
}

func (b *Body) optional(k Key, types ...Type) error {
	f := b.Field(k)
	if !f.Given() {
		return nil
	}
	want := ""
	for _, t := range types {
		if f.Type == t {
			return nil
		}
		if want != "" {
			want += " or "
		}
		want += t.String()
	}
	return b.fault(KindType, k, `"`+k.String()+`" must be `+want+", not "+f.Type.String())
}

// fault points at the value of k, if there is one.
func (b *Body) fault(kind Kind, k Key, msg string) error {
	off := -1
	if f := b.Field(k); f.Present() {
		off = f.Start
	}
	err := newError(b.raw, kind, off, msg)
	err.Key = k.String()
	return err
}
