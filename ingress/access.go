package ingress

import "net/http"

// AccessConfig is what is told of each request: by which id, and where.
type AccessConfig struct{}

// DefaultAccess is that of a gateway that was given no flags.
func DefaultAccess() AccessConfig { return AccessConfig{} }

// Validate reports every value out of range, each by its flag.
func (AccessConfig) Validate() error { return nil }

// arrived notes that a request has come: its route is known, if there is one.
func (x *exchange) arrived(*http.Request) {}

// departed notes what has become of it: see exchange.out and exchange.err. It is
// called however the request ends, also where the connection is cut.
func (x *exchange) departed(*http.Request) {}
