package client

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// copyOn is an ingress's copy of the fleet of cluster.
func copyOn(t *testing.T, conn *bus.Conn, cluster wire.Cluster, incarnation uint64) *Client {
	t.Helper()
	c, err := New(
		Config{Cluster: cluster, Name: t.Name(), Incarnation: incarnation, Legs: []worker.Leg{worker.Regular}, PlanTimeout: time.Second},
		Deps{
			Bus: conn, Workers: bus.NewBucket(conn, cluster.Workers()), Log: slog.New(slog.DiscardHandler),
			Registerer: prometheus.NewRegistry(), Now: time.Now,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Run)
	<-c.Joined()
	return c
}

// said is a record by a keeper that does not repeat itself.
func said(i int, seq uint64) worker.Record {
	since := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	return worker.Record{
		Worker: spec(i).ID, Epoch: 5, Term: 7, Keeper: 99, Seq: seq, Status: worker.Ready, Breaker: worker.Open, BreakerSince: since, Overloaded: true,
		Report: &worker.Report{Queued: 17, Waiting: 3, PolledAt: since, GoodFor: time.Hour},
	}
}

func tell(t *testing.T, conn *bus.Conn, to wire.Topic[wire.Records], recs ...worker.Record) {
	t.Helper()
	for _, records := range wire.RecordsOf(recs, time.Now()) {
		if err := bus.Publish(conn, to, &records); err != nil {
			t.Fatal(err)
		}
	}
}

// holds waits until a copy has a record.
func holds(t *testing.T, c *Client, want worker.Record) {
	t.Helper()
	var got worker.Record
	bustest.Await(t, "the record of "+want.Worker.String(), func() bool {
		got, _ = c.registry.Record(want.Worker)
		return got.Keeper != 0
	})
	near := cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() < 5*time.Second })
	if d := cmp.Diff(want, got, near); d != "" {
		t.Errorf("the record (-want +got):\n%s", d)
	}
}

func registered(t *testing.T, conn *bus.Conn, cluster wire.Cluster, n int) {
	t.Helper()
	bucket := bus.NewBucket(conn, cluster.Workers())
	for i := range n {
		if err := bucket.Put(t.Context(), spec(i+1)); err != nil {
			t.Fatal(err)
		}
	}
}

func testCluster(t testing.TB) wire.Cluster {
	t.Helper()
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// TestSnapshot: what keepers have said, and do not say again, is told by whoever heard
// it, to those who missed it.
func TestSnapshot(t *testing.T) {
	cluster := testCluster(t)
	state := cluster.State(worker.Regular)
	t.Run("one who starts", func(t *testing.T) {
		conn := bustest.Start(t)
		registered(t, conn, cluster, 2)
		old := copyOn(t, conn, cluster, 1)
		bustest.Await(t, "the workers", func() bool { return len(old.Workers()) == 2 })
		one, two := said(1, 1), said(2, 4)
		tell(t, conn, state, one, two)
		holds(t, old, one)
		holds(t, old, two)
		young := copyOn(t, conn, cluster, 2)
		holds(t, young, one)
		holds(t, young, two)
	})
	t.Run("one who comes back", func(t *testing.T) {
		server := bustest.Server(t)
		conn, link := bustest.Connect(t, server), bustest.NewLink(server)
		away := bustest.Connect(t, link)
		registered(t, conn, cluster, 1)
		stays, leaves := copyOn(t, conn, cluster, 1), copyOn(t, away, cluster, 2)
		bustest.Await(t, "the worker", func() bool { return len(stays.Workers()) == 1 && len(leaves.Workers()) == 1 })
		link.Cut()
		bustest.Await(t, "the loss of the connection", func() bool { return !away.Connected() })
		one := said(1, 1)
		tell(t, conn, state, one)
		holds(t, stays, one)
		link.Mend(server)
		holds(t, leaves, one)
	})
	t.Run("one who has missed a record", func(t *testing.T) {
		conn := bustest.Start(t)
		registered(t, conn, cluster, 2)
		knows, missed := copyOn(t, conn, cluster, 1), copyOn(t, conn, cluster, 2)
		bustest.Await(t, "the workers", func() bool { return len(knows.Workers()) == 2 && len(missed.Workers()) == 2 })
		var asked atomic.Int64
		sub, err := bus.Subscribe(conn, cluster.Snapshot(worker.Regular), func(*wire.Snapshot) { asked.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := sub.Stop(); err != nil {
				t.Error(err)
			}
		}()
		two := said(2, 1)
		tell(t, conn, cluster.SnapshotOf(worker.Regular, 1), two) // one of the two has it
		holds(t, knows, two)
		seq := func(n uint64) func() bool {
			return func() bool {
				a, _ := knows.registry.Record(spec(1).ID)
				b, _ := missed.registry.Record(spec(1).ID)
				return a.Seq == n && b.Seq == n
			}
		}
		tell(t, conn, state, said(1, 1))
		tell(t, conn, state, said(1, 2))
		bustest.Await(t, "records in order", seq(2))
		if n := asked.Load(); n != 0 {
			t.Errorf("asked %d times without a gap", n)
		}
		tell(t, conn, state, said(1, 4))
		holds(t, missed, two)
		tell(t, conn, state, said(1, 6))
		tell(t, conn, state, said(1, 8))
		bustest.Await(t, "records with gaps", seq(8))
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times, want once by each: keepers repeat themselves", n)
		}
	})
}
