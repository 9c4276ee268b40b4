package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

func TestStatus(t *testing.T) {
	f := start(t, true)
	f.put(t, 1)
	f.replica(t, 9, "random", func(*wire.Select) *wire.Reply { return nil })
	bustest.Await(t, "both replicas", func() bool { return len(f.Status()[0].Replicas) == 2 })
	f.Client.legs[worker.Regular].degraded.Store(true)
	f.Client.legs[worker.Regular].writer.Begin(worker.Lease{ID: f.Plan(), Worker: spec(1).ID})
	now := f.now()
	for range 3 {
		f.Client.legs[worker.Regular].excluded.TimedOut(9, now, now)
	}
	got := f.Status()
	if got[0].Policy == "" {
		t.Error("no policy is shown")
	}
	got[0].Policy = "" // that of the replica which beat last
	want := []worker.LegStatus{{
		Leg: worker.Regular, Degraded: true, Leases: 1,
		Replicas: []worker.ReplicaStatus{{ID: 1, Local: true}, {ID: 9, Excluded: true}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if !f.Connected() {
		t.Error("not connected to the bus")
	}
}
