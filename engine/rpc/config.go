package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Config is what a [Client] is made of. Every field means what it says: zero is a value,
// not "unset"; start from [DefaultConfig].
type Config struct {
	// ConnectTimeout bounds name look-up, TCP connect, TLS handshake and the first frames
	// together.
	ConnectTimeout time.Duration
	// Ping is after how long without a word a connection is pinged, also when no call
	// uses it; an engine that does not answer within PingTimeout is gone. gRPC pings every
	// 10 s at most, and less often where an engine complains.
	Ping, PingTimeout time.Duration
	// KeepAlive is the period of TCP keep-alive probes; 0 switches them off.
	KeepAlive time.Duration
	// StreamWindow and ConnWindow are how many bytes an engine may be ahead of its reader,
	// on one call and on all calls of a connection.
	StreamWindow, ConnWindow int32
	// MaxMessageBytes bounds one message in either direction.
	MaxMessageBytes int
	// Ahead is how many pieces of an answer are kept for a reader that is slower.
	Ahead int
	// Patience is how long a patient call that is given up is read on, for its first piece.
	Patience time.Duration
	// AbortTimeout bounds telling an engine that a call was given up.
	AbortTimeout time.Duration
	// Linger is how long a connection is kept that no target uses any more.
	Linger time.Duration
	// RootCAs verifies grpcs engines; nil is the system's set.
	RootCAs *x509.CertPool
	// Certificates is the client's own for grpcs engines that ask for one, anew for each
	// connection; nil is none. See [tls.Config].
	Certificates func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
}

// DefaultConfig returns the built-in settings.
func DefaultConfig() Config {
	return Config{
		ConnectTimeout:  10 * time.Second,
		Ping:            30 * time.Second,
		PingTimeout:     10 * time.Second,
		KeepAlive:       60 * time.Second,
		StreamWindow:    16 << 20,
		ConnWindow:      32 << 20,
		MaxMessageBytes: 256 << 20,
		Ahead:           32,
		Patience:        30 * time.Second,
		AbortTimeout:    10 * time.Second,
		Linger:          2 * time.Minute,
	}
}

// Validate reports every fault of c, joined.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"connect timeout", c.ConnectTimeout},
		{"ping", c.Ping},
		{"ping timeout", c.PingTimeout},
		{"patience", c.Patience},
		{"abort timeout", c.AbortTimeout},
		{"linger", c.Linger},
	} {
		if d.d <= 0 {
			errs = append(errs, fmt.Errorf("gRPC %s must be above 0, got %v", d.name, d.d))
		}
	}
	if c.KeepAlive < 0 {
		errs = append(errs, fmt.Errorf("gRPC TCP keep-alive must not be negative, got %v", c.KeepAlive))
	}
	if c.StreamWindow < 64<<10 || c.ConnWindow < 64<<10 {
		errs = append(errs, fmt.Errorf("gRPC windows must be 64 KiB at least, got %d and %d", c.StreamWindow, c.ConnWindow))
	}
	if c.MaxMessageBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("gRPC messages must be allowed 1 MiB at least, got %d", c.MaxMessageBytes))
	}
	if c.Ahead < 1 {
		errs = append(errs, errors.New("gRPC readers must be allowed one piece ahead at least"))
	}
	return errors.Join(errs...)
}
