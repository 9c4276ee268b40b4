package flags

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	t.Run("60_fallback", func(t *testing.T) {
		serve := []string{"serve", "--backend", "sim", "--data-parallel-size", "2"}
		for _, tt := range []struct {
			name    string
			args    []string
			env     string // SMG_API_KEY
			want    Secret
			engines []string
		}{
			{"the engines'", []string{"--api-key", "K"}, "", "K", []string{"--api-key", "K"}},
			{"with =", []string{"--api-key=K"}, "", "K", []string{"--api-key=K"}},
			{"with _", []string{"--api_key", "K"}, "", "K", []string{"--api_key", "K"}},
			{"behind --", []string{"--", "--api-key", "K", "L"}, "", "K", []string{"--api-key", "K", "L"}},
			{"the last one", []string{"--", "--api-key", "J", "--api-key=K"}, "", "K", []string{"--api-key", "J", "--api-key=K"}},
			{"disabled", []string{"--api-key", "K", "--router-disable-arg-fallback"}, "", "", []string{"--api-key", "K"}},
			{"its own", []string{"--api-key", "K", "--router-api-key", "J"}, "", "J", []string{"--api-key", "K"}},
			{"its own by a variable", []string{"--api-key", "K"}, "J", "J", []string{"--api-key", "K"}},
			{"empty", []string{"--api-key="}, "", "", []string{"--api-key="}},
			{"none", nil, "", "", nil},
		} {
			t.Run(tt.name, func(t *testing.T) {
				c, err := Parse(Input{Args: slices.Concat(serve, tt.args), Env: func(n string) (string, bool) { return tt.env, n == "SMG_API_KEY" }})
				if err != nil {
					t.Fatal(err)
				}
				if c.Launch.Auth.APIKey != tt.want || !slices.Equal(c.Serve.Engines.EngineArgs, tt.engines) {
					t.Errorf("key %q, engines %q", string(c.Launch.Auth.APIKey), c.Serve.Engines.EngineArgs)
				}
				told := slices.ContainsFunc(c.Notices, func(n string) bool { return strings.Contains(n, "--router-disable-arg-fallback") })
				if told != (tt.want == "K") {
					t.Errorf("notices %q", c.Notices)
				}
				if want := tt.want != ""; want != slices.Contains(c.IngressSecrets(), "SMG_FLAG_API_KEY="+string(tt.want)) {
					t.Errorf("the ingress is told %q", c.IngressSecrets())
				}
				if args := strings.Join(c.IngressArgs(), " "); strings.Contains(args, "api-key") || strings.Contains(args, "arg-fallback") {
					t.Errorf("the ingress's command line: %s", args)
				}
			})
		}
	})
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
