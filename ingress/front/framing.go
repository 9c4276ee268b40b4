package front

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// Faults of framing. A connection on which one was found carries no more requests.
var (
	ErrBareLF       = errors.New("a line of the request's head ends without a carriage return")
	ErrControl      = errors.New("a line of the request's head carries a carriage return or a zero byte")
	ErrFolded       = errors.New("a header field of the request is folded over lines")
	ErrLength       = errors.New("the request's Content-Length is not one plain number")
	ErrTwoFramings  = errors.New("the request has both a Content-Length and a Transfer-Encoding")
	ErrTwoEncodings = errors.New("the request has more than one Transfer-Encoding")
	ErrChunk        = errors.New("the request's chunked body is malformed")
	ErrLineTooLong  = errors.New("a line of the request is too long")
)

// place is where in a connection's bytes the checker stands.
type place uint8

const (
	atRequestLine place = iota
	inHead
	inBody      // left bytes of it
	atChunkSize // a line
	inChunk     // left bytes of it, then CRLF
	afterChunk
	inTrailer
	opaque // HTTP/2, or something that net/http refuses: not looked at
)

// framing follows a connection's requests just closely enough to know where heads
// are, and checks them. The zero value with maxLine set stands at a request line.
type framing struct {
	maxLine int
	place   place
	left    uint64
	line    []byte // begin of a line whose end has not come yet

	length  string // of this head, "" if none
	encoded bool   // this head has a Transfer-Encoding
	foreign bool   // one that is not chunked
}

var preface = []byte("PRI * HTTP/2.0")

// maxChunkLine bounds the line of a chunk's size with its extensions.
const maxChunkLine = 4096

// feed follows p. On a fault, the first good bytes of p may still be used.
func (f *framing) feed(p []byte) (good int, fault error) {
	for at := 0; at < len(p); {
		switch f.place {
		case opaque:
			return len(p), nil
		case inBody, inChunk:
			n := min(uint64(len(p)-at), f.left)
			at += int(n)
			if f.left -= n; f.left == 0 {
				if f.place == inBody {
					f.place = atRequestLine
				} else {
					f.place = afterChunk
				}
			}
			continue
		case atRequestLine, inHead, atChunkSize, afterChunk, inTrailer:
		}
		end := bytes.IndexByte(p[at:], '\n')
		if end < 0 {
			f.line = append(f.line, p[at:]...)
			if len(f.line) > f.maxLine {
				return at, ErrLineTooLong
			}
			return len(p), nil
		}
		line := p[at : at+end+1]
		if len(f.line) > 0 {
			f.line = append(f.line, line...)
			line = f.line
		}
		if err := f.take(line); err != nil {
			return at, err
		}
		f.line = f.line[:0]
		at += end + 1
	}
	return len(p), nil
}

// take follows one line with its end.
func (f *framing) take(line []byte) error {
	if len(line) > f.maxLine {
		return ErrLineTooLong
	}
	if f.place == atRequestLine && len(bytes.Trim(line, "\r\n")) == 0 {
		return nil // a stray line end between requests, which HTTP lets pass
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return ErrBareLF
	}
	line = line[:len(line)-2]
	if bytes.IndexByte(line, '\r') >= 0 || bytes.IndexByte(line, 0) >= 0 {
		return ErrControl
	}
	switch f.place {
	case atRequestLine:
		if bytes.Equal(line, preface) {
			f.place = opaque
			return nil
		}
		f.place, f.length, f.encoded, f.foreign = inHead, "", false, false
	case inHead:
		if len(line) == 0 {
			return f.endOfHead()
		}
		return f.field(line)
	case atChunkSize:
		return f.chunkSize(line)
	case afterChunk:
		if len(line) != 0 {
			return ErrChunk
		}
		f.place = atChunkSize
	case inTrailer:
		if len(line) == 0 {
			f.place = atRequestLine
		} else if line[0] == ' ' || line[0] == '\t' {
			return ErrFolded
		}
	case inBody, inChunk, opaque: // have no lines
	}
	return nil
}

func (f *framing) field(line []byte) error {
	if line[0] == ' ' || line[0] == '\t' {
		return ErrFolded
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	switch len(name) {
	case len("Content-Length"):
		if !bytes.EqualFold(name, []byte("Content-Length")) {
			return nil
		}
		v := string(bytes.Trim(value, " \t"))
		if n, err := strconv.ParseUint(v, 10, 63); err != nil || (f.length != "" && f.length != v) {
			return ErrLength
		} else if f.left = n; f.encoded {
			return ErrTwoFramings
		}
		f.length = v
	case len("Transfer-Encoding"):
		if !bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			return nil
		}
		switch {
		case f.encoded:
			return ErrTwoEncodings
		case f.length != "":
			return ErrTwoFramings
		}
		f.encoded = true
		f.foreign = !bytes.EqualFold(bytes.Trim(value, " \t"), []byte("chunked"))
	}
	return nil
}

func (f *framing) endOfHead() error {
	switch {
	case f.foreign:
		f.place = opaque // net/http answers 501 and closes
	case f.encoded:
		f.place = atChunkSize
	case f.length != "" && f.left > 0:
		f.place = inBody
	default:
		f.place = atRequestLine
	}
	return nil
}

func (f *framing) chunkSize(line []byte) error {
	if len(line) > maxChunkLine {
		return ErrLineTooLong
	}
	digits, _, _ := bytes.Cut(line, []byte{';'})
	digits = bytes.TrimRight(digits, " \t")
	n, err := strconv.ParseUint(string(digits), 16, 64)
	if err != nil || n > math.MaxInt64 || digits[0] == '+' {
		return ErrChunk
	}
	f.place, f.left = inChunk, n
	if n == 0 {
		f.place = inTrailer
	}
	return nil
}
