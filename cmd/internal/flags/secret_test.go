package flags

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestGatewaySecure refuses keys that would split a head, and shows none.
func TestGatewaySecure(t *testing.T) {
	t.Run("80_line_ends_in_keys", func(t *testing.T) {
		for _, v := range []string{"", "a\r\nX-Evil: b", "a\nb", "a\rb", "a zq", " zq", "a\x00", "a\x7f", "schlüssel", strings.Repeat("a", maxSecret+1)} {
			for _, name := range []string{"SMG_API_KEY", "SMG_FLAG_API_KEY", "SMG_CLUSTER_SECRET"} {
				if v == "" {
					continue // an empty variable counts as not set
				}
				_, err := Parse(Input{Args: []string{"launch"}, Env: func(n string) (string, bool) { return v, n == name }})
				var f *Fault
				if !errors.As(err, &f) || f.Code != ExitUsage || strings.Contains(fmt.Sprint(err, f.Where, f.Hint), v) {
					t.Errorf("%s=%.20q: %v", name, v, err)
				}
			}
			if err := setSecret(func(s *Serve) *Secret { return &s.Auth.APIKey })(&Serve{}, v); err == nil || v != "" && strings.Contains(err.Error(), v) {
				t.Errorf("%.20q: %v", v, err)
			}
		}
	})
	t.Run("28_the_variable", func(t *testing.T) {
		c, err := Parse(Input{Args: []string{"launch"}, Env: func(n string) (string, bool) { return "sk-~!x", n == "SMG_API_KEY" }})
		if err != nil || c.Launch.Auth.APIKey != "sk-~!x" {
			t.Fatal(err)
		}
	})
}

func TestCLISecrets(t *testing.T) {
	t.Run("81_a_key_is_not_printed", func(t *testing.T) {
		l := DefaultLaunch()
		l.Auth.APIKey, l.Auth.ClusterSecret = "canary", "canary"
		var out strings.Builder
		log := slog.New(slog.NewJSONHandler(&out, nil))
		log.Info("x", slog.Any("auth", l.Auth), slog.Any("key", l.Auth.APIKey))
		js, err := json.Marshal(l.Auth)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{out.String(), string(js), fmt.Sprintf("%v %+v %#v %s %q", l.Auth, l.Auth, l.Auth, l.Auth.APIKey, l.Auth.APIKey)} {
			if strings.Contains(text, "canary") || !strings.Contains(text, "***") {
				t.Errorf("%s", text)
			}
		}
	})
}
