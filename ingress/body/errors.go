package body

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Kind says what is wrong with a body.
type Kind uint8

// The kinds of faults.
const (
	// KindSyntax is a body that is not JSON: grammar, escapes, UTF-8.
	KindSyntax Kind = iota + 1
	// KindEmpty is a body without a value.
	KindEmpty
	// KindTrailing is something other than whitespace after the value.
	KindTrailing
	// KindDepth is a body nested deeper than allowed.
	KindDepth
	// KindTooLarge is a body longer than MaxBytes.
	KindTooLarge
	// KindNotObject is valid JSON that is no object.
	KindNotObject
	// KindType is a known key whose value has the wrong type.
	KindType
	// KindRule is a well-formed body that breaks a rule of its route, such as
	// a required key that is missing.
	KindRule
)

// String returns a short snake_case name, fit for logs.
func (k Kind) String() string {
	switch k {
	case KindSyntax:
		return "syntax"
	case KindEmpty:
		return "empty"
	case KindTrailing:
		return "trailing_data"
	case KindDepth:
		return "depth"
	case KindTooLarge:
		return "too_large"
	case KindNotObject:
		return "not_object"
	case KindType:
		return "type"
	case KindRule:
		return "rule"
	default:
		return "unknown"
	}
}

// Class groups kinds by who objects: the JSON parser, the decoder into the
// route's types, or the route's rules.
type Class uint8

// The classes of faults.
const (
	// ClassParse holds what no JSON parser would take.
	ClassParse Class = iota + 1
	// ClassType holds valid JSON of the wrong shape.
	ClassType
	// ClassRule holds well-shaped bodies that break a rule.
	ClassRule
)

// Class returns the class of the kind.
func (k Kind) Class() Class {
	switch k {
	case KindRule:
		return ClassRule
	case KindType, KindNotObject:
		return ClassType
	default:
		return ClassParse
	}
}

// Error is the only error type of this package. Its text is meant for the
// client: it names keys and single characters, never longer parts of the body.
type Error struct {
	Kind Kind
	// Key is the top-level key at fault, "" for faults of the whole body.
	Key string
	// Msg says what is wrong, without the position.
	Msg string
	// Offset is the byte at fault, counted from 0; -1 when there is no such
	// byte, as with a missing key.
	Offset int
	// Line and Column are Offset for an editor: counted from 1, Column in
	// characters. Both are 0 when Offset is -1.
	Line, Column int
}

// Error returns the message and, where there is one, the position.
func (e *Error) Error() string {
	msg := e.Msg
	if e.Kind == KindSyntax {
		msg = "invalid JSON: " + msg
	}
	if e.Offset < 0 {
		return msg
	}
	return fmt.Sprintf("%s (line %d, column %d, byte %d)", msg, e.Line, e.Column, e.Offset)
}

// newError returns an Error that points at raw[off]; off may be len(raw), or
// -1 for none.
func newError(raw []byte, kind Kind, off int, msg string) *Error {
	e := &Error{Kind: kind, Msg: msg, Offset: off}
	if off >= 0 {
		before := raw[:off]
		e.Line = 1 + bytes.Count(before, []byte{'\n'})
		e.Column = 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	}
	return e
}

// describe names what stands at raw[off] for a message.
func describe(raw []byte, off int) string {
	if off >= len(raw) {
		return "end of the body"
	}
	r, size := utf8.DecodeRune(raw[off:])
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Sprintf("byte 0x%02x", raw[off])
	case r < ' ' || r == 0x7f:
		return fmt.Sprintf("control character 0x%02x", r)
	default:
		return fmt.Sprintf("%q", r)
	}
}
