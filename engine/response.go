package engine

import (
	"errors"
	"io"
	"time"
)

// Response is the answer of an engine: its head, and a body to be read. One
// goroutine uses it at a time. Whoever got it from [Client.Send] or [ResponseOf] closes it.
type Response struct {
	Status int    // 200…999; interim answers are skipped
	Reason string // as sent, may be empty
	// Fields in the order of their coming, doubles kept, names as sent,
	// values without blanks around them. The strings may be kept.
	Fields []Field
	// ContentLength is what the engine declared, for HEAD too; -1 if nothing
	// was (chunked, or up to the end of the connection).
	ContentLength int64
	// Resent: the request went out twice, see [Client.Send].
	Resent bool

	other   *elsewhere // where the body comes from, nil for an answer over HTTP
	cn      *conn      // nil once closed
	body    body
	err     error // sticky
	persist bool
	hint    time.Duration

	few [8]Field // most heads fit
}

func (r *Response) start(f *framing, empty bool) {
	r.ContentLength = f.length
	r.hint = f.hint
	r.body.start(&r.cn.rd, f, empty)
	r.persist = f.persists() && r.body.stage != stageUntil
}

// Get returns the value of the first field of that name, whatever its case,
// or "".
func (r *Response) Get(name string) string {
	for i := range r.Fields {
		if sameName(r.Fields[i].Name, name) {
			return r.Fields[i].Value
		}
	}
	return ""
}

// Next waits for a byte of the body and returns all bytes that are there,
// chunks of the chunked coding merged. They are overwritten by the next call
// of Next or Read, and by the connection's next user after Close. At the end
// of the body it returns [io.EOF]; a trailer is dropped.
//
// Other errors are [*Error] of kind ErrBroken, ErrProtocol or ErrCanceled,
// and stay.
func (r *Response) Next() ([]byte, error) {
	if r.other != nil {
		return r.other.next()
	}
	if err := r.usable(); err != nil {
		return nil, err
	}
	p, err := r.body.next()
	return p, r.keep(err)
}

// Await waits for a byte of the body, or for its end, and takes nothing of it. What
// was wrong is what the next read returns.
func (r *Response) Await() {
	if r.other != nil {
		r.other.take()
		return
	}
	if r.usable() == nil {
		_, err := r.body.wait()
		_ = r.keep(err) // it lasts
	}
}

// Read implements [io.Reader], with the errors of Next. It returns as soon as
// it has a byte, and takes along what is there.
func (r *Response) Read(p []byte) (int, error) {
	if r.other != nil {
		return r.other.read(p)
	}
	if err := r.usable(); err != nil {
		return 0, err
	}
	n, err := r.body.read(p)
	return n, r.keep(err)
}

// Buffered returns how many bytes of the body can be read at least without
// waiting. With 0 the next read may wait: time to flush what was relayed.
func (r *Response) Buffered() int {
	if r.other != nil {
		return r.other.buffered()
	}
	if r.cn == nil || r.err != nil {
		return 0
	}
	return r.body.ready()
}

// Ended says that the whole body has been handed out: the next read returns
// io.EOF without waiting.
func (r *Response) Ended() bool {
	if r.other != nil {
		return r.other.ended()
	}
	return r.body.ended()
}

// Sent says that the request has gone out whole: its body is the caller's again, unless
// it is to be sent once more, which no answer asks for.
func (r *Response) Sent() bool {
	return r.cn == nil || r.cn.writeErr == nil && (r.cn.upload == nil || r.cn.upload.finished() && r.cn.upload.err == nil)
}

// Close ends the exchange. The connection is kept if the request was written
// whole and the answer read whole, nothing lies behind it, both sides allow
// it and the context has not ended; otherwise it is closed. A second Close
// does nothing. It returns nil.
func (r *Response) Close() error {
	if r.other != nil {
		r.other.close()
		return nil
	}
	cn := r.cn
	if cn == nil {
		return nil
	}
	r.cn = nil
	cn.finish(r.persist && r.err == nil && r.body.ended(), r.hint)
	return nil
}

func (r *Response) usable() error {
	if r.cn == nil {
		return ErrClosed
	}
	return r.err
}

// keep makes a failure of the body last.
func (r *Response) keep(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	r.err = r.cn.fail(err, true)
	return r.err
}

// sameName compares field names without regard to case.
func sameName(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if 'A' <= x && x <= 'Z' {
			x |= 0x20
		}
		if 'A' <= y && y <= 'Z' {
			y |= 0x20
		}
		if x != y {
			return false
		}
	}
	return true
}
