// Package certs reads certificates from files, and reads them again when they are
// renewed.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// lookEvery is how often files are looked at: who renews certificates does so days
// before the old ones end.
const lookEvery = 10 * time.Second

// Pair is a certificate and its key, as the files have them now. It is safe for
// concurrent use.
type Pair struct {
	certFile, keyFile string
	log               *slog.Logger
	every             time.Duration
	cert, key         []byte // of the last look, by Run alone after Load
	now               atomic.Pointer[tls.Certificate]
}

// Load reads a pair. The error says which file is at fault.
func Load(certFile, keyFile string, log *slog.Logger) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile, log: log, every: lookEvery}
	cert, key, err := p.read()
	if err != nil {
		return nil, err
	}
	p.cert, p.key = cert, key
	c, err := p.parse(cert, key)
	if err != nil {
		return nil, err
	}
	p.now.Store(c)
	return p, nil
}

func (p *Pair) read() (cert, key []byte, err error) {
	if cert, err = os.ReadFile(p.certFile); err != nil {
		return nil, nil, err //nolint:wrapcheck // it names the file and what was wrong
	}
	if key, err = os.ReadFile(p.keyFile); err != nil {
		return nil, nil, err //nolint:wrapcheck // it names the file and what was wrong
	}
	return cert, key, nil
}

func (p *Pair) parse(cert, key []byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s are no certificate and its key: %w", p.certFile, p.keyFile, err)
	}
	return &c, nil
}

// Run reads the files again whenever they have changed, until ctx ends. A pair that
// cannot be used, such as one of which half is written, leaves the old one in place.
func (p *Pair) Run(ctx context.Context) error {
	t := time.NewTicker(p.every)
	defer t.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			told = p.look(told)
		}
	}
}

// look takes what is new. It returns the fault that there is now, which is told once.
func (p *Pair) look(told string) string {
	cert, key, err := p.read()
	if err == nil && bytes.Equal(cert, p.cert) && bytes.Equal(key, p.key) {
		return ""
	}
	var c *tls.Certificate
	if err == nil {
		c, err = p.parse(cert, key)
	}
	if err != nil {
		if now := err.Error(); now != told {
			p.log.Error("a renewed certificate cannot be used: the old one stays", slog.String("file", p.certFile), slog.Any("reason", err),
				slog.String("hint", "correct the files, which are read again every 10 s"))
			told = now
		}
		return told
	}
	p.cert, p.key = cert, key
	p.now.Store(c)
	attrs := []any{slog.String("file", p.certFile)}
	if c.Leaf != nil {
		attrs = append(attrs, slog.Time("valid_until", c.Leaf.NotAfter))
	}
	p.log.Info("certificate renewed", attrs...)
	return ""
}

// Server is what a listener with the pair works by.
func (p *Pair) Server() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.now.Load(), nil },
	}
}

// Client is the pair for a server that asks for one.
func (p *Pair) Client(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return p.now.Load(), nil
}

// ErrNone is the error of a file without a certificate.
var ErrNone = errors.New("it holds no certificate in PEM form")

// Authorities are the system's and those that files hold, or nil, the system's, without
// files. The error says which file is at fault.
func Authorities(files []string) (*x509.CertPool, error) {
	if len(files) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without any
	}
	for _, f := range files {
		pem, err := os.ReadFile(f)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the file and what was wrong
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %w", f, ErrNone)
		}
	}
	return pool, nil
}
