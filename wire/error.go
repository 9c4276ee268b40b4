package wire

import (
	"errors"
	"fmt"
	"strings"

	"smg/worker"
)

// Code is why a service has no answer. The set is closed; a code that is newer
// than this program reads as CodeInternal.
type Code uint8

// The codes.
const (
	CodeInternal           Code = iota
	CodeNoAvailableWorkers      // worker.ErrUnavailable
	CodeOverloaded              // worker.ErrOverloaded
	CodeModelNotFound           // worker.ErrNoWorkers
	CodeInvalidTarget           // worker.ErrDeclined
	CodeNotReady                // ErrSelectionUnavailable: another replica may answer
	CodeDraining                // ErrSelectionUnavailable, too
	CodeUnsupportedVersion      // ErrSelectionUnavailable, too
	CodeCompatMismatch          // worker.ErrMismatch
	CodeAdmissionFull           // worker.ErrFull: also where another replica may let it wait
)

// codes are the names of codes and the errors that they stand for.
var codes = [...]struct {
	name string
	is   error
}{
	CodeInternal:           {"internal", nil},
	CodeNoAvailableWorkers: {"no_available_workers", worker.ErrUnavailable},
	CodeOverloaded:         {"worker_overload_protection_shed", worker.ErrOverloaded},
	CodeModelNotFound:      {"model_not_found", worker.ErrNoWorkers},
	CodeInvalidTarget:      {"invalid_target", worker.ErrDeclined},
	CodeNotReady:           {"not_ready", ErrSelectionUnavailable},
	CodeDraining:           {"draining", ErrSelectionUnavailable},
	CodeUnsupportedVersion: {"unsupported_version", ErrSelectionUnavailable},
	CodeCompatMismatch:     {"compat_mismatch", worker.ErrMismatch},
	CodeAdmissionFull:      {"admission_full", worker.ErrFull},
}

// String is the code's name in labels and logs.
func (c Code) String() string {
	if int(c) < len(codes) {
		return codes[c].name
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// Error is an error as it travels between processes. errors.Is finds in it the
// error of this package or of package worker that its code stands for.
type Error struct {
	Code    Code
	Message string // for people, at most [MaxString] bytes
	// Classes are those that are available, with CodeCompatMismatch.
	Classes []worker.Class
}

// Error is the message, or the code's name if there is none.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.String()
	}
	return e.Message
}

// Is says whether the code stands for target.
func (e *Error) Is(target error) bool {
	return int(e.Code) < len(codes) && codes[e.Code].is != nil && codes[e.Code].is == target
}

// ErrorOf is err as it travels: an Error as it is, one of the errors that a code
// stands for, however wrapped, with that code, any other as CodeInternal, and nil
// as nil. It says what err says, cut to fit.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Code: CodeInternal, Message: strings.ToValidUTF8(err.Error(), "\uFFFD")}
	if len(e.Message) > MaxString {
		e.Message = strings.ToValidUTF8(e.Message[:MaxString], "") // not half a rune
	}
	if m, ok := errors.AsType[*worker.Mismatch](err); ok {
		e.Classes = m.Classes
	}
	for c := range codes {
		if codes[c].is != nil && errors.Is(err, codes[c].is) {
			e.Code = Code(c)
			break
		}
	}
	return e
}
