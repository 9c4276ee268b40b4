package flags

import (
	"log/slog"
	"strings"

	"smg/cmd/internal/certs"
)

// check judges what the flags of table_auth.go say together, and reads the files.
func (a Auth) check(c *checker) {
	c.checkPair("tls-cert-path", a.TLSCert, "tls-key-path", a.TLSKey)
	c.checkPair("client-cert-path", a.ClientCert, "client-key-path", a.ClientKey)
	if _, err := certs.Authorities(a.CACerts); err != nil {
		c.add("ca-cert-paths", strings.Join(a.CACerts, " "), "give files with certificates in PEM form that can be read", "%s", err.Error())
	}
}

// checkPair judges a certificate and its key, of which there are both or none.
func (c *checker) checkPair(certFlag, cert, keyFlag, key string) {
	switch {
	case cert == "" && key == "":
	case key == "":
		c.add(certFlag, cert, "add --"+c.prefix+keyFlag+" FILE, or leave both out", "the key of the certificate is missing")
	case cert == "":
		c.add(keyFlag, key, "add --"+c.prefix+certFlag+" FILE, or leave both out", "the certificate of the key is missing")
	default:
		if _, err := certs.Load(cert, key, slog.New(slog.DiscardHandler)); err != nil {
			c.addWhere(c.as("--"+c.prefix+certFlag, cert)+" and "+c.as("--"+c.prefix+keyFlag, key), "give a certificate and its key in PEM form that can be read", "%s", err.Error())
		}
	}
}
