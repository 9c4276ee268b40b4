package front

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
)

// secure puts TLS between the client's connection and c. Below it the socket is read
// and written as it is without TLS, and there the stall limit holds: TLS writes by
// itself, too, when it is asked for new keys.
func (c *Conn) secure(inner net.Conn, cfg *Config) {
	below := &outward{}
	below.open(inner, cfg.WriteStall)
	c.outward.open(tls.Server(below, cfg.TLS), 0)
	c.shaking = &handshake{told: cfg.Insecure}
}

// handshake is one that is not over yet. The first read makes it.
type handshake struct{ told func(net.Addr, error) }

// plainAnswer is for clients that do not speak TLS to a port that does.
const plainAnswer = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nthis port speaks HTTPS: write https:// in front of its address\n"

// over tells of one that has failed.
func (h *handshake) over(c *Conn, err error) {
	c.shaking = nil
	if secured, ok := c.Conn.(*tls.Conn); err == nil || ok && secured.ConnectionState().HandshakeComplete {
		return
	}
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil && startsHTTP(record.RecordHeader[:]) {
		_, _ = io.WriteString(record.Conn, plainAnswer) // somebody who has left needs none
	}
	if h.told != nil && !errors.Is(err, io.EOF) {
		h.told(c.under.RemoteAddr(), err)
	}
}

// startsHTTP says whether a client's first five bytes begin a request.
func startsHTTP(b []byte) bool {
	for _, method := range [...]string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "PRI *"} {
		if strings.HasPrefix(string(b), method) {
			return true
		}
	}
	return false
}
