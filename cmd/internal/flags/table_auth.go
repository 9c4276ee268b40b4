package flags

import (
	"log/slog"
	"strings"
)

// Auth is who may use the API and the engines, and by which certificates both are
// known.
type Auth struct {
	// APIKey is asked of clients and sent to the workers that the command line names;
	// "" is none.
	APIKey Secret
	// ClusterSecret is what the keys of workers are sealed with on the bus; "" leaves it
	// to APIKey.
	ClusterSecret Secret
	// TLSCert and TLSKey are files by which the API is known to clients, "" for an API
	// without TLS.
	TLSCert string
	TLSKey  string
	// ClientCert and ClientKey are files by which the gateway is known to engines, or "".
	ClientCert string
	ClientKey  string
	// CACerts are files with the authorities that engines are checked against, besides
	// the system's.
	CACerts []string
}

// TLS says whether the API is served over TLS.
func (a *Auth) TLS() bool { return a.TLSCert != "" }

// Secret is a text that no message, log or dump shows.
type Secret string

// String stands in for the text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

const nameAPIKey = "api-key"

// authTable defines the flags of [Auth].
func authTable() []Def {
	return []Def{
		{
			Name: nameAPIKey, Kind: Scalar, Value: "KEY", Env: []string{"SMG_API_KEY"}, Secret: true, Group: groupSecurity, In: everyProcess, Everyday: true,
			Help: "Key that clients must send as bearer token, and that goes to the workers named here.",
			set:  setSecret(func(s *Serve) *Secret { return &s.Auth.APIKey }),
		},
		{
			Name: "cluster-secret", Kind: Scalar, Value: "SECRET", Env: []string{"SMG_CLUSTER_SECRET"}, Secret: true, Group: groupSecurity, In: everyProcess,
			Help: "What the keys of single workers are sealed with on the message bus (--api-key), the same for all services.",
			set:  setSecret(func(s *Serve) *Secret { return &s.Auth.ClusterSecret }),
		},
		{
			Name: "tls-cert-path", Kind: Scalar, Value: "FILE", Group: groupSecurity, In: serving,
			Help: "Certificates of the API in PEM form, its own first, for HTTPS on its port; read again when they are renewed.",
			set:  setPath(func(s *Serve) *string { return &s.Auth.TLSCert }),
		},
		{
			Name: "tls-key-path", Kind: Scalar, Value: "FILE", Group: groupSecurity, In: serving,
			Help: "Key of that certificate.",
			set:  setPath(func(s *Serve) *string { return &s.Auth.TLSKey }),
		},
		{
			Name: "client-cert-path", Kind: Scalar, Value: "FILE", Group: groupSecurity, In: everyProcess,
			Help: "Certificate to show to https engines that ask for one; read again when it is renewed.",
			set:  setPath(func(s *Serve) *string { return &s.Auth.ClientCert }),
		},
		{
			Name: "client-key-path", Kind: Scalar, Value: "FILE", Group: groupSecurity, In: everyProcess,
			Help: "Key of that certificate.",
			set:  setPath(func(s *Serve) *string { return &s.Auth.ClientKey }),
		},
		{
			Name: "ca-cert-paths", Kind: List, Value: "FILE...", Group: groupSecurity, In: everyProcess,
			Help: "Authorities that the certificates of https engines are checked against, besides the system's.",
			set: func(s *Serve, v string) error {
				s.Auth.CACerts = append(s.Auth.CACerts, v)
				return nil
			},
			clear: func(s *Serve) { s.Auth.CACerts = nil },
		},
	}
}

// maxSecret keeps a key inside a header that engines take.
const maxSecret = 4000

// setSecret takes a text that can stand in a header. What is wrong is told without it.
func setSecret(field func(*Serve) *Secret) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		switch {
		case v == "":
			return &badValue{"it is empty", "give a value, or leave the flag out"}
		case len(v) > maxSecret:
			return &badValue{"it is too long", "give 4000 characters at most"}
		case strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }):
			return &badValue{"it holds blanks, line ends or other characters that a header cannot carry", "give letters, digits and punctuation alone"}
		}
		*field(s) = Secret(v)
		return nil
	}
}
