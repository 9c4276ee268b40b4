package service

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// Variables by which a parent tells a child process what it has been given.
const (
	// EnvListen is the descriptor of the API's listener, EnvMetrics that of the
	// metrics page. The parent keeps both open, so that a child that is started again
	// finds the connections that have come meanwhile.
	EnvListen  = "SMG_LISTEN_FD"
	EnvMetrics = "SMG_METRICS_FD"
	// EnvHealth is that of the listener for probes, if there is one.
	EnvHealth = "SMG_HEALTH_FD"
)

// FirstFile is the descriptor of the first file that a child inherits.
const FirstFile = 3

// IsChild says whether a parent of ours has started this process and speaks for it.
func IsChild() bool { return os.Getenv(EnvMetrics) != "" }

// Inherited is the listener whose descriptor the variable name holds, nil if it is
// not set.
func Inherited(name string) (net.Listener, error) {
	v := os.Getenv(name)
	if v == "" {
		return nil, nil
	}
	fd, err := strconv.ParseUint(v, 10, 16)
	if err != nil || fd < FirstFile {
		return nil, fmt.Errorf("%s=%s is no descriptor of an inherited listener", name, v)
	}
	f := os.NewFile(uintptr(fd), name)
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("taking over the listener of %s=%s: %w", name, v, err)
	}
	if err := f.Close(); err != nil { // l has a copy
		return nil, fmt.Errorf("taking over the listener of %s=%s: %w", name, v, err)
	}
	return l, nil
}

// Bind is the listener that the variable name holds or, without it, a new one. See
// [Listen].
func Bind(name, flag, host string, port int) (net.Listener, error) {
	if l, err := Inherited(name); l != nil || err != nil {
		return l, err
	}
	return Listen(flag, host, port)
}

// URL is where a listener is reached, with the host as the operator wrote it.
func URL(host string, l net.Listener) string {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil { // a TCP listener's address always has a port
		return "http://" + l.Addr().String()
	}
	return "http://" + net.JoinHostPort(host, port)
}
