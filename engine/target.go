package engine

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
)

// Target is an engine's base URL, parsed once, with its connection pool.
// Targets with the same scheme, host, port and rules share one pool. It is safe for
// concurrent use; [Client.Target] makes it, [Client.Forget] ends it.
type Target struct {
	url    string
	prefix string // path of the base URL, without a slash at its end
	host   string // end of the request line and the Host field
	pool   *pool
	rules  rules

	forgotten atomic.Bool
}

// String returns the base URL.
func (t *Target) String() string { return t.url }

// address is what a base URL says.
type address struct {
	secure     bool
	host       string // without brackets, for TLS
	hostport   string // for the dialer
	authority  string // for the Host field
	prefix     string
	normalized string
}

func parseAddress(rawURL string) (address, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The wrapped text quotes the URL.
		return address{}, fmt.Errorf("parse engine URL: %w", err)
	}
	var a address
	port := u.Port()
	switch u.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
	case "https":
		a.secure = true
		if port == "" {
			port = "443"
		}
	default:
		return address{}, fmt.Errorf("engine URL %q: scheme must be http or https", rawURL)
	}
	a.host = u.Hostname()
	switch {
	case a.host == "":
		return address{}, fmt.Errorf("engine URL %q: no host", rawURL)
	case u.User != nil:
		return address{}, errors.New("engine URL: user and password are not supported, use the worker's API key")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return address{}, fmt.Errorf("engine URL %q: no query and no fragment allowed", rawURL)
	}
	a.hostport = net.JoinHostPort(a.host, port)
	// A zone is local to this machine and no part of the Host field.
	a.authority = u.Host
	if host, _, found := strings.Cut(a.host, "%"); found {
		a.authority = net.JoinHostPort(host, port)
	}
	if !validValue(a.authority) || strings.ContainsAny(a.authority, " \t") {
		return address{}, fmt.Errorf("engine URL %q: invalid host", rawURL)
	}
	a.prefix = strings.TrimRight(u.EscapedPath(), "/")
	if a.prefix != "" && !validPath(a.prefix) {
		return address{}, fmt.Errorf("engine URL %q: invalid path", rawURL)
	}
	a.normalized = u.Scheme + "://" + u.Host + a.prefix
	return a, nil
}

func (a address) poolKey() string {
	if a.secure {
		return "https://" + a.hostport
	}
	return "http://" + a.hostport
}
