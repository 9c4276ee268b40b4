package engine

import (
	"bytes"
	"errors"
	"io"
	"math"
)

const (
	// maxChunkLine bounds a chunk's size line with its extensions, and a
	// line of the trailer. It must be below smallBuffer.
	maxChunkLine = 1 << 10
	// maxTrailer bounds the trailer section.
	maxTrailer = 16 << 10
)

// stage is where a body stands.
type stage uint8

const (
	stageEnded   stage = iota
	stageLength        // left bytes of payload, then the end
	stageUntil         // payload until the connection ends
	stageSize          // a chunk's size line comes next
	stageChunk         // left bytes of a chunk's payload
	stageCRLF          // the end of a chunk's payload
	stageTrailer       // trailer lines up to a blank one
)

// body takes the payload of one answer out of a reader.
type body struct {
	rd      *reader
	stage   stage
	left    int64 // of the length or of the chunk
	trailer int   // bytes of trailer seen
	err     error // found while looking ahead
}

// start takes the framing of a head. empty: no body follows whatever it says.
func (b *body) start(rd *reader, f *framing, empty bool) {
	b.rd = rd
	switch {
	case empty || f.length == 0:
		b.stage = stageEnded
	case f.chunked:
		b.stage = stageSize
		// So that Buffered and Ended tell the truth before the first read.
		b.err = b.advance()
	case f.length > 0:
		b.stage, b.left = stageLength, f.length
	default:
		b.stage, b.left = stageUntil, math.MaxInt64
	}
}

func (b *body) ended() bool { return b.stage == stageEnded && b.err == nil }

// ready returns how many bytes of payload lie at the reader's front.
func (b *body) ready() int {
	switch b.stage {
	case stageLength, stageUntil, stageChunk:
		return int(min(int64(b.rd.buffered()), b.left))
	}
	return 0
}

// take consumes n ready bytes and the framing behind them, as far as it is
// there: without waiting.
func (b *body) take(n int) {
	b.rd.r += n
	b.consumed(n)
}

func (b *body) consumed(n int) {
	switch b.stage {
	case stageLength:
		if b.left -= int64(n); b.left == 0 {
			b.stage = stageEnded
		}
	case stageChunk:
		if b.left -= int64(n); b.left == 0 {
			b.stage = stageCRLF
			b.err = b.advance()
		}
	}
}

// next waits for payload and returns all that is there, several chunks
// merged. The bytes are overwritten by the next call.
func (b *body) next() ([]byte, error) {
	n, err := b.wait()
	if err != nil {
		return nil, err
	}
	buf, from := b.rd.buf, b.rd.r
	b.take(n)
	for to := from + n; ; to += n {
		if n = b.ready(); n == 0 {
			return buf[from:to:to], nil
		}
		copy(buf[to:], buf[b.rd.r:b.rd.r+n])
		b.take(n)
	}
}

// read is next into the caller's buffer.
func (b *body) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b.direct(len(p)) {
		n, err := b.rd.read(p[:min(int64(len(p)), b.left)])
		if n > 0 {
			b.consumed(n)
			return n, nil
		}
		return 0, b.end(err)
	}
	n, err := b.wait()
	if err != nil {
		return 0, err
	}
	total := 0
	for n > 0 && total < len(p) {
		n = copy(p[total:], b.rd.buf[b.rd.r:b.rd.r+n])
		b.take(n)
		total += n
		n = b.ready()
	}
	return total, nil
}

// direct says that payload can go past the buffer.
func (b *body) direct(n int) bool {
	if b.err != nil || b.rd.err != nil || b.rd.buffered() > 0 || n < len(b.rd.buf) {
		return false
	}
	return b.stage == stageLength || b.stage == stageUntil || b.stage == stageChunk
}

// wait blocks until payload is ready and returns how much.
func (b *body) wait() (int, error) {
	for {
		if b.err != nil {
			return 0, b.err
		}
		if b.stage == stageEnded {
			return 0, io.EOF
		}
		if n := b.ready(); n > 0 {
			return n, nil
		}
		if err := b.rd.fill(); err != nil {
			return 0, b.end(err)
		}
		b.err = b.advance()
	}
}

// end says what the end of the connection means for the body.
func (b *body) end(err error) error {
	switch {
	case !errors.Is(err, io.EOF):
		b.err = err
	case b.stage == stageUntil:
		b.stage = stageEnded
		return io.EOF
	default:
		b.err = io.ErrUnexpectedEOF
	}
	return b.err
}

// advance consumes chunk framing as far as the buffer reaches.
func (b *body) advance() error {
	for {
		switch b.stage {
		case stageCRLF:
			if b.rd.buffered() < 2 {
				// A wrong byte is wrong now, not when the next one comes.
				if b.rd.buffered() == 1 && b.rd.buf[b.rd.r] != '\r' {
					return framingError("chunk longer than its size")
				}
				return nil
			}
			if b.rd.buf[b.rd.r] != '\r' || b.rd.buf[b.rd.r+1] != '\n' {
				return framingError("chunk longer than its size")
			}
			b.rd.r += 2
			b.stage = stageSize
		case stageSize:
			line, ok, err := b.line()
			if !ok {
				return err
			}
			if b.left, err = chunkSize(line); err != nil {
				return err
			}
			b.stage = stageChunk
			if b.left == 0 {
				b.stage = stageTrailer
			}
		case stageTrailer:
			line, ok, err := b.line()
			if !ok {
				return err
			}
			if len(line) == 0 {
				b.stage = stageEnded
				return nil
			}
			if b.trailer += len(line) + 2; b.trailer > maxTrailer {
				return framingError("trailer too large")
			}
			// Dropped, but not before it proved to be one.
			if _, err := parseField(string(line)); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// line takes one line without its end, if it is there.
func (b *body) line() (line []byte, ok bool, err error) {
	buf := b.rd.buf[b.rd.r:b.rd.w]
	i := bytes.IndexByte(buf[:min(len(buf), maxChunkLine)], '\n')
	switch {
	case i < 0 && len(buf) >= maxChunkLine:
		return nil, false, framingError("line of the chunked coding too long")
	case i < 0:
		return nil, false, nil
	case i == 0 || buf[i-1] != '\r':
		return nil, false, framingError("line ends without CR")
	}
	b.rd.r += i + 1
	return buf[:i-1], true, nil
}

// chunkSize reads hexadecimal digits, at most sixteen, and passes over
// extensions.
func chunkSize(line []byte) (int64, error) {
	var size uint64
	digits := 0
	for ; digits < len(line); digits++ {
		var d byte
		switch c := line[digits]; {
		case '0' <= c && c <= '9':
			d = c - '0'
		case 'a' <= c && c <= 'f':
			d = c - 'a' + 10
		case 'A' <= c && c <= 'F':
			d = c - 'A' + 10
		default:
			return sizeWithExtension(size, digits, line[digits:])
		}
		if digits == 16 {
			return 0, framingError("chunk size too large")
		}
		size = size<<4 | uint64(d)
	}
	return sizeWithExtension(size, digits, nil)
}

func sizeWithExtension(size uint64, digits int, ext []byte) (int64, error) {
	switch {
	case digits == 0:
		return 0, framingError("no chunk size")
	case size > math.MaxInt64:
		return 0, framingError("chunk size too large")
	}
	if len(ext) == 0 {
		return int64(size), nil
	}
	// Blanks are allowed before the semicolon only.
	before, _, found := bytes.Cut(ext, []byte{';'})
	if !found || len(bytes.Trim(before, " \t")) > 0 {
		return 0, framingError("invalid chunk size")
	}
	for _, c := range ext {
		if classes[c]&text == 0 {
			return 0, framingError("control character in a chunk extension")
		}
	}
	return int64(size), nil
}
