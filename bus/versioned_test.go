package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/bustest"
	"smg/bus/natsd"
)

// A write says what it follows, and is told what is stored if that is something else.
func TestVersioned(t *testing.T) {
	b := bus.NewVersioned(bustest.Start(t), pairs("b"), bus.Limits{})
	write := func(value string, after uint64) (bus.Stored[pair], error) {
		return b.Write(t.Context(), &pair{"k", value}, after)
	}
	first, err := write("1", 0)
	if err != nil || first.Revision == 0 {
		t.Fatalf("got %+v, %v", first, err)
	}
	conflict := func(what string, s bus.Stored[pair], err error, want string) {
		t.Helper()
		got := ""
		if s.Value != nil {
			got = s.Value.value
		}
		if !errors.Is(err, bus.ErrConflict) || got != want {
			t.Errorf("%s: got %q, %v, want %q, %v", what, got, err, want, bus.ErrConflict)
		}
	}
	s, err := write("x", 0)
	conflict("a second first value", s, err, "1")
	second, err := write("2", first.Revision)
	if err != nil || second.Revision <= first.Revision {
		t.Fatalf("got %+v, %v", second, err)
	}
	s, err = write("x", first.Revision)
	conflict("a value after an old one", s, err, "2")
	if s.Revision != second.Revision || s.Age < 0 {
		t.Errorf("stored is %+v, want revision %d", s, second.Revision)
	}
	s, err = b.Remove(t.Context(), "k", first.Revision)
	conflict("the removal of an old one", s, err, "2")
	s, err = b.Remove(t.Context(), "k", 0)
	conflict("the removal of what is not known", s, err, "2")
	if _, err := b.Remove(t.Context(), "k", second.Revision); err != nil {
		t.Error(err)
	}
	for _, after := range []uint64{0, second.Revision} {
		if _, err := b.Remove(t.Context(), "k", after); err != nil {
			t.Errorf("removing what is gone: %v", err)
		}
	}
	s, err = write("x", second.Revision)
	conflict("a value after one that is gone", s, err, "")
	if s.Revision != 0 {
		t.Errorf("gone has revision %d", s.Revision)
	}
	if s, err := write("3", 0); err != nil || s.Revision <= second.Revision {
		t.Errorf("a first value after a removal: %+v, %v", s, err)
	}
	if _, err := write("bad", 0); !errors.Is(err, bus.ErrConflict) {
		t.Error(err)
	}
	if s, err := b.Write(t.Context(), &pair{"u", "bad"}, 0); err != nil {
		t.Error(s, err)
	}
	if s, err := b.Write(t.Context(), &pair{"u", "1"}, 0); !errors.Is(err, bus.ErrConflict) || s.Value != nil || s.Revision == 0 {
		t.Errorf("over a value that cannot be read: %+v, %v", s, err)
	}
}

// versions is a table as a watcher of all versions knows it.
type versions struct {
	mu     sync.Mutex
	values map[string]string
	begun  int
	synced int
}

func watchVersions(t *testing.T, b *bus.Versioned[string, pair]) *versions {
	t.Helper()
	w := &versions{values: map[string]string{}}
	locked := func(f func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		err := b.Watch(ctx, bus.VersionedEvents[string, pair]{
			Begin:  func() { locked(func() { w.begun++; clear(w.values) }) },
			Put:    func(k string, s bus.Stored[pair]) { locked(func() { w.values[k] = s.Value.value }) },
			Delete: func(k string, _ uint64) { locked(func() { delete(w.values, k) }) },
			Synced: func() { locked(func() { w.synced++ }) },
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

func (w *versions) await(t *testing.T, synced int, want map[string]string) {
	t.Helper()
	bustest.Await(t, "the copy", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.synced >= synced && maps.Equal(w.values, want)
	})
}

// A watch tells what has been there and what comes, of its own keys alone, and tells
// all of it again after a reconnect.
func TestVersionedWatch(t *testing.T) {
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	table := pairs("b")
	table.Keys = "a.>"
	b := bus.NewVersioned(bustest.Connect(t, server), table, bus.Limits{})
	put := func(k, v string, after uint64) uint64 {
		s, err := b.Write(t.Context(), &pair{k, v}, after)
		if err != nil {
			t.Fatal(err)
		}
		return s.Revision
	}
	x := put("a.x", "1", 0)
	y := put("a.y", "1", 0)
	put("b.z", "1", 0)
	cut := bustest.Connect(t, link)
	w := watchVersions(t, bus.NewVersioned(cut, table, bus.Limits{}))
	w.await(t, 1, map[string]string{"a.x": "1", "a.y": "1"})
	x = put("a.x", "2", x)
	w.await(t, 1, map[string]string{"a.x": "2", "a.y": "1"})
	link.Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !cut.Connected() })
	put("a.x", "3", x)
	if _, err := b.Remove(t.Context(), "a.y", y); err != nil {
		t.Fatal(err)
	}
	put("a.new", "1", 0)
	link.Mend(server)
	w.await(t, 2, map[string]string{"a.x": "3", "a.new": "1"})
}

// Writes fail at once without a connection, and make the bucket again if it is gone.
func TestVersionedWithoutABucket(t *testing.T) {
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	c := bustest.Connect(t, link)
	b := bus.NewVersioned(c, pairs("b"), bus.Limits{})
	w := watchVersions(t, b)
	if _, err := b.Write(t.Context(), &pair{"x", "1"}, 0); err != nil {
		t.Fatal(err)
	}
	w.await(t, 1, map[string]string{"x": "1"})
	if err := jetStream(t, server).DeleteKeyValue(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(t.Context(), &pair{"y", "1"}, 0); err != nil {
		t.Fatal(err)
	}
	w.await(t, 2, map[string]string{"y": "1"}) // what is lost is for its writers to put again
	link.Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !c.Connected() })
	if _, err := b.Write(t.Context(), &pair{"x", "1"}, 0); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("writing: got %v, want %v", err, bus.ErrDisconnected)
	}
	if _, err := b.Remove(t.Context(), "x", 1); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("removing: got %v, want %v", err, bus.ErrDisconnected)
	}
}

// A bucket has the limits that it is opened with, also one of an earlier time.
func TestVersionedLimits(t *testing.T) {
	server := bustest.Server(t)
	type limits struct {
		MaxIdle time.Duration
		Bytes   int64
	}
	var got []limits
	for _, l := range []bus.Limits{{MaxIdle: time.Hour, MaxMemory: 1 << 20}, {MaxIdle: time.Second, MaxMemory: 1 << 20}, {}} {
		b := bus.NewVersioned(bustest.Connect(t, server), pairs("b"), l)
		if _, err := b.Remove(t.Context(), "k", 0); err != nil {
			t.Fatal(err)
		}
		stream, err := jetStream(t, server).Stream(t.Context(), "KV_b")
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		got = append(got, limits{c.MaxAge, c.MaxBytes})
	}
	if diff := cmp.Diff([]limits{{time.Hour, 1 << 20}, {time.Second, 1 << 20}, {0, 1 << 20}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is beyond the limit is refused, and takes nothing from other buckets.
func TestVersionedIsFull(t *testing.T) {
	cfg := natsd.DefaultConfig()
	cfg.MaxMemory = 1 << 20
	c := bustest.ConnectWith(t, bus.Config{Server: bustest.ServerWith(t, cfg), Name: "t", DrainTimeout: time.Second}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	b := bus.NewVersioned(c, pairs("b"), bus.Limits{MaxMemory: 1 << 10})
	var err error
	for i := 0; err == nil && i < 100; i++ {
		_, err = b.Write(t.Context(), &pair{"k" + string(rune('a'+i)), "a value of some bytes"}, 0)
	}
	if _, ok := errors.AsType[*jetstream.APIError](err); !ok || errors.Is(err, bus.ErrConflict) {
		t.Errorf("got %v, want the server's refusal", err)
	}
	if err := bus.NewBucket(c, pairs("other")).Put(t.Context(), &pair{"x", "1"}); err != nil {
		t.Errorf("another bucket: %v", err)
	}
}

// TestVersionedExpires: a value that nobody puts again is no more, and the next one
// is the first.
func TestVersionedExpires(t *testing.T) {
	b := bus.NewVersioned(bustest.Start(t), pairs("b"), bus.Limits{MaxIdle: 100 * time.Millisecond})
	s, err := b.Write(t.Context(), &pair{"k", "1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Await(t, "the value to go", func() bool {
		s, err := b.Remove(t.Context(), "k", 0) // deletes nothing
		return err == nil && s.Revision == 0
	})
	if s, err := b.Write(t.Context(), &pair{"k", "2"}, s.Revision); !errors.Is(err, bus.ErrConflict) || s.Revision != 0 {
		t.Errorf("after what is gone: %+v, %v", s, err)
	}
	if _, err := b.Write(t.Context(), &pair{"k", "2"}, 0); err != nil {
		t.Error(err)
	}
}
