package launcher

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// How the gateway speaks to engines.
const (
	ModeHTTP = "http"
	ModeGRPC = "grpc"
	ModeZMQ  = "zmq"
)

// DefaultMode is how engines of a backend are spoken to unless the user says
// otherwise: over HTTP, or in the only way they have.
func DefaultMode(name string) string {
	b, err := Config{Backend: name}.backend()
	if err != nil || len(b.modes) != 1 {
		return ModeHTTP
	}
	return b.modes[0]
}

// CheckMode says whether engines of this backend can be spoken to as c says. Its
// error is a [LaunchError].
func (c Config) CheckMode() error {
	b, err := c.backend()
	if err != nil {
		return nil // Validate tells
	}
	hint := "leave it out: the engines are spoken to over http"
	if !slices.Contains(b.modes, ModeHTTP) {
		hint = "start the engine as its own manual says, and give the address of its HTTP server to smg launch"
	}
	switch {
	case !slices.Contains(b.modes, c.Mode):
		return &LaunchError{
			what:   c.Backend + " is not spoken to over " + c.Mode,
			detail: []string{"--connection-mode " + c.Mode},
			hint:   hint,
		}
	case c.Mode == ModeHTTP:
		return nil
	case slices.Contains(b.modes, ModeHTTP):
		return &LaunchError{
			what:   "connection mode " + c.Mode + " is not supported yet",
			detail: []string{"--connection-mode " + c.Mode},
			hint:   hint,
		}
	}
	return &LaunchError{
		what:   c.Backend + " is spoken to over " + c.Mode + ", which is not supported yet",
		detail: []string{"--backend " + c.Backend},
		hint:   hint,
	}
}

// url is where the engine on port is reached.
func (c Config) url(port int) string {
	address := net.JoinHostPort(c.Host, strconv.Itoa(port))
	switch c.Mode {
	case ModeGRPC:
		return "grpc://" + address
	case ModeZMQ:
		return "ipc://" + c.socket(port)
	}
	return "http://" + address
}

// socket is the path where an engine and the gateway meet that speak over ZMQ.
func (c Config) socket(port int) string {
	dir := envValue(c.Environ, "SMG_ZMQ_SOCKET_DIR")
	if dir == "" {
		dir = "/tmp/smg-zmq-" + strconv.Itoa(os.Getuid())
	}
	return filepath.Join(dir, "engine-"+strconv.Itoa(port))
}
