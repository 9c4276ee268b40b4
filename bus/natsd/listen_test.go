package natsd_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"smg/bus/natsd"
)

func listening(t *testing.T, listen string) natsd.Config {
	cfg := config(t)
	cfg.Listen = listen
	return cfg
}

// Over the network comes in who has the credentials; within the process, everybody.
func TestListener(t *testing.T) {
	s := start(t, listening(t, "127.0.0.1:0"))
	u, err := url.Parse(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	for _, tt := range []struct {
		name string
		user *url.Userinfo
		in   bool
	}{
		{"credentials", u.User, true},
		{"none", nil, false},
		{"token", url.User(password), false},
		{"wrong user", url.UserPassword("smg", password), false},
		{"wrong password", url.UserPassword(u.User.Username(), "x"+password), false},
		{"no password", url.User(u.User.Username()), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := url.URL{Scheme: "nats", Host: u.Host, User: tt.user}
			nc, err := nats.Connect(at.String(), nats.NoReconnect())
			if err == nil {
				defer nc.Close()
			}
			switch {
			case tt.in && err != nil:
				t.Errorf("kept out: %v", err)
			case !tt.in && !errors.Is(err, nats.ErrAuthorization):
				t.Errorf("got %v, want %v", err, nats.ErrAuthorization)
			}
		})
	}
	inside := connect(t, s)
	kv := memoryBucket(t, inside, "b")
	outside, err := nats.Connect(s.ClientURL(), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	if _, err := kv.PutString(t.Context(), "k", "inside"); err != nil {
		t.Fatal(err)
	}
	other := memoryBucket(t, outside, "b")
	if e, err := other.Get(t.Context(), "k"); err != nil || string(e.Value()) != "inside" {
		t.Errorf("outside: got %v, %v", e, err)
	}
	if name := outside.ConnectedServerName(); !strings.HasPrefix(name, natsd.NamePrefix) {
		t.Errorf("the server's name is %q", name)
	}
	if got, want := s.String(), "embedded NATS on "+u.Host; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What the server is asked to keep secret gets into no log line, at no level.
func TestSecretsAreNotLogged(t *testing.T) {
	var mu sync.Mutex
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return lines.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug - 8}))
	s, err := natsd.Start(listening(t, "127.0.0.1:0"), log)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.ClientURL(), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	password, _ := u.User.Password()
	u.User = url.UserPassword("nobody", password)
	if _, err := nats.Connect(u.String(), nats.NoReconnect()); err == nil {
		t.Error("nobody was let in")
	}
	log.Info("server", "server", s, "name", fmt.Sprint(s))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(lines.String(), password) {
		t.Errorf("the password is in the log:\n%s", lines.String())
	}
}

func TestClientURL(t *testing.T) {
	for _, tt := range []struct {
		name, listen, user, want string
	}{
		{"none", "", "", ""},
		{"one address", "127.0.0.1:0", "u", "nats://u:p%3A@127.0.0.1:PORT"},
		{"all", "0.0.0.0:0", "u", "nats://u:p%3A@127.0.0.1:PORT"},
		{"no host", ":0", "u", "nats://u:p%3A@127.0.0.1:PORT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := listening(t, tt.listen)
			if tt.user != "" {
				cfg.User, cfg.Password = tt.user, "p:"
			}
			s := start(t, cfg)
			got := s.ClientURL()
			if tt.listen == "" {
				if got != "" || s.String() != "embedded NATS" {
					t.Errorf("got %q and %s", got, s)
				}
				return
			}
			u, err := url.Parse(got)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.ReplaceAll(tt.want, "PORT", u.Port()); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			nc, err := nats.Connect(got, nats.NoReconnect())
			if err != nil {
				t.Fatal(err)
			}
			nc.Close()
		})
	}
	a, b := start(t, listening(t, "127.0.0.1:0")), start(t, listening(t, "127.0.0.1:0"))
	ua, ub := mustUser(t, a), mustUser(t, b)
	if ua == ub {
		t.Error("two servers have the same credentials")
	}
}

func mustUser(t *testing.T, s *natsd.Server) string {
	t.Helper()
	u, err := url.Parse(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	return u.User.String()
}

func TestListenFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		name   string
		change func(*natsd.Config)
		want   string
	}{
		{"no port", func(c *natsd.Config) { c.Listen = "127.0.0.1" }, "is not host:port"},
		{"bad port", func(c *natsd.Config) { c.Listen = "127.0.0.1:65536" }, `port "65536"`},
		{"port is taken", func(c *natsd.Config) { c.Listen = taken.Addr().String() }, "address already in use"},
		{"a user alone", func(c *natsd.Config) { c.User = "u" }, "belong together"},
		{"a password alone", func(c *natsd.Config) { c.Password = "p" }, "belong together"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(t)
			tt.change(&cfg)
			s, err := natsd.Start(cfg, slog.New(slog.DiscardHandler))
			if err == nil {
				t.Error("started")
				err = s.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ... %s ...", err, tt.want)
			}
		})
	}
}
