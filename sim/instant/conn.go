package instant

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"
)

// conn serves one connection, one request after the other.
type conn struct {
	net    net.Conn
	server *Server
	in     *bufio.Reader
	timer  *time.Timer // made when first needed
}

// request is what conn learns about a request.
type request struct {
	get    bool
	path   string
	length int // of the body; -1 if it is chunked
	stream bool
	expect bool // the client waits for permission to send the body
	close  bool
}

// errBad says that a request cannot be understood; the connection ends.
var errBad = errors.New("malformed request")

const readBuffer = 8 << 10

func newConn(c net.Conn, s *Server) *conn {
	return &conn{net: c, server: s, in: bufio.NewReaderSize(c, readBuffer)}
}

func (c *conn) run(ctx context.Context) {
	for {
		r, err := c.read()
		if err != nil {
			if errors.Is(err, errBad) || errors.Is(err, bufio.ErrBufferFull) {
				// The peer may be gone; the connection ends either way.
				_, _ = c.net.Write(c.server.answers.badRequest)
			}
			return
		}
		if c.answer(ctx, r) != nil || r.close {
			return
		}
	}
}

// read takes in one request whole.
func (c *conn) read() (r request, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return r, err
	}
	method, rest, ok := bytes.Cut(line, []byte(" "))
	target, version, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok || !ok2 {
		return r, errBad
	}
	r.get = string(method) == "GET"
	path, _, _ := bytes.Cut(target, []byte("?"))
	r.path = c.known(path)
	r.close = bytes.HasPrefix(version, []byte("HTTP/1.0"))
	for {
		line, err = c.in.ReadSlice('\n')
		if err != nil {
			return r, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if err := r.header(line); err != nil {
			return r, err
		}
	}
	if r.expect {
		if _, err := io.WriteString(c.net, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return r, err
		}
	}
	var find finder
	if r.length >= 0 {
		err = c.body(r.length, &find)
	} else {
		err = c.chunks(&find)
	}
	r.stream = find.found
	return r, err
}

// known returns path as a string without allocating for the usual ones.
func (c *conn) known(path []byte) string {
	switch string(path) {
	case "/v1/chat/completions":
		return "/v1/chat/completions"
	case "/v1/completions":
		return "/v1/completions"
	case "/generate":
		return "/generate"
	}
	return string(path)
}

// header notes the few headers that matter. The switch on the length keeps the
// others cheap.
func (r *request) header(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return errBad
	}
	value = bytes.TrimSpace(value)
	switch len(name) {
	case len("Expect"):
		if bytes.EqualFold(name, []byte("Expect")) {
			r.expect = true
		}
	case len("Connection"):
		if bytes.EqualFold(name, []byte("Connection")) {
			r.close = r.close || bytes.EqualFold(value, []byte("close"))
		}
	case len("Content-Length"):
		if bytes.EqualFold(name, []byte("Content-Length")) {
			n, err := strconv.Atoi(string(value))
			if err != nil || n < 0 || r.length != 0 && r.length != n {
				return errBad
			}
			r.length = n
		}
	case len("Transfer-Encoding"):
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			if !bytes.EqualFold(value, []byte("chunked")) || r.length > 0 {
				return errBad
			}
			r.length = -1
		}
	}
	return nil
}

// body passes n bytes to find.
func (c *conn) body(n int, find *finder) error {
	for n > 0 {
		if _, err := c.in.Peek(1); err != nil {
			return err
		}
		part, err := c.in.Peek(min(n, c.in.Buffered()))
		if err != nil {
			return err
		}
		find.write(part)
		n -= len(part)
		if _, err := c.in.Discard(len(part)); err != nil {
			return err
		}
	}
	return nil
}

// chunks passes a chunked body to find.
func (c *conn) chunks(find *finder) error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 31)
		if err != nil {
			return errBad
		}
		if n == 0 {
			break
		}
		if err := c.body(int(n), find); err != nil {
			return err
		}
		if end, err := c.in.ReadSlice('\n'); err != nil || len(bytes.TrimRight(end, "\r\n")) != 0 {
			return errors.Join(errBad, err)
		}
	}
	for { // trailers
		line, err := c.in.ReadSlice('\n')
		if err != nil || len(bytes.TrimRight(line, "\r\n")) == 0 {
			return err
		}
	}
}

func (c *conn) answer(ctx context.Context, r request) error {
	a := &c.server.answers
	var resp *response
	switch r.path {
	case "/v1/chat/completions":
		resp = &a.chat
	case "/v1/completions":
		resp = &a.completion
	case "/generate":
		resp = &a.generate
	}
	switch {
	case resp != nil && !r.get && r.stream:
		return c.stream(ctx, resp.stream)
	case resp != nil && !r.get:
		return c.write(resp.whole)
	}
	if raw, ok := a.routes[r.path]; ok && r.get {
		return c.write(raw)
	}
	return c.write(a.notFound)
}

func (c *conn) write(p []byte) error {
	_, err := c.net.Write(p)
	return err
}

// stream writes the pieces at their due times, counted from the first, so that
// lateness does not add up.
func (c *conn) stream(ctx context.Context, pieces [][]byte) error {
	gap := c.server.gap
	start := time.Now()
	for i, piece := range pieces {
		if gap > 0 && i > 1 {
			if err := c.sleepUntil(ctx, start.Add(time.Duration(i-1)*gap)); err != nil {
				return err
			}
		}
		if err := c.write(piece); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) sleepUntil(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return nil
	}
	if c.timer == nil {
		c.timer = time.NewTimer(wait)
	} else {
		c.timer.Reset(wait)
	}
	select {
	case <-c.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
