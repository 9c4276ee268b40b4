package relay

import (
	"context"
	"errors"
	"net"
	"sync"

	"smg/bench/internal/http1"
)

// bufferSize holds a head, and what is read and written at once.
const bufferSize = 64 << 10

// Relay passes requests on to one engine.
type Relay struct {
	engine string

	mu   sync.Mutex
	idle []*upstream
}

// upstream is a connection to the engine with what was read from it.
type upstream struct {
	net.Conn
	buf []byte
}

// New returns a relay to the engine at host:port. It dials when it is first used.
func New(engine string) *Relay { return &Relay{engine: engine} }

// Serve relays for the clients of l until ctx ends, then cuts what is left.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		clients = make(map[net.Conn]struct{})
	)
	stop := context.AfterFunc(ctx, func() {
		_ = l.Close() // Accept tells
		mu.Lock()
		defer mu.Unlock()
		for c := range clients {
			_ = c.Close() // whoever uses it notices
		}
	})
	defer stop()
	defer r.closeIdle()
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		mu.Lock()
		clients[c] = struct{}{}
		mu.Unlock()
		if ctx.Err() != nil {
			_ = c.Close() // it came too late to be seen above
		}
		wg.Go(func() {
			r.client(c)
			_ = c.Close() // there is nobody left to tell
			mu.Lock()
			delete(clients, c)
			mu.Unlock()
		})
	}
}

var (
	errUnframed = errors.New("the answer has neither a length nor chunks")

	badGateway  = []byte("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	needsLength = []byte("HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
)

// client serves one connection until it ends or an exchange goes wrong.
func (r *Relay) client(c net.Conn) {
	buf := make([]byte, 0, bufferSize)
	for {
		head, err := readHead(c, &buf)
		if err != nil {
			return
		}
		if head.Chunked {
			_, _ = c.Write(needsLength) // the connection ends either way
			return
		}
		if buf, err = readBody(c, buf, head.Size+int(max(head.Length, 0))); err != nil {
			return
		}
		sent, err := r.exchange(c, buf)
		if err != nil {
			if !sent {
				_, _ = c.Write(badGateway) // the connection ends either way
			}
			return
		}
		if head.Close {
			return
		}
		buf = buf[:0]
	}
}

// exchange sends one request and copies its answer; sent says whether any of the
// answer was.
func (r *Relay) exchange(c net.Conn, request []byte) (sent bool, err error) {
	up, err := r.take()
	if err != nil {
		return false, err
	}
	reusable := false
	defer func() {
		if reusable {
			r.put(up)
		} else {
			_ = up.Close() // broken, or not to be used again
		}
	}()
	if _, err := up.Write(request); err != nil {
		return false, err
	}
	up.buf = up.buf[:0]
	head, err := readHead(up, &up.buf)
	if err != nil {
		return false, err
	}
	if head.Length < 0 && !head.Chunked {
		return false, errUnframed
	}
	body := head.Body()
	fresh := up.buf[head.Size:]
	for {
		n, err := body.Feed(fresh, nil)
		if err != nil {
			return sent, err
		}
		if _, err := c.Write(up.buf[:len(up.buf)-len(fresh)+n]); err != nil {
			return true, err
		}
		sent = true
		if body.Done() {
			reusable = !head.Close && n == len(fresh)
			return true, nil
		}
		n, err = up.Read(up.buf[:cap(up.buf)])
		if n == 0 {
			return true, err
		}
		up.buf = up.buf[:n]
		fresh = up.buf
	}
}

func (r *Relay) take() (*upstream, error) {
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		up := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return up, nil
	}
	r.mu.Unlock()
	c, err := net.Dial("tcp", r.engine)
	if err != nil {
		return nil, err
	}
	return &upstream{Conn: c, buf: make([]byte, 0, bufferSize)}, nil
}

func (r *Relay) put(up *upstream) {
	r.mu.Lock()
	r.idle = append(r.idle, up)
	r.mu.Unlock()
}

func (r *Relay) closeIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, up := range r.idle {
		_ = up.Close() // nothing is under way on it
	}
	r.idle = nil
}

var errHeadTooLong = errors.New("the head does not fit the buffer")

// readHead fills buf until it begins with a whole head.
func readHead(c net.Conn, buf *[]byte) (http1.Head, error) {
	for {
		b := *buf
		if head, whole, err := http1.ParseHead(b); whole || err != nil {
			return head, err
		}
		if len(b) == cap(b) {
			return http1.Head{}, errHeadTooLong
		}
		n, err := c.Read(b[len(b):cap(b)])
		if n == 0 {
			return http1.Head{}, err
		}
		*buf = b[:len(b)+n]
	}
}

// readBody fills buf up to size, growing it where it has to.
func readBody(c net.Conn, buf []byte, size int) ([]byte, error) {
	if size > cap(buf) {
		buf = append(make([]byte, 0, size), buf...)
	}
	for len(buf) < size {
		n, err := c.Read(buf[len(buf):size])
		if n == 0 {
			return buf, err
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}
