package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/bootstrap"
	"smg/bus"
	"smg/bus/bustest"
	"smg/bus/natsd"
	"smg/wire"
	"smg/worker"
)

// apart are records of a process whose way to the bus can be cut, and another process
// that keeps its own.
type apart struct {
	*records
	server *natsd.Server
	link   *bustest.Link
	conn   *bus.Conn
	offers *offers
	other  *bus.Bucket[worker.ID, worker.Spec]
	seen   *bucketOf
}

func newApart(t *testing.T) *apart {
	t.Helper()
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	conn, others := bustest.Connect(t, link), bustest.Connect(t, server)
	a := &apart{
		records: newRecords(bus.NewBucket(conn, cluster.Workers()), slog.New(slog.DiscardHandler)), server: server, link: link,
		conn: conn, offers: &offers{}, other: bus.NewBucket(others, cluster.Workers()), seen: watched(t, others, cluster),
	}
	a.alone = a.offers
	return a
}

func (a *apart) cut(t *testing.T) {
	t.Helper()
	a.link.Cut()
	bustest.Await(t, "the loss of the bus", func() bool { return !a.conn.Connected() })
}

func (a *apart) mend(t *testing.T, server *natsd.Server) {
	t.Helper()
	a.link.Mend(server)
	bustest.Await(t, "the bus", a.conn.Connected)
}

func (a *apart) put(t *testing.T, s *worker.Spec) {
	t.Helper()
	if err := a.Put(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// has is what the bucket has of a worker, asked there itself.
func (a *apart) has(t *testing.T, id worker.ID) (s *worker.Spec) {
	t.Helper()
	errLook := errors.New("only looked")
	if err := a.other.Change(t.Context(), id, func(old *worker.Spec) (*worker.Spec, error) {
		s = old
		return nil, errLook
	}); !errors.Is(err, errLook) {
		t.Fatal(err)
	}
	return s
}

var errNone = errors.New("nothing is there")

// dearer changes a worker.
func dearer(old *worker.Spec) (*worker.Spec, error) {
	if old == nil {
		return nil, errNone
	}
	s := old.Clone()
	s.Cost++
	s.Revision++
	return s, nil
}

func removed(old *worker.Spec) (*worker.Spec, error) {
	if old == nil {
		return nil, errNone
	}
	return nil, nil //nolint:nilnil // deletes it
}

// A worker that somebody removes while it is changed here without a bus stays removed,
// whatever comes first once the bus is back.
func TestRecordsRemovedMeanwhile(t *testing.T) {
	id := worker.IDOf("http://a:1")
	for name, then := range map[string]func(t *testing.T, a *apart){
		"it is put": func(t *testing.T, a *apart) {
			for a.retry(t.Context()) {
			}
		},
		"it is changed again": func(t *testing.T, a *apart) {
			if err := a.Change(t.Context(), id, dearer); !errors.Is(err, errNone) {
				t.Errorf("changing a worker that was removed: %v", err)
			}
		},
		"the bucket tells": func(_ *testing.T, a *apart) {
			a.told(func(worker.ID, *worker.Spec) {})(id, nil)
			for a.retry(t.Context()) {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApart(t)
			a.put(t, &worker.Spec{ID: id, URL: "http://a:1"})
			a.cut(t)
			if err := a.Change(t.Context(), id, dearer); err != nil {
				t.Fatal(err)
			}
			if err := a.Delete(t.Context(), id); !errors.Is(err, bus.ErrDisconnected) {
				t.Errorf("removing without a bus what the bucket has: %v", err)
			}
			if err := a.other.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			a.mend(t, a.server)
			then(t, a)
			if got := a.has(t, id); got != nil {
				t.Errorf("the bucket has %+v again", got)
			}
			if len(a.pending) > 0 || len(a.all) > 0 || len(a.offers.ids) > 0 {
				t.Errorf("kept: %d waiting, %d registered here, %d usable", len(a.pending), len(a.all), len(a.offers.ids))
			}
		})
	}
}

// A bucket that has lost a worker is no removal of it.
func TestRecordsOfABucketThatWasLost(t *testing.T) {
	id := worker.IDOf("http://a:1")
	a := newApart(t)
	a.put(t, &worker.Spec{ID: id, URL: "http://a:1"})
	a.cut(t)
	if err := a.Change(t.Context(), id, dearer); err != nil {
		t.Fatal(err)
	}
	a.mend(t, bustest.Server(t))
	bustest.Await(t, "the new bucket", func() bool {
		for a.retry(t.Context()) {
		}
		return len(a.pending) == 0
	})
	got := 0.0
	if err := a.Change(t.Context(), id, func(old *worker.Spec) (*worker.Spec, error) {
		if old == nil {
			return nil, errNone
		}
		got = old.Cost
		return old, nil
	}); err != nil || got != 1 {
		t.Errorf("the new bucket has cost %v, want 1: %v", got, err)
	}
}

// What the bucket never had can be removed without it; what it has is removed with the
// first word to it, as it was left here.
func TestRecordsRemovedHere(t *testing.T) {
	a := newApart(t)
	known, fresh := &worker.Spec{ID: worker.IDOf("http://a:1"), URL: "http://a:1"}, &worker.Spec{ID: worker.IDOf("http://b:1"), URL: "http://b:1"}
	a.put(t, known)
	a.cut(t)
	a.put(t, fresh)
	for _, s := range []*worker.Spec{known, fresh} {
		if err := a.Change(t.Context(), s.ID, dearer); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Change(t.Context(), fresh.ID, removed); err != nil {
		t.Errorf("removing what the bucket never had: %v", err)
	}
	if diff := cmp.Diff([]worker.ID{known.ID}, a.offers.ids); diff != "" {
		t.Errorf("usable (-want +got):\n%s", diff)
	}
	if err := a.Change(t.Context(), known.ID, removed); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("removing what the bucket has: %v", err)
	}
	a.mend(t, a.server)
	if err := a.Change(t.Context(), known.ID, func(old *worker.Spec) (*worker.Spec, error) {
		if old == nil || old.Cost != 1 {
			t.Errorf("changed was %+v, want what was made of it without a bus", old)
		}
		return removed(old)
	}); err != nil {
		t.Fatal(err)
	}
	for a.retry(t.Context()) {
	}
	for _, s := range []*worker.Spec{known, fresh} {
		if got := a.has(t, s.ID); got != nil {
			t.Errorf("the bucket has %+v", got)
		}
	}
}

// well is a prober of workers that are well.
type well struct{}

func (well) Health(context.Context, *worker.Spec, string) error { return nil }

func (well) Discover(context.Context, *worker.Spec) (bootstrap.Found, error) {
	return bootstrap.Found{Models: []string{"m"}}, nil
}

func (well) MooncakeEngines(context.Context, string) (map[int]string, error) {
	return nil, errors.New("no bootstrap server")
}

// A worker whose drain is over while there is no bus goes as soon as the bus is back:
// nobody waits for those who look after a gateway that has died.
func TestDrainEndsWithTheBus(t *testing.T) {
	for name, retrying := range map[string]bool{"what is pending is written first": true, "the worker leaves first": false} {
		t.Run(name, func(t *testing.T) {
			a := newApart(t)
			cfg := bootstrap.DefaultConfig()
			cfg.Settle = 20 * time.Millisecond
			registrar, err := bootstrap.NewRegistrar(cfg, well{}, a.records, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			var heard atomic.Bool
			tell := a.told(func(id worker.ID, s *worker.Spec) {
				registrar.Heard(id, s)
				heard.Store(true)
			})
			during(t, func(ctx context.Context) error {
				return a.bucket.Watch(ctx, bus.Events[worker.ID, worker.Spec]{Put: tell, Delete: func(id worker.ID) { tell(id, nil) }})
			})
			during(t, registrar.Run)
			if retrying {
				during(t, a.run)
			}
			s, err := bootstrap.SpecOf("http://a:1", worker.Regular)
			if err != nil {
				t.Fatal(err)
			}
			bustest.Await(t, "the registrar", func() bool { return registrar.Add(s) == nil })
			bustest.Await(t, "the worker", func() bool { return len(a.seen.has()) == 1 && heard.Load() })
			a.cut(t)
			bustest.Await(t, "the drain", func() bool { return registrar.Drain(t.Context(), s.ID) == nil })
			bustest.Await(t, "the end of the drain", func() bool {
				job, ok := registrar.Job(s.ID)
				return ok && job.Type == bootstrap.RemoveWorker && time.Since(job.Since) > 2*cfg.Settle
			})
			a.mend(t, a.server)
			bustest.Await(t, "the removal", func() bool { return len(a.seen.has()) == 0 })
		})
	}
}
