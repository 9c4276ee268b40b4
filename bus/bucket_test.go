package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// pair is a value of the tables of these tests.
type pair struct{ key, value string }

func pairs(bucket string) wire.Table[string, pair] {
	return wire.Table[string, pair]{
		Kind:      "pairs",
		Bucket:    bucket,
		Key:       func(p *pair) string { return p.key },
		FormatKey: func(k string) string { return k },
		ParseKey: func(s string) (string, error) {
			if s == "no-key" {
				return "", wire.ErrMalformed
			}
			return s, nil
		},
		Append: func(buf []byte, p *pair) ([]byte, error) { return append(buf, p.value...), nil },
		Decode: func(k string, data []byte) (*pair, error) {
			if string(data) == "bad" {
				return nil, wire.ErrMalformed
			}
			return &pair{k, string(data)}, nil
		},
	}
}

// copyOf is a table as a watcher knows it.
type copyOf struct {
	bucket *bus.Bucket[string, pair]

	mu     sync.Mutex
	values map[string]string
	told   int // puts and deletes
	synced int
}

// follow watches the bucket until the test ends or stop is called.
func follow(t *testing.T, c *bus.Conn, bucket string) (w *copyOf, stop func()) {
	t.Helper()
	w = &copyOf{bucket: bus.NewBucket(c, pairs(bucket)), values: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		err := w.bucket.Watch(ctx, bus.Events[string, pair]{
			Put: func(k string, p *pair) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.values[k] = p.value
				w.told++
			},
			Delete: func(k string) {
				w.mu.Lock()
				defer w.mu.Unlock()
				delete(w.values, k)
				w.told++
			},
			Synced: func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.synced++
			},
		})
		if err != nil {
			t.Error(err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return w, stop
}

func (w *copyOf) state() (values map[string]string, told, synced int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.values), w.told, w.synced
}

func (w *copyOf) awaitSync(t *testing.T, n int) {
	t.Helper()
	bustest.Await(t, fmt.Sprintf("sync %d", n), func() bool {
		_, _, synced := w.state()
		return synced >= n
	})
}

func (w *copyOf) await(t *testing.T, want map[string]string) {
	t.Helper()
	bustest.Await(t, fmt.Sprintf("the copy to be %v", want), func() bool {
		got, _, _ := w.state()
		return maps.Equal(got, want)
	})
}

func (w *copyOf) put(t *testing.T, kv ...string) {
	t.Helper()
	for i := 0; i < len(kv); i += 2 {
		if err := w.bucket.Put(t.Context(), &pair{kv[i], kv[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *copyOf) delete(t *testing.T, k string) {
	t.Helper()
	if err := w.bucket.Delete(t.Context(), k); err != nil {
		t.Fatal(err)
	}
}

func TestBucketIsTheSameForAll(t *testing.T) {
	server := bustest.Server(t)
	a, _ := follow(t, bustest.Connect(t, server), "b")
	a.awaitSync(t, 1) // an empty bucket is complete too
	a.put(t, "x", "1", "y", "1", "z", "1")
	a.delete(t, "y")
	a.delete(t, "never-was")

	b, stop := follow(t, bustest.Connect(t, server), "b")
	b.awaitSync(t, 1)
	// Complete when synced: nothing has to be awaited.
	got, _, _ := b.state()
	if d := cmp.Diff(map[string]string{"x": "1", "z": "1"}, got); d != "" {
		t.Fatalf("at first (-want +got):\n%s", d)
	}
	b.put(t, "x", "2", "y", "2")
	b.delete(t, "z")
	for _, w := range []*copyOf{a, b} {
		w.await(t, map[string]string{"x": "2", "y": "2"})
	}

	// The same value again is nothing new.
	_, told, _ := a.state()
	b.put(t, "x", "2", "y", "3")
	a.await(t, map[string]string{"x": "2", "y": "3"})
	if _, now, _ := a.state(); now != told+1 {
		t.Errorf("%d changes were told, want 1", now-told)
	}
	stop()
	a.put(t, "x", "4")
	a.await(t, map[string]string{"x": "4", "y": "3"})
	if got, _, _ := b.state(); got["x"] != "2" {
		t.Error("a watch that was stopped goes on")
	}
}

// What changed while the connection was gone is told when it is back; nothing else is.
func TestWatchAfterReconnect(t *testing.T) {
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	a, _ := follow(t, bustest.Connect(t, server), "b")
	cut := bustest.Connect(t, link)
	b, _ := follow(t, cut, "b")
	a.put(t, "same", "1", "changed", "1", "deleted", "1")
	b.put(t, "own", "1", "own-deleted", "1")
	b.await(t, map[string]string{"same": "1", "changed": "1", "deleted": "1", "own": "1", "own-deleted": "1"})
	_, told, _ := b.state()

	link.Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !cut.Connected() })
	if err := b.bucket.Put(t.Context(), &pair{"lost", "1"}); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("putting: got %v, want %v", err, bus.ErrDisconnected)
	}
	if err := b.bucket.Delete(t.Context(), "same"); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("deleting: got %v, want %v", err, bus.ErrDisconnected)
	}
	a.put(t, "changed", "2", "new", "2")
	a.delete(t, "deleted")
	a.delete(t, "own-deleted")
	link.Mend(server)

	want := map[string]string{"same": "1", "changed": "2", "new": "2", "own": "1"}
	b.awaitSync(t, 2)
	got, now, _ := b.state()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if now != told+4 {
		t.Errorf("%d changes were told, want 4", now-told)
	}
	a.await(t, want) // and what others deleted stays deleted
}

// A server that comes back empty is filled by those who put the values, and nobody
// takes the emptiness for a deletion.
func TestEmptyServerIsFilledAgain(t *testing.T) {
	first, second := bustest.Server(t), bustest.Server(t)
	links := []*bustest.Link{bustest.NewLink(first), bustest.NewLink(first), bustest.NewLink(first)}
	var copies []*copyOf
	for i, l := range links {
		w, _ := follow(t, bustest.Connect(t, l), "b")
		copies = append(copies, w)
		w.awaitSync(t, 1)
		if i < 2 {
			w.put(t, fmt.Sprintf("k%d", i), "1", fmt.Sprintf("k%d", i), "2", "deleted", "1")
		}
	}
	copies[2].delete(t, "deleted")
	want := map[string]string{"k0": "2", "k1": "2"}
	for _, w := range copies {
		w.await(t, want)
	}

	for _, l := range links {
		l.Cut()
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		l.Mend(second)
	}
	fresh, _ := follow(t, bustest.Connect(t, second), "b")
	for _, w := range append(copies, fresh) {
		w.await(t, want)
	}
	copies[0].delete(t, "k1") // whoever put it: and it stays away
	copies[1].put(t, "k2", "3")
	for _, w := range append(copies, fresh) {
		w.await(t, map[string]string{"k0": "2", "k2": "3"})
	}
}

// A bucket that is removed under the feet of its users is made and filled again.
func TestRemovedBucketIsFilledAgain(t *testing.T) {
	server := bustest.Server(t)
	w, _ := follow(t, bustest.Connect(t, server), "b")
	w.awaitSync(t, 1)
	w.put(t, "x", "1", "y", "1")
	js := jetStream(t, server)
	if err := js.DeleteKeyValue(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	w.put(t, "z", "1") // makes it again
	fresh, _ := follow(t, bustest.Connect(t, server), "b")
	for _, w := range []*copyOf{w, fresh} {
		w.await(t, map[string]string{"x": "1", "y": "1", "z": "1"})
	}
}

// A watch notices a bucket that others removed, and one of the same name in its place.
func TestReplacedBucket(t *testing.T) {
	server := bustest.Server(t)
	w, _ := follow(t, bustest.Connect(t, server), "b")
	w.put(t, "x", "1")
	w.awaitSync(t, 1)
	js := jetStream(t, server)
	if err := js.DeleteKeyValue(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	other := bus.NewBucket(bustest.Connect(t, server), pairs("b"))
	if err := other.Put(t.Context(), &pair{"y", "1"}); err != nil {
		t.Fatal(err)
	}
	w.await(t, map[string]string{"x": "1", "y": "1"})
	fresh, _ := follow(t, bustest.Connect(t, server), "b")
	fresh.await(t, map[string]string{"x": "1", "y": "1"})
}

func jetStream(t *testing.T, server bus.Dialer) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestBadValuesAreIgnored(t *testing.T) {
	reg := prometheus.NewRegistry()
	var log logLines
	cfg := bus.DefaultConfig()
	cfg.Server = bustest.Server(t)
	c := bustest.ConnectWith(t, cfg, reg, slog.New(slog.NewTextHandler(&log, nil)))
	w, _ := follow(t, c, "b")
	w.awaitSync(t, 1) // from here on it is told every change, not the last ones alone
	w.put(t, "x", "1", "y", "bad", "no-key", "1", "x", "bad", "z", "1")
	w.await(t, map[string]string{"x": "1", "z": "1"})
	want := `
# HELP smg_bus_dropped_total Messages from NATS that were dropped, by topic and reason.
# TYPE smg_bus_dropped_total counter
smg_bus_dropped_total{reason="malformed",topic="pairs"} 3
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "smg_bus_dropped_total"); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

func TestWatchEndsWithTheConnection(t *testing.T) {
	c := bustest.Start(t)
	synced := make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- bus.NewBucket(c, pairs("b")).Watch(t.Context(), bus.Events[string, pair]{Synced: func() { close(synced) }})
	}()
	<-synced
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("no error")
	}
}

// A watch that nobody can answer is tried until somebody can.
func TestWatchBeforeTheServer(t *testing.T) {
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	c := bustest.Connect(t, link)
	link.Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !c.Connected() })
	w, _ := follow(t, c, "b")
	link.Mend(server)
	w.awaitSync(t, 1)
	w.put(t, "x", "1")
	w.await(t, map[string]string{"x": "1"})
}

// The table of workers, whole, through a bucket.
func TestWorkersBucket(t *testing.T) {
	c := bustest.Start(t)
	table := cluster(t, "default").Workers()
	b := bus.NewBucket(c, table)
	const url = "http://127.0.0.1:8000"
	want := &worker.Spec{ID: worker.IDOf(url), URL: url, Models: []worker.Model{{ID: "m"}}, BootstrapPort: 9000}
	if err := b.Put(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), &worker.Spec{}); err == nil {
		t.Error("a worker without an id was stored")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got []*worker.Spec
	var deleted []worker.ID
	err := b.Watch(ctx, bus.Events[worker.ID, worker.Spec]{
		Put:    func(_ worker.ID, s *worker.Spec) { got = append(got, s) },
		Delete: func(id worker.ID) { deleted = append(deleted, id); cancel() },
		Synced: func() {
			if err := b.Delete(t.Context(), want.ID); err != nil {
				t.Error(err)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]*worker.Spec{want}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]worker.ID{want.ID}, deleted); d != "" {
		t.Errorf("deleted (-want +got):\n%s", d)
	}
}

// BenchmarkBucket is what it takes to store a worker, and to hear of 10,000 that
// are there already.
func BenchmarkBucket(b *testing.B) {
	c := bustest.Start(b)
	spec := func(i int) *worker.Spec {
		url := fmt.Sprintf("http://10.0.%d.%d:8000", i/256, i%256)
		return &worker.Spec{
			ID: worker.IDOf(url), URL: url, Leg: worker.Decode, Runtime: worker.SGLang,
			Models: []worker.Model{{ID: "meta-llama/Llama-3.1-8B-Instruct"}},
			Labels: map[string]string{"zone": "a", "pool": "blue"},
		}
	}
	bucket := bus.NewBucket(c, cluster(b, "bench").Workers())
	for i := range 10_000 {
		if err := bucket.Put(b.Context(), spec(i)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("put", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := bucket.Put(b.Context(), spec(1)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sync/n=10000", func(b *testing.B) {
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			n := 0
			err := bus.NewBucket(c, cluster(b, "bench").Workers()).Watch(ctx, bus.Events[worker.ID, worker.Spec]{
				Put:    func(worker.ID, *worker.Spec) { n++ },
				Synced: cancel,
			})
			if err != nil || n != 10_000 {
				b.Fatal(n, err)
			}
		}
	})
}
