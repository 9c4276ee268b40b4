package legs

import (
	"sync/atomic"
	"testing"
	"time"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// TestSnapshot: a replica that has heard no keeper hears from anybody what they said,
// and tells others.
func TestSnapshot(t *testing.T) {
	b := start(t, func(c *Config) { c.Settle = time.Hour }) // it keeps nobody
	b.put(t, spec(1, "m"), spec(2, "m"))
	bustest.Await(t, "the workers", func() bool { return len(b.registry.Workers()) == 2 })
	record := func(i int, seq uint64) worker.Record {
		return worker.Record{Worker: spec(i, "").ID, Term: 7, Keeper: 99, Seq: seq, Status: worker.Ready, Breaker: worker.Open}
	}
	tell := func(rec worker.Record) {
		t.Helper()
		if err := bus.Publish(b.bus, b.cluster.State(worker.Regular), &wire.Records{*wire.StateOf(rec, time.Now())}); err != nil {
			t.Fatal(err)
		}
	}
	var asked atomic.Int64
	var told, beats atomic.Int64
	var subs bus.Subscriptions
	bus.Join(&subs, b.bus, b.cluster.Snapshot(worker.Regular), func(ask *wire.Snapshot) {
		if ask.Asker != uint64(b.cfg.Replica) {
			return
		}
		asked.Add(1)
		records := wire.Records{*wire.StateOf(record(2, 3), time.Now())}
		if err := bus.Publish(b.bus, b.cluster.SnapshotOf(worker.Regular, ask.Asker), &records); err != nil {
			t.Error(err)
		}
	})
	bus.Join(&subs, b.bus, b.cluster.Beat(worker.Regular), func(*wire.Beat) { beats.Add(1) })
	bus.Join(&subs, b.bus, b.cluster.SnapshotOf(worker.Regular, 4), func(m *wire.Records) {
		for i := range *m {
			if rec := (*m)[i].Record(time.Now()); rec == record(1, 3) || rec == record(2, 3) {
				told.Add(1)
			}
		}
	})
	if err := subs.Err(); err != nil {
		t.Fatal(err)
	}
	held := func(i int, seq uint64) func() bool {
		return func() bool {
			rec, _ := b.registry.Record(spec(i, "").ID)
			return rec == record(i, seq)
		}
	}
	tell(record(1, 1))
	bustest.Await(t, "the first record", held(1, 1))
	if n := asked.Load(); n != 0 {
		t.Fatalf("asked %d times without a gap", n)
	}
	tell(record(1, 3)) // the second is lost, and who knows what else
	bustest.Await(t, "the record that another has heard", held(2, 3))
	const asks = 20 // more than beats of the clock meanwhile
	for range asks {
		if err := bus.Publish(b.bus, b.cluster.Snapshot(worker.Regular), &wire.Snapshot{Asker: 4}); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Await(t, "both records to be told each time", func() bool { return told.Load() == 2*asks })
	bustest.Await(t, "a beat each time", func() bool { return beats.Load() >= asks })
	// Another replica is to answer, and does not.
	if err := bus.Publish(b.bus, b.cluster.Beat(worker.Regular), &wire.Beat{Replica: 99, Leg: worker.Regular, Ready: true, Versions: []uint32{wire.Version}}); err != nil {
		t.Fatal(err)
	}
	bustest.Await(t, "the other replica to be ranked", func() bool { return b.ranking.Len() == 1 })
	for _, stage := range []worker.RecallStage{worker.RecallFirst, worker.RecallReplicas} {
		if err := bus.Publish(b.bus, b.cluster.Snapshot(worker.Regular), &wire.Snapshot{Asker: 4, Stage: stage}); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Await(t, "both records to be told once more", func() bool { return told.Load() >= 2*asks+2 })
	if n := told.Load(); n != 2*asks+2 {
		t.Errorf("%d records were told, want %d: it is not the first to answer", n, 2*asks+2)
	}
	if err := subs.Stop(); err != nil {
		t.Fatal(err)
	}
}

// TestANewReplicaAsks before it can have heard anybody.
func TestANewReplicaAsks(t *testing.T) {
	var asked atomic.Int64
	var sub *bus.Subscription
	known := worker.Record{Worker: spec(1, "").ID, Term: 7, Keeper: 99, Seq: 3, Status: worker.Ready, Breaker: worker.Open}
	b := startOn(t, func(conn *bus.Conn, cluster wire.Cluster) {
		var err error
		sub, err = bus.Subscribe(conn, cluster.Snapshot(worker.Regular), func(ask *wire.Snapshot) {
			asked.Add(1)
			records := wire.Records{*wire.StateOf(known, time.Now())}
			if err := bus.Publish(conn, cluster.SnapshotOf(worker.Regular, ask.Asker), &records); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}, func(c *Config) { c.Settle = time.Hour })
	b.put(t, spec(1, "m"))
	bustest.Await(t, "the record, before or after its worker", func() bool {
		w := b.registry.Lookup(known.Worker)
		return w != nil && w.Record == known
	})
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	if err := sub.Stop(); err != nil {
		t.Fatal(err)
	}
}
