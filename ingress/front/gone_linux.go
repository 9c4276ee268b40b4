package front

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// States of a TCP connection whose other side has ended it, from the kernel's
// include/net/tcp_states.h.
const (
	tcpClose     = 7
	tcpCloseWait = 8
	tcpLastAck   = 9
)

func peerGone(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		gone = err == nil && (info.State == tcpClose || info.State == tcpCloseWait || info.State == tcpLastAck)
	})
	return err == nil && gone
}
