package main

import (
	"fmt"
	"net"
	"slices"
)

// host is where processes run: this one, or a network namespace that can be cut off
// from it.
type host struct {
	// bus and data are its addresses on two networks: that of the NATS servers, which a
	// partition cuts, and that of everything else.
	bus, data string
	// enter is what a command line begins with to run there.
	enter []string
	next  int // port to try next
}

// loopback is a host whose networks are the machine's own loopback.
const loopback = "127.0.0.1"

func (h *host) command(args []string) []string {
	return append(slices.Clip(h.enter), args...)
}

// port is a port of the host that nobody listens on and that was not given before.
func (h *host) port() (int, error) {
	if len(h.enter) > 0 || h.bus != loopback { // a namespace of our own
		h.next++
		return 20_000 + h.next, nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
