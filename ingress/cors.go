package ingress

import "net/http"

// CORSConfig is which web pages may use the API.
type CORSConfig struct{}

// DefaultCORS is that of a gateway that was given no flags.
func DefaultCORS() CORSConfig { return CORSConfig{} }

// Validate reports every value out of range, each by its flag.
func (CORSConfig) Validate() error { return nil }

// cors tells browsers which pages may read the answer. It says whether that was all
// that was asked.
func (x *exchange) cors(*http.Request) (answered bool) { return false }
