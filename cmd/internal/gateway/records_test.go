package gateway

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// offers keeps book of what is known to this process alone.
type offers struct {
	mu  sync.Mutex
	ids []worker.ID
}

func (o *offers) Offer(s *worker.Spec) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids = append(o.ids, s.ID)
}

func (o *offers) Withdraw(id worker.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids = slices.DeleteFunc(o.ids, func(have worker.ID) bool { return have == id })
}

// bucketOf is what a bucket has, as another process sees it.
type bucketOf struct {
	mu   sync.Mutex
	urls map[worker.ID]string
}

func (b *bucketOf) has() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var urls []string
	for _, u := range b.urls {
		urls = append(urls, u)
	}
	slices.Sort(urls)
	return urls
}

func watched(t *testing.T, c *bus.Conn, cluster wire.Cluster) *bucketOf {
	t.Helper()
	b := &bucketOf{urls: map[worker.ID]string{}}
	set := func(id worker.ID, url string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if delete(b.urls, id); url != "" {
			b.urls[id] = url
		}
	}
	during(t, func(ctx context.Context) error {
		return bus.NewBucket(c, cluster.Workers()).Watch(ctx, bus.Events[worker.ID, worker.Spec]{
			Put:    func(id worker.ID, s *worker.Spec) { set(id, s.URL) },
			Delete: func(id worker.ID) { set(id, "") },
		})
	})
	return b
}

// during runs f until the test ends.
func during(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // one: f's result
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What is put while there is no bus is usable here, comes into the bucket with the
// bus, and does not come back when it is removed before.
func TestRecordsWithoutABus(t *testing.T) {
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	c := bustest.Connect(t, link)
	seen := watched(t, bustest.Connect(t, server), cluster)
	r, o := newRecords(bus.NewBucket(c, cluster.Workers()), slog.New(slog.DiscardHandler)), &offers{}
	r.alone = o
	spec := func(url string) *worker.Spec { return &worker.Spec{ID: worker.IDOf(url), URL: url} }
	first, second, third := spec("http://a:1"), spec("http://b:1"), spec("http://c:1")
	put := func(s *worker.Spec) {
		t.Helper()
		if err := r.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	put(first)
	bustest.Await(t, "the first worker", func() bool { return len(seen.has()) == 1 })
	link.Cut()
	bustest.Await(t, "the loss of the bus", func() bool { return !c.Connected() })
	put(second)
	put(third)
	if diff := cmp.Diff([]worker.ID{second.ID, third.ID}, o.ids); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
	if err := r.Delete(t.Context(), second.ID); err != nil {
		t.Errorf("removing what is not in the bucket: %v", err)
	}
	if diff := cmp.Diff([]worker.ID{third.ID}, o.ids); diff != "" {
		t.Errorf("offered after a removal (-want +got):\n%s", diff)
	}
	if err := r.Delete(t.Context(), first.ID); err == nil {
		t.Error("a record was removed from a bucket that cannot be reached")
	}
	during(t, r.run)
	link.Mend(server)
	bustest.Await(t, "what was put meanwhile", func() bool { return len(seen.has()) == 2 })
	if diff := cmp.Diff([]string{"http://a:1", "http://c:1"}, seen.has()); diff != "" {
		t.Errorf("bucket (-want +got):\n%s", diff)
	}
	if err := r.Delete(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	bustest.Await(t, "the removal", func() bool { return slices.Equal(seen.has(), []string{"http://c:1"}) })
}

// TestRecordsFollowOthers: what others have made of a record is what a change without a
// bus begins with, and what is put later does not undo it.
func TestRecordsFollowOthers(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	id := worker.IDOf("http://a:1")
	spec := func(revision uint64, after time.Duration) *worker.Spec {
		return &worker.Spec{ID: id, URL: "http://a:1", Revision: revision, RegisteredAt: at.Add(after)}
	}
	for name, tt := range map[string]struct {
		told *worker.Spec
		want *worker.Spec
	}{
		"changed":           {spec(2, 0), spec(2, 0)},
		"an older word":     {spec(0, 0), spec(1, 0)},
		"registered anew":   {spec(0, time.Minute), nil},
		"removed":           {nil, nil},
		"a former stay":     {spec(7, -time.Minute), spec(1, 0)},
		"what was put here": {spec(1, 0), spec(1, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecords(nil, slog.New(slog.DiscardHandler))
			r.all[id] = spec(1, 0)
			passed := false
			r.told(func(got worker.ID, s *worker.Spec) { passed = got == id && s == tt.told })(id, tt.told)
			if diff := cmp.Diff(tt.want, r.all[id]); diff != "" || !passed {
				t.Errorf("passed on: %v, known (-want +got):\n%s", passed, diff)
			}
		})
	}
}
