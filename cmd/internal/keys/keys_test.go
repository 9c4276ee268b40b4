package keys

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"smg/cmd/internal/flags"
	"smg/worker"
)

func at(url string) *worker.Spec { return &worker.Spec{URL: url} }

func ring(t *testing.T, cluster, secret string) *Ring {
	t.Helper()
	r, err := NewRing(cluster, secret)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRing(t *testing.T) {
	r := ring(t, "c", "secret")
	w := at("http://w:1")
	sealed, err := r.Seal(w, "sk-canary")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("canary")) {
		t.Error("the key can be read")
	}
	again, err := ring(t, "c", "secret").Seal(w, "sk-canary")
	if err != nil || !bytes.Equal(sealed, again) {
		t.Error("sealed again, it is another record")
	}
	if other, err := r.Seal(w, "sk-other"); err != nil || bytes.Equal(sealed[:13], other[:13]) {
		t.Error("two keys share a nonce")
	}
	if other, err := r.Seal(at("http://w:2"), "sk-canary"); err != nil || bytes.Equal(sealed[13:], other[13:]) {
		t.Error("two workers show that they have the same key")
	}
	if none, err := r.Seal(w, ""); none != nil || err != nil {
		t.Error("no key is something")
	}
	with := func(s *worker.Spec, sealed []byte) *worker.Spec { s.SealedKey = sealed; return s }
	bent := bytes.Clone(sealed)
	bent[len(bent)-1]++
	ranked := at("http://w:1@1")
	ranked.BaseURL = "http://w:1"
	for _, tt := range []struct {
		name   string
		ring   *Ring
		worker *worker.Spec
		key    string
		err    error
	}{
		{"its own", r, with(at("http://w:1"), sealed), "sk-canary", nil},
		{"another process", ring(t, "c", "secret"), with(at("http://w:1"), sealed), "sk-canary", nil},
		{"a rank of the engine", r, with(ranked, sealed), "sk-canary", nil},
		{"no key", r, at("http://w:1"), "", nil},
		{"no key and no secret", ring(t, "c", ""), at("http://w:1"), "", nil},
		{"no secret", ring(t, "c", ""), with(at("http://w:1"), sealed), "", ErrNoSecret},
		{"another secret", ring(t, "c", "Secret"), with(at("http://w:1"), sealed), "", ErrSealed},
		{"another cluster", ring(t, "d", "secret"), with(at("http://w:1"), sealed), "", ErrSealed},
		{"another worker", r, with(at("http://evil:1"), sealed), "", ErrSealed},
		{"changed on the way", r, with(at("http://w:1"), bent), "", ErrSealed},
		{"cut off", r, with(at("http://w:1"), sealed[:12]), "", ErrSealed},
		{"another version", r, with(at("http://w:1"), append([]byte{2}, sealed[1:]...)), "", ErrSealed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, err := tt.ring.Open(tt.worker)
			if key != tt.key || !errors.Is(err, tt.err) {
				t.Errorf("%q, %v", key, err)
			}
			if err != nil && (strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "--cluster-secret")) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := ring(t, "c", "").Seal(w, "sk-canary"); !errors.Is(err, ErrNoSecret) {
		t.Errorf("%v", err)
	}
}

// TestRingOf takes the cluster's secret before the API's key.
func TestRingOf(t *testing.T) {
	cfg := &flags.Launch{Cluster: "c"}
	cfg.Auth.APIKey = "key"
	byKey, err := RingOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Auth.ClusterSecret = "secret"
	bySecret, err := RingOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := at("http://w:1")
	if w.SealedKey, err = byKey.Seal(w, "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := bySecret.Open(w); !errors.Is(err, ErrSealed) {
		t.Errorf("%v", err)
	}
	if k, err := ring(t, "c", "key").Open(w); k != "k" {
		t.Errorf("%q, %v", k, err)
	}
}
