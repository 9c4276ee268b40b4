package load

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// Config is what a [Driver] sends where, and what it wants back.
type Config struct {
	// Addr is the subject's address and port.
	Addr netip.AddrPort
	// Also are further subjects. Each request is sent to them at the same moment as
	// to Addr, and is answered when all have given the answer that is wanted.
	Also []netip.AddrPort
	// Connections is how many are kept open to each of them.
	Connections int
	// Request is sent as it is each time: head and body.
	Request []byte
	// Requests, unless empty, are sent one after another and over again, in place of
	// Request.
	Requests [][]byte
	// Body is the content that every answer, a 200, has to have; nil takes any.
	Body []byte
	// Mark, unless empty, is text to look for in the heads of answers, in upper and
	// lower case as it is; [Result.Marked] counts those with it.
	Mark []byte
	// Timeout bounds the wait for answers that are outstanding at the end.
	Timeout time.Duration
}

// Validate names all that is wrong with the configuration.
func (c *Config) Validate() error {
	var faults []error
	for _, addr := range c.addrs() {
		if !addr.IsValid() || addr.Port() == 0 {
			faults = append(faults, fmt.Errorf("address %s: no address with a port", addr))
		}
	}
	if c.Connections < 1 {
		faults = append(faults, fmt.Errorf("%d connections: one is the least", c.Connections))
	}
	if slices.ContainsFunc(c.requests(), func(r []byte) bool { return len(r) == 0 }) {
		faults = append(faults, errors.New("the request is empty"))
	}
	if c.Timeout <= 0 {
		faults = append(faults, fmt.Errorf("timeout %s: not positive", c.Timeout))
	}
	return errors.Join(faults...)
}

// addrs are all that a request is sent to.
func (c *Config) addrs() []netip.AddrPort {
	return append([]netip.AddrPort{c.Addr}, c.Also...)
}

// requests are what is sent, one after another.
func (c *Config) requests() [][]byte {
	if len(c.Requests) > 0 {
		return c.Requests
	}
	return [][]byte{c.Request}
}

// Post renders a POST request of a JSON body.
func Post(host, path, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		http.MethodPost, path, host, len(body), body)
}
