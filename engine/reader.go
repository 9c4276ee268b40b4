package engine

import "io"

const (
	// smallBuffer is what a connection keeps: enough for a request with a
	// short prompt, for the head of an answer and for some chunks of a stream.
	smallBuffer = 4 << 10
	// largeBuffer is what it grows to while whole buffers come in.
	largeBuffer = 32 << 10
)

// reader buffers what the engine sends. Its buffer is also where requests are
// rendered, as long as nothing is in it.
type reader struct {
	src  io.Reader
	buf  []byte
	r, w int   // unread bytes are buf[r:w]
	err  error // end of src
	seen bool  // a byte has come since the request went out
	full bool  // the last read filled the buffer
}

func (rd *reader) buffered() int { return rd.w - rd.r }

// fill waits for at least one more byte. It overwrites what was read before.
func (rd *reader) fill() error {
	if rd.err != nil {
		return rd.err
	}
	switch {
	case rd.r == rd.w:
		rd.r, rd.w = 0, 0
		if rd.full && len(rd.buf) < largeBuffer {
			rd.buf = make([]byte, 2*len(rd.buf))
		}
	case rd.w < len(rd.buf):
	case rd.r > 0:
		rd.w = copy(rd.buf, rd.buf[rd.r:rd.w])
		rd.r = 0
	default:
		larger := make([]byte, 2*len(rd.buf))
		copy(larger, rd.buf)
		rd.buf = larger
	}
	space := rd.buf[rd.w:]
	n, err := rd.read(space)
	rd.w += n
	rd.full = n == len(space)
	if n > 0 {
		return nil
	}
	return err
}

// read is one read past the buffer. It remembers the end of src, but reports
// it only once no byte comes with it.
func (rd *reader) read(p []byte) (int, error) {
	for range 100 {
		n, err := rd.src.Read(p)
		if err != nil {
			rd.err = err
		}
		if n > 0 {
			rd.seen = true
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	rd.err = io.ErrNoProgress
	return 0, rd.err
}

// release makes the buffer small again before the connection idles.
func (rd *reader) release() {
	rd.r, rd.w, rd.full = 0, 0, false
	if len(rd.buf) > largeBuffer {
		rd.buf = make([]byte, smallBuffer)
	}
}
