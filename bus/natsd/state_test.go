package natsd_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"smg/bus/natsd"
)

// TestServerWithState: what is stored on disk is there after a restart, and nothing is left
// where temporary files are.
func TestServerWithState(t *testing.T) {
	cfg := config(t)
	cfg.StateDir = filepath.Join(t.TempDir(), "not", "yet")
	for round := range 3 {
		s := start(t, cfg)
		nc := connect(t, s)
		if strings.HasPrefix(nc.ConnectedServerName(), natsd.NamePrefix) {
			t.Errorf("clients take %s for a server that keeps nothing", nc.ConnectedServerName())
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		kv, err := js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", Storage: jetstream.FileStorage})
		if err != nil {
			t.Fatal(err)
		}
		if round > 0 {
			if e, err := kv.Get(t.Context(), "k"); err != nil || string(e.Value()) != "v" {
				t.Fatalf("round %d: got %v, %v", round, e, err)
			}
		} else if _, err := kv.PutString(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(cfg.TempDir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind %v, %v", left, err)
	}
}

// TestServersDoNotShareState: the second server in a directory says who is in its way, and
// the first one is not disturbed.
func TestServersDoNotShareState(t *testing.T) {
	cfg := config(t)
	cfg.StateDir = t.TempDir()
	first := start(t, cfg)
	if s, err := natsd.Start(cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		if err == nil {
			err = s.Stop()
		}
		t.Fatalf("the second server: %v", err)
	}
	connect(t, first)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
}

func TestStateThatCannotBe(t *testing.T) {
	cfg := config(t)
	cfg.StateDir = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(cfg.StateDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := natsd.Start(cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("got %v", err)
	}
}
