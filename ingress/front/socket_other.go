//go:build !linux

package front

import "net"

// socket is the connection itself.
type socket struct{ net.Conn }

func (s *socket) open(c net.Conn) { s.Conn = c }
