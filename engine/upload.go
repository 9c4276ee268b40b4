package engine

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// blockingWrite is what the portable path trusts a socket to take at once.
const blockingWrite = 16 << 10

// upload is a request that the engine does not take at once. It is written on
// the side, while an early answer can already be read.
type upload struct {
	done    chan struct{}
	err     error         // once done
	stream  io.ReadCloser // nil for a body that is at hand
	ending  atomic.Bool   // the stream is at its end, and what is left of it being written
	stopped atomic.Bool   // nobody wants more of the stream
	readErr error         // what the stream failed with by itself, once done
}

// stop has an upload end that waits for its stream, and closes a stream that is not at
// its end: also where the engine has let go of the connection before.
func (u *upload) stop() {
	if u.stream != nil && !u.ending.Load() {
		u.stopped.Store(true)
		_ = u.stream.Close() // the upload says what became of it
	}
}

// pieceSize is how much of a stream is sent at a time.
const pieceSize = 32 << 10

// startStream writes head, and what r has in the chunked coding. When r fails, abort is
// called, so that whoever waits for an answer learns of it.
func startStream(w io.Writer, head []byte, r io.ReadCloser, abort func()) *upload {
	u := &upload{done: make(chan struct{}), stream: r}
	go func() {
		defer close(u.done)
		if _, u.err = w.Write(head); u.err != nil {
			return
		}
		if u.err = u.pour(w); u.readErr != nil {
			abort()
		}
	}()
	return u
}

// pour writes the stream to its end.
func (u *upload) pour(w io.Writer) error {
	const sizeLine = 6 // four digits and a line end
	buf := make([]byte, sizeLine+pieceSize+2)
	for {
		n, err := u.stream.Read(buf[sizeLine : sizeLine+pieceSize])
		if errors.Is(err, io.EOF) {
			u.ending.Store(true)
		}
		if n > 0 {
			copy(buf, fmt.Sprintf("%04x\r\n", n))
			copy(buf[sizeLine+n:], "\r\n")
			if _, err := w.Write(buf[:sizeLine+n+2]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_, err = io.WriteString(w, "0\r\n\r\n")
			return err
		case err != nil:
			if !u.stopped.Load() {
				u.readErr = err
			}
			return err
		}
	}
}

// exchangeStream has the request written on the side.
func (cn *conn) exchangeStream(head []byte, stream io.ReadCloser) error {
	if cn.reused && !cn.quiet() {
		return errStale
	}
	w := io.Writer(cn.tcp)
	if cn.tls != nil {
		w = cn.tls
	}
	// The answer is read into the buffer that holds the head.
	cn.upload = startStream(w, append([]byte(nil), head...), stream, cn.abort)
	return nil
}

// startUpload writes parts, in this order. It ends with the last byte or with
// the connection.
func startUpload(w io.Writer, parts ...[]byte) *upload {
	u := &upload{done: make(chan struct{})}
	go func() {
		defer close(u.done)
		for _, part := range parts {
			if _, u.err = w.Write(part); u.err != nil {
				return
			}
		}
	}()
	return u
}

// lastBytes is how long the last write of a stream may take to count as finished.
const lastBytes = 10 * time.Millisecond

// finished says whether all has been written. An engine can answer before the goroutine
// that wrote has come to say so.
func (u *upload) finished() bool {
	if u.ending.Load() {
		t := time.NewTimer(lastBytes)
		defer t.Stop()
		select {
		case <-u.done:
		case <-t.C:
		}
	}
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// exchangeBlocking writes through the standard library: for TLS, and for
// systems without the fast path.
func (cn *conn) exchangeBlocking(head, body []byte) error {
	if cn.reused && !cn.quiet() {
		return errStale
	}
	w := io.Writer(cn.tcp)
	if cn.tls != nil {
		w = cn.tls
	}
	if len(head)+len(body) > blockingWrite {
		// The answer is read into the buffer that holds the head.
		cn.upload = startUpload(w, append([]byte(nil), head...), body)
		return nil
	}
	_, cn.writeErr = w.Write(head)
	if cn.writeErr == nil && len(body) > 0 {
		_, cn.writeErr = w.Write(body)
	}
	return nil
}
