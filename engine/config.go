package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Config is what a [Client] is made of. Every field means what it says: zero
// is a value, not "unset"; start from [DefaultConfig].
type Config struct {
	// ConnectTimeout bounds name look-up, TCP connect and TLS handshake
	// together.
	ConnectTimeout time.Duration
	// IdleTimeout closes pooled connections that were not used for so long.
	// It must stay below the engines' own keep-alive. 0 keeps them for ever.
	// A Keep-Alive hint in an answer can shorten it for that connection.
	IdleTimeout time.Duration
	// KeepAlive is the period of TCP keep-alive probes; 0 switches them off.
	KeepAlive time.Duration
	// MaxIdlePerTarget bounds the idle connections per scheme, host and port;
	// 0 keeps none.
	MaxIdlePerTarget int
	// MaxHeadBytes bounds the head of an answer, interim answers included.
	MaxHeadBytes int
	// ResendLimit: only bodies below so many bytes get the free re-send; 0
	// switches it off.
	ResendLimit int
	// RootCAs verifies https engines; nil is the system's set.
	RootCAs *x509.CertPool
	// Certificates is the client's own for https engines that ask for one, anew for
	// each connection; nil is none. See [tls.Config].
	Certificates func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	// Now is the clock of the idle pool.
	Now func() time.Time
}

// DefaultConfig returns the built-in settings.
func DefaultConfig() Config {
	return Config{
		ConnectTimeout:   10 * time.Second,
		IdleTimeout:      3 * time.Second,
		KeepAlive:        30 * time.Second,
		MaxIdlePerTarget: 500,
		MaxHeadBytes:     64 << 10,
		ResendLimit:      1 << 20,
		Now:              time.Now,
	}
}

// Validate reports every fault of c, joined.
func (c Config) Validate() error {
	var errs []error
	if c.ConnectTimeout <= 0 {
		errs = append(errs, fmt.Errorf("engine connect timeout must be above 0, got %v", c.ConnectTimeout))
	}
	if c.IdleTimeout < 0 {
		errs = append(errs, fmt.Errorf("--upstream-pool-idle-timeout-secs must not be negative, got %v", c.IdleTimeout))
	}
	if c.KeepAlive < 0 {
		errs = append(errs, fmt.Errorf("engine TCP keep-alive must not be negative, got %v", c.KeepAlive))
	}
	if c.MaxIdlePerTarget < 0 {
		errs = append(errs, fmt.Errorf("engine idle connections must not be negative, got %d", c.MaxIdlePerTarget))
	}
	if c.MaxHeadBytes < 1<<10 || c.MaxHeadBytes > 16<<20 {
		errs = append(errs, fmt.Errorf("engine head limit must lie between 1 KiB and 16 MiB, got %d", c.MaxHeadBytes))
	}
	if c.ResendLimit < 0 {
		errs = append(errs, fmt.Errorf("engine re-send limit must not be negative, got %d", c.ResendLimit))
	}
	if c.Now == nil {
		errs = append(errs, errors.New("engine client needs a clock"))
	}
	return errors.Join(errs...)
}
