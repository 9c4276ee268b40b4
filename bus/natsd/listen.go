package natsd

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// credentials are who may connect over the network.
type credentials struct{ user, password string }

// newCredentials are those that cfg names, else some that nobody can guess.
func newCredentials(cfg Config) credentials {
	if cfg.User != "" {
		return credentials{cfg.User, cfg.Password}
	}
	return credentials{user: rand.Text(), password: rand.Text()}
}

// door lets in who connects from within the process, and over the network who has
// the credentials.
type door struct{ credentials }

var _ server.Authentication = door{}

// Check is called by the server for each new connection.
func (d door) Check(c server.ClientAuthentication) bool {
	from := c.RemoteAddress()
	if from == nil { // gone already
		return false
	}
	if from.Network() == pipe {
		return true
	}
	given := c.GetOpts()
	// Both are compared, whatever the first yields, so that time tells nothing.
	user := subtle.ConstantTimeCompare([]byte(given.Username), []byte(d.user))
	password := subtle.ConstantTimeCompare([]byte(given.Password), []byte(d.password))
	return user&password == 1
}

// pipe is the network of connections within the process: net.Pipe says so.
const pipe = "pipe"

// parseListen is the address of a listener; its port is -1 where any free one is
// meant, as the server has it.
func parseListen(listen string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("address %q is not host:port", listen)
	}
	n, err := strconv.ParseUint(p, 10, 16)
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("address %q: port %q is not in 0..65535", listen, p)
	case n == 0:
		return host, server.RANDOM_PORT, nil
	}
	return host, int(n), nil
}

func validateListen(c Config) error {
	if c.Listen != "" {
		if _, _, err := parseListen(c.Listen); err != nil {
			return fmt.Errorf("embedded NATS: listening: %w", err)
		}
	}
	if (c.User == "") != (c.Password == "") {
		return errors.New("embedded NATS: a user and a password belong together")
	}
	return nil
}

// ClientURL is how another process of this machine connects, with user and
// password: it belongs in no log. Where the server listens on all addresses, it is
// that of the loopback. It is "" without a listener.
func (s *Server) ClientURL() string {
	if s.addr == "" {
		return ""
	}
	u := url.URL{Scheme: "nats", User: url.UserPassword(s.login.user, s.login.password), Host: s.addr}
	return u.String()
}

// String is the server with its address, for logs: without user and password.
func (s *Server) String() string {
	if s.addr == "" {
		return "embedded NATS"
	}
	return "embedded NATS on " + s.addr
}

// reachable is where a listener at a can be reached from this machine, "" for none.
func reachable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return ""
	}
	at := *tcp
	if at.IP.IsUnspecified() {
		at.IP = net.IPv4(127, 0, 0, 1) // a listener on all addresses is one of both families
	}
	return at.String()
}
