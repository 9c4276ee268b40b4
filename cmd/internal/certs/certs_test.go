package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// made is a new certificate and its key as files have them.
func made(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"gateway"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func write(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serial tells the certificates that a listener shows apart.
func serial(t *testing.T, p *Pair) int64 {
	t.Helper()
	c, err := p.Server().GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if other, err := p.Client(nil); err != nil || other != c {
		t.Error("a client shows another one")
	}
	return c.Leaf.SerialNumber.Int64()
}

func TestPairIsRenewed(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	cert, key := made(t, 1)
	certFile, keyFile := write(t, dir, "tls.crt", cert), write(t, dir, "tls.key", key)
	p, err := Load(certFile, keyFile, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	told := p.look("")
	if serial(t, p) != 1 || out.Len() != 0 {
		t.Fatalf("nothing has changed: %s", &out)
	}
	next, nextKey := made(t, 2)
	write(t, dir, "tls.crt", next) // its key is yet to be written
	for range 3 {
		told = p.look(told)
	}
	if serial(t, p) != 1 || strings.Count(out.String(), "level=ERROR") != 1 || !strings.Contains(out.String(), certFile) {
		t.Errorf("half a pair: %d, log %s", serial(t, p), &out)
	}
	write(t, dir, "tls.key", nextKey)
	if told = p.look(told); serial(t, p) != 2 || told != "" || !strings.Contains(out.String(), "certificate renewed") || !strings.Contains(out.String(), "valid_until") {
		t.Errorf("the pair: %d, log %s", serial(t, p), &out)
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	if told = p.look(told); serial(t, p) != 2 || !strings.Contains(told, keyFile) {
		t.Errorf("no key file: %d, %s", serial(t, p), told)
	}
	if strings.Contains(out.String(), "PRIVATE") {
		t.Errorf("log %s", &out)
	}
}

func TestPairIsLookedAt(t *testing.T) {
	dir := t.TempDir()
	cert, key := made(t, 1)
	p, err := Load(write(t, dir, "tls.crt", cert), write(t, dir, "tls.key", key), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.every = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	next, nextKey := made(t, 2)
	write(t, dir, "tls.crt", next)
	write(t, dir, "tls.key", nextKey)
	for end := time.Now().Add(20 * time.Second); serial(t, p) != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the new pair is not taken")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	cert, key := made(t, 1)
	_, otherKey := made(t, 2)
	good, goodKey := write(t, dir, "a.crt", cert), write(t, dir, "a.key", key)
	other, empty := write(t, dir, "b.key", otherKey), write(t, dir, "empty", nil)
	missing := filepath.Join(dir, "missing")
	for _, tt := range []struct{ name, cert, key, words string }{
		{"no certificate", missing, goodKey, "missing: no such file"},
		{"no key", good, missing, "missing: no such file"},
		{"an empty certificate", empty, goodKey, "empty"},
		{"an empty key", good, empty, "empty"},
		{"the wrong way round", goodKey, good, "no certificate and its key"},
		{"another's key", good, other, "does not match"},
		{"a folder", dir, goodKey, "is a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Load(tt.cert, tt.key, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.words) || strings.Contains(err.Error(), "BEGIN") {
				t.Errorf("%v", err)
			}
		})
	}
	if pool, err := Authorities(nil); pool != nil || err != nil {
		t.Error("without files it is not the system's")
	}
	if _, err := Authorities([]string{good, empty}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), empty) {
		t.Errorf("%v", err)
	}
	if _, err := Authorities([]string{missing}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
	if pool, err := Authorities([]string{good}); err != nil || pool == nil {
		t.Errorf("%v", err)
	}
}
