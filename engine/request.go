package engine

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Field is one header field, its name as written.
type Field struct{ Name, Value string }

// Request is what to send. The client reads it only; nothing of it may change
// until [Client.Send] failed or [Response.Close] returned.
type Request struct {
	// Method, for instance POST.
	Method string
	// Path is the target in origin form, with its query, already escaped.
	Path string
	// Fields go out in this order, besides those that the client writes
	// itself and therefore refuses here: Host, Content-Length, and those
	// that concern the connection.
	Fields []Field
	// Body goes out with its length, in one write with the head.
	Body []byte
	// Chunked says that Body is in the chunked coding already: it goes out as it is,
	// without a length.
	Chunked bool
	// Stream is a body that is read as it is sent, in the chunked coding, in place of
	// Body. Such a request is sent once. The engine may answer before it has all of it;
	// [Response.Sent] tells. Close is called when nothing more of it is wanted, before
	// Send fails or Close of the response returns, and must end a Read that is under way.
	// When Read fails by itself, so does Send, or the answer that has begun.
	Stream io.ReadCloser
	// NoResend forbids the free re-send, for bodies that the engine must not
	// see twice.
	NoResend bool
}

// check finds what would split or confuse the message.
func (r *Request) check() error {
	if !validToken(r.Method) {
		return fmt.Errorf("method %q", r.Method)
	}
	if r.Method == http.MethodConnect {
		return errors.New("method CONNECT")
	}
	if !validPath(r.Path) {
		return fmt.Errorf("path %q", r.Path)
	}
	if r.Stream != nil && r.Body != nil {
		return errors.New("two bodies")
	}
	for _, f := range r.Fields {
		if !validToken(f.Name) {
			return fmt.Errorf("field name %q", f.Name)
		}
		if reserved(f.Name) {
			return fmt.Errorf("field %s is written by the client alone", f.Name)
		}
		if !validValue(f.Value) {
			// The value may be a key: it is not repeated.
			return fmt.Errorf("value of field %s has a control character", f.Name)
		}
	}
	return nil
}

// reserved lists the fields that frame the message or rule the connection.
func reserved(name string) bool {
	switch len(name) {
	case 2:
		return equalFold(name, "te")
	case 4:
		return equalFold(name, "host")
	case 6:
		return equalFold(name, "expect")
	case 7:
		return equalFold(name, "upgrade") || equalFold(name, "trailer")
	case 10:
		return equalFold(name, "connection") || equalFold(name, "keep-alive")
	case 14:
		return equalFold(name, "content-length")
	case 16:
		return equalFold(name, "proxy-connection")
	case 17:
		return equalFold(name, "transfer-encoding")
	}
	return false
}

// appendHead renders the head.
func (r *Request) appendHead(b []byte, t *Target) []byte {
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, t.prefix...)
	b = append(b, r.Path...)
	b = append(b, t.host...)
	for i := range r.Fields {
		b = append(b, r.Fields[i].Name...)
		b = append(b, ": "...)
		b = append(b, r.Fields[i].Value...)
		b = append(b, "\r\n"...)
	}
	switch {
	case r.Stream != nil || r.Chunked:
		return append(b, "Transfer-Encoding: chunked\r\n\r\n"...)
	case len(r.Body) > 0 || r.Method != http.MethodGet && r.Method != http.MethodHead:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(r.Body)), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}
