package zmtp

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ParseEndpoint is the network and the address of an endpoint, tcp://HOST:PORT or
// ipc://PATH, as package net takes them. A host may be *, which only a listener can use.
func ParseEndpoint(endpoint string) (network, address string, err error) {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	switch {
	case !ok:
		return "", "", fmt.Errorf("endpoint %q has no scheme: write tcp://HOST:PORT", endpoint)
	case scheme == "ipc" && rest != "":
		return "unix", rest, nil
	case scheme == "ipc":
		return "", "", fmt.Errorf("endpoint %q names no path", endpoint)
	case scheme != "tcp":
		return "", "", fmt.Errorf("endpoint %q: scheme %q is not one of tcp, ipc", endpoint, scheme)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil || host == "" || strings.ContainsAny(host, "/@ ") {
		return "", "", fmt.Errorf("endpoint %q is not of the form tcp://HOST:PORT", endpoint)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", "", fmt.Errorf("endpoint %q: port %q is not in 1..65535", endpoint, port)
	}
	return "tcp", rest, nil
}
