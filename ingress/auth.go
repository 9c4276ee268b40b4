package ingress

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// AuthConfig is who may use the API.
type AuthConfig struct {
	// required: who sends no key may use the public routes alone. digest is the key's
	// hash: two of them are compared in the same time, whatever their keys have in common.
	required bool
	digest   [sha256.Size]byte
}

// DefaultAuth is that of a gateway that was given no flags: everybody may.
func DefaultAuth() AuthConfig { return AuthConfig{} }

// RequireKey lets only those in who send the key, or everybody if it is empty.
func RequireKey(key string) AuthConfig {
	if key == "" {
		return AuthConfig{}
	}
	return AuthConfig{required: true, digest: sha256.Sum256([]byte(bearer + key))}
}

// Validate reports every value out of range, each by its flag.
func (AuthConfig) Validate() error { return nil }

// bearer is the one scheme there is, as it must be written.
const bearer = "Bearer "

// mayEnter refuses who has no key for the route's class. One of several Authorization
// fields would be one too many: who reads which of them is not known.
func (x *exchange) mayEnter(r *http.Request) error {
	auth := &x.srv.cfg.Auth
	if !auth.required || x.route.class == classPublic {
		return nil
	}
	sent := r.Header["Authorization"]
	if len(sent) != 1 {
		return &problem{status: http.StatusUnauthorized, form: empty}
	}
	digest := sha256.Sum256([]byte(sent[0]))
	if subtle.ConstantTimeCompare(digest[:], auth.digest[:]) != 1 {
		return &problem{status: http.StatusUnauthorized, form: empty}
	}
	return nil
}
