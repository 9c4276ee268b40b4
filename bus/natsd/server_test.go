package natsd_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"smg/bus/natsd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(t testing.TB) natsd.Config {
	cfg := natsd.DefaultConfig()
	cfg.TempDir = t.TempDir()
	return cfg
}

func start(t testing.TB, cfg natsd.Config) *natsd.Server {
	t.Helper()
	s, err := natsd.Start(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t testing.TB, s *natsd.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func memoryBucket(t testing.TB, nc *nats.Conn, name string) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func TestServerKeepsAndForgets(t *testing.T) {
	cfg := config(t)
	for round := range 2 {
		s := start(t, cfg)
		nc := connect(t, s)
		kv := memoryBucket(t, nc, "b")
		if keys, err := kv.Keys(t.Context()); err == nil {
			t.Fatalf("round %d: the bucket begins with %v", round, keys)
		}
		if _, err := kv.PutString(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
		if e, err := kv.Get(t.Context(), "k"); err != nil || string(e.Value()) != "v" {
			t.Fatalf("round %d: got %v, %v", round, e, err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatalf("stopping again: %v", err)
		}
		if left, err := filepath.Glob(filepath.Join(cfg.TempDir, "*")); err != nil || len(left) > 0 {
			t.Fatalf("round %d: left behind %v, %v", round, left, err)
		}
		if _, err := s.InProcessConn(); err == nil {
			t.Fatal("a stopped server takes connections")
		}
	}
}

// Two servers in one process have nothing in common.
func TestServersAreSeparate(t *testing.T) {
	a, b := start(t, config(t)), start(t, config(t))
	na, nb := connect(t, a), connect(t, b)
	ka, kb := memoryBucket(t, na, "b"), memoryBucket(t, nb, "b")
	sub, err := nb.SubscribeSync("s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ka.PutString(t.Context(), "k", "a"); err != nil {
		t.Fatal(err)
	}
	if err := na.Publish("s", []byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := na.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := kb.PutString(t.Context(), "k", "b"); err != nil {
		t.Fatalf("after the other one stopped: %v", err)
	}
	if e, err := kb.Get(t.Context(), "k"); err != nil || string(e.Value()) != "b" || e.Revision() != 1 {
		t.Fatalf("got %v, %v", e, err)
	}
	if err := nb.Publish("s", []byte("b")); err != nil {
		t.Fatal(err)
	}
	m, err := sub.NextMsg(5 * time.Second)
	if err != nil || string(m.Data) != "b" {
		t.Fatalf("got %v, %v", m, err)
	}
}

func TestServerDoesNotListen(t *testing.T) {
	sockets := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("open files cannot be listed here")
		}
		n := 0
		for _, fd := range fds {
			// A file that was closed meanwhile has no target.
			if to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(to, "socket:") {
				n++
			}
		}
		return n
	}
	before := sockets()
	connect(t, start(t, config(t)))
	if n := sockets() - before; n != 0 {
		t.Errorf("%d sockets were opened", n)
	}
}

func TestStartFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*natsd.Config)
		want   string
	}{
		{"no memory", func(c *natsd.Config) { c.MaxMemory = 0 }, "0 bytes of memory"},
		{"no directory", func(c *natsd.Config) { c.TempDir = "" }, "no directory"},
		{"no time", func(c *natsd.Config) { c.ReadyTimeout = 0 }, "ready within 0s"},
		{"a file for a directory", func(c *natsd.Config) { c.TempDir = file }, "making its directory"},
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

// A server that goes its way says nothing above debug.
func TestServerIsQuiet(t *testing.T) {
	var mu sync.Mutex
	var lines bytes.Buffer
	log := func(level slog.Level) *slog.Logger {
		return slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return lines.Write(p)
		}), &slog.HandlerOptions{Level: level}))
	}
	for _, tt := range []struct {
		name  string
		level slog.Level
		want  bool
	}{
		{"info", slog.LevelInfo, false},
		{"debug", slog.LevelDebug, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := natsd.Start(config(t), log(tt.level))
			if err != nil {
				t.Fatal(err)
			}
			memoryBucket(t, connect(t, s), "b")
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if got := lines.Len() > 0; got != tt.want {
				t.Errorf("said:\n%s", lines.String())
			}
		})
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func BenchmarkStart(b *testing.B) {
	cfg := config(b)
	for b.Loop() {
		s, err := natsd.Start(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkMemory reports what a server with 10,000 values of 300 bytes holds.
func BenchmarkMemory(b *testing.B) {
	held := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse+m.StackInuse) / (1 << 20)
	}
	for b.Loop() {
		before := held()
		s := start(b, config(b))
		b.ReportMetric(held()-before, "MB-empty")
		kv := memoryBucket(b, connect(b, s), "b")
		value := bytes.Repeat([]byte{'x'}, 300)
		for i := range 10_000 {
			if _, err := kv.Put(b.Context(), fmt.Sprintf("key-%d", i), value); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(held()-before, "MB-10k-values")
		if err := s.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}
