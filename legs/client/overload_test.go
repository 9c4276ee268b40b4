package client

import (
	"testing"
	"time"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// What keepers say of overloaded workers is known here just before a call is sent,
// and no longer than its report holds, also where no keeper is left.
func TestOverloadedAsKeepersSay(t *testing.T) {
	f := start(t, false)
	for i := range 2 {
		if err := f.workers.Put(t.Context(), spec(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Await(t, "the workers", func() bool { return len(f.Workers()) == 2 })
	id := spec(1).ID
	if f.Overloaded(id) {
		t.Fatal("nobody has said so")
	}
	rec := worker.Record{Worker: id, Epoch: 1 << 50, Term: 1000, Keeper: 99, Seq: 1, Status: worker.Ready, Overloaded: true}
	rec.Report = &worker.Report{PolledAt: time.Now(), GoodFor: time.Hour, Waiting: 9}
	say := func() {
		t.Helper()
		if err := bus.Publish(f.bus, f.cluster.State(worker.Regular), &wire.Records{*wire.StateOf(rec, time.Now())}); err != nil {
			t.Fatal(err)
		}
	}
	say()
	bustest.Await(t, "the veto", func() bool { return f.Overloaded(id) })
	if f.Overloaded(spec(2).ID) {
		t.Error("another worker is overloaded too")
	}
	rec.Term, rec.Report = 2000, &worker.Report{PolledAt: time.Now(), GoodFor: time.Millisecond, Waiting: 9}
	say()
	bustest.Await(t, "the end of a veto whose report is old", func() bool { return !f.Overloaded(id) })
}
