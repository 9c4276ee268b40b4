package zmtp

import (
	"bytes"
	"fmt"
	"io"
)

// greeting is what both sides begin with.
type greeting [64]byte

// Where what lies in it.
const (
	major     = 10
	minor     = 11
	mechanism = 12
	asServer  = 32
)

// null is the mechanism that neither authenticates nor encrypts.
const null = "NULL"

func newGreeting() (g greeting) {
	g[0], g[9] = 0xff, 0x7f
	g[major], g[minor] = 3, 1
	copy(g[mechanism:asServer], null)
	return g
}

// readGreeting reads and checks a peer's greeting, and is its minor version.
func readGreeting(in io.Reader) (byte, error) {
	var g greeting
	if _, err := io.ReadFull(in, g[:major+1]); err != nil {
		return 0, broken(err)
	}
	switch {
	case g[0] != 0xff || g[9]&1 == 0:
		return 0, fmt.Errorf("%w: this is no ZeroMQ socket", ErrProtocol)
	case g[major] < 3:
		return 0, fmt.Errorf("%w: the peer speaks version %d, which is too old", ErrProtocol, g[major])
	}
	if _, err := io.ReadFull(in, g[major+1:]); err != nil {
		return 0, broken(err)
	}
	if m := string(bytes.TrimRight(g[mechanism:asServer], "\x00")); m != null {
		return 0, fmt.Errorf("%w: the peer wants security mechanism %.20q, and only NULL is spoken here", ErrProtocol, m)
	}
	if g[major] > 3 {
		return 1, nil
	}
	return g[minor], nil
}
