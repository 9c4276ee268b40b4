package engine

import "io"

// blockingWrite is what the portable path trusts a socket to take at once.
const blockingWrite = 16 << 10

// upload is a request that the engine does not take at once. It is written on
// the side, while an early answer can already be read.
type upload struct {
	done chan struct{}
	err  error // once done
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

func (u *upload) finished() bool {
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
