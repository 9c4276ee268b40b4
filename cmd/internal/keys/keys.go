// Package keys keeps the keys of workers from all who can read the message bus: a
// worker's record carries its key sealed, and those open it who know the cluster's
// secret.
package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"smg/cmd/internal/flags"
	"smg/worker"
)

// Ring seals and opens the keys of workers. It is safe for concurrent use.
type Ring struct {
	aead cipher.AEAD // nil without a secret
	mac  []byte
}

// Why a key cannot be sealed or opened.
var (
	ErrNoSecret = errors.New("this process has no secret for the keys of workers: start all services with the same --cluster-secret, or --api-key")
	ErrSealed   = errors.New("the worker's key was sealed with another secret than this process has: start all services with the same --cluster-secret, or --api-key")
)

// RingOf is the ring of a process: of the cluster's secret, or of the API's key where
// that is not given. Without either it has none, and opens nothing but what is no key.
func RingOf(cfg *flags.Launch) (*Ring, error) {
	secret := cfg.Auth.ClusterSecret
	if secret == "" {
		secret = cfg.Auth.APIKey
	}
	return NewRing(cfg.Cluster, string(secret))
}

// NewRing is a ring of a secret, or of none.
func NewRing(cluster, secret string) (*Ring, error) {
	if secret == "" {
		return &Ring{}, nil
	}
	const seal, nonce = 32, 32
	both, err := hkdf.Key(sha256.New, []byte(secret), nil, "smg keys of workers 1 "+cluster, seal+nonce)
	if err != nil {
		return nil, fmt.Errorf("deriving the key for the keys of workers: %w", err)
	}
	block, err := aes.NewCipher(both[:seal])
	if err != nil {
		return nil, fmt.Errorf("preparing the key for the keys of workers: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("preparing the key for the keys of workers: %w", err)
	}
	return &Ring{aead: aead, mac: both[seal:]}, nil
}

// NewSecret is a secret that nobody else has.
func NewSecret() string { return rand.Text() }

// version is the first byte of what is sealed.
const version = 1

// Seal seals a key for the worker s; "" is sealed as nothing. The same key of the same
// worker always gives the same bytes, so that a record which is made again is the same
// record; so the nonce is a hash of both. Nobody can give what is sealed to a worker
// with another URL.
func (r *Ring) Seal(s *worker.Spec, key string) ([]byte, error) {
	switch {
	case key == "":
		return nil, nil
	case r.aead == nil:
		return nil, ErrNoSecret
	}
	base := []byte(s.Base())
	mac := hmac.New(sha256.New, r.mac)
	mac.Write(base) // a hash takes all
	mac.Write([]byte{0})
	mac.Write([]byte(key))
	nonce := mac.Sum(nil)[:r.aead.NonceSize()]
	out := append([]byte{version}, nonce...)
	return r.aead.Seal(out, nonce, []byte(key), base), nil
}

// Open is the key of the worker s, "" if it has none.
func (r *Ring) Open(s *worker.Spec) (string, error) {
	sealed := s.SealedKey
	switch {
	case len(sealed) == 0:
		return "", nil
	case r.aead == nil:
		return "", ErrNoSecret
	case len(sealed) < 1+r.aead.NonceSize() || sealed[0] != version:
		return "", ErrSealed
	}
	nonce, text := sealed[1:1+r.aead.NonceSize()], sealed[1+r.aead.NonceSize():]
	key, err := r.aead.Open(nil, nonce, text, []byte(s.Base()))
	if err != nil {
		return "", ErrSealed // what failed says nothing to people
	}
	return string(key), nil
}
