package front

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// Faults of framing. A connection on which one was found carries no more requests.
var (
	ErrBareLF       = errors.New("a line of the request, in its head or between its chunks, ends without a carriage return")
	ErrControl      = errors.New("a line of the request's head carries a carriage return")
	ErrFolded       = errors.New("a header field of the request is folded over lines")
	ErrLength       = errors.New("the request's Content-Length is not one plain number")
	ErrTwoFramings  = errors.New("the request has both a Content-Length and a Transfer-Encoding")
	ErrTwoEncodings = errors.New("the request has more than one Transfer-Encoding")
	ErrOldEncoding  = errors.New("the request has a Transfer-Encoding, which its HTTP version does not know")
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

	current bool  // this head's request line says HTTP/1.1
	length  int64 // of this head, -1 if none
	encoded bool  // this head has a Transfer-Encoding
	foreign bool  // one that is not chunked
}

// between says that what was followed ends with a whole request.
func (f *framing) between() bool { return f.place == atRequestLine && len(f.line) == 0 }

var (
	preface = []byte("PRI * HTTP/2.0")
	version = []byte(" HTTP/1.1")
)

const (
	// maxChunkLine bounds the line of a chunk's size with its extensions.
	maxChunkLine = 4096
	// maxIdleLine is how much room for lines a connection keeps.
	maxIdleLine = 1024
)

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
		if f.line = f.line[:0]; cap(f.line) > maxIdleLine {
			f.line = nil
		}
		at += end + 1
	}
	return len(p), nil
}

// take follows one line with its end.
func (f *framing) take(line []byte) error {
	if len(line) > f.maxLine {
		return ErrLineTooLong
	}
	if f.place == atRequestLine && (line[0] == '\r' || line[0] == '\n') && len(bytes.TrimLeft(line, "\r\n")) == 0 {
		return nil // a stray line end between requests, which HTTP lets pass
	}
	switch cr := bytes.IndexByte(line, '\r'); {
	case cr == len(line)-2 && cr >= 0:
		line = line[:cr]
	case line[max(len(line)-2, 0)] == '\r':
		return ErrControl
	default:
		return ErrBareLF
	}
	switch f.place {
	case atRequestLine:
		if bytes.Equal(line, preface) {
			f.place = opaque
			return nil
		}
		f.place, f.length, f.encoded, f.foreign = inHead, -1, false, false
		f.current = bytes.HasSuffix(line, version)
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

var (
	contentLength    = []byte("Content-Length")
	transferEncoding = []byte("Transfer-Encoding")
)

// field looks at one line of a head. Names that are no tokens, such as one with a
// blank before the colon, are net/http's to refuse.
func (f *framing) field(line []byte) error {
	if line[0] == ' ' || line[0] == '\t' {
		return ErrFolded
	}
	if value, ok := valueOf(line, contentLength); ok {
		n, err := strconv.ParseInt(string(value), 10, 64)
		switch {
		case err != nil || value[0] < '0' || value[0] > '9' || f.length >= 0 && f.length != n:
			return ErrLength
		case f.encoded:
			return ErrTwoFramings
		}
		f.length = n
		return nil
	}
	value, ok := valueOf(line, transferEncoding)
	switch {
	case !ok:
		return nil
	case f.encoded:
		return ErrTwoEncodings
	case f.length >= 0:
		return ErrTwoFramings
	case !f.current:
		return ErrOldEncoding
	}
	f.encoded = true
	f.foreign = !bytes.EqualFold(value, []byte("chunked"))
	return nil
}

// valueOf is the value of a field of that name.
func valueOf(line, name []byte) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !bytes.EqualFold(line[:len(name)], name) {
		return nil, false
	}
	return bytes.Trim(line[len(name)+1:], " \t"), true
}

func (f *framing) endOfHead() error {
	switch {
	case f.foreign:
		f.place = opaque // net/http answers 501 and closes
	case f.encoded:
		f.place = atChunkSize
	case f.length > 0:
		f.place, f.left = inBody, uint64(f.length)
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
	n, err := strconv.ParseUint(string(bytes.TrimRight(digits, " \t")), 16, 64)
	if err != nil || n > math.MaxInt64 {
		return ErrChunk
	}
	f.place, f.left = inChunk, n
	if n == 0 {
		f.place = inTrailer
	}
	return nil
}
