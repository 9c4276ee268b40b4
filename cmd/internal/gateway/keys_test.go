package gateway

import (
	"bytes"
	"testing"

	"smg/bootstrap"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/keys"
)

func TestGatewaySecure(t *testing.T) {
	// What goes on the bus of the workers of the command line shows no key, and is the
	// same after a restart.
	t.Run("22_workers_of_the_command_line", func(t *testing.T) {
		cfg := flags.DefaultLaunch()
		cfg.Auth.APIKey = "api-canary"
		cfg.WorkerURLs = []string{"http://w1:8000/", "https://w2:8000"}
		ring, err := keys.RingOf(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		first, err := registrarConfig(&cfg, ring)
		if err != nil {
			t.Fatal(err)
		}
		again, err := registrarConfig(&cfg, ring)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range first.Workers {
			s, err := bootstrap.SpecOf(c.URL, c.Leg)
			if err != nil {
				t.Fatal(err)
			}
			s.SealedKey = c.SealedKey
			if bytes.Contains(c.SealedKey, []byte("canary")) || !bytes.Equal(c.SealedKey, again.Workers[i].SealedKey) {
				t.Errorf("%s: %q, then %q", c.URL, c.SealedKey, again.Workers[i].SealedKey)
			}
			if key, err := ring.Open(s); key != "api-canary" || err != nil {
				t.Errorf("%s: %v", c.URL, err)
			}
		}
		cfg.Auth.APIKey = ""
		none, err := registrarConfig(&cfg, ring)
		if err != nil || len(none.Workers) != 2 || none.Workers[0].SealedKey != nil {
			t.Errorf("without a key: %+v, %v", none.Workers, err)
		}
	})
}
