package gateway

import (
	"errors"
	"log/slog"
	"testing"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// Workers that were registered here can be changed while there is no bus, and what was
// changed by others meanwhile is not undone once it is back.
func TestRecordsChangeWithoutABus(t *testing.T) {
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	c := bustest.Connect(t, link)
	other := bus.NewBucket(bustest.Connect(t, server), cluster.Workers())
	r, o := newRecords(bus.NewBucket(c, cluster.Workers()), slog.New(slog.DiscardHandler)), &offers{}
	r.alone = o
	s := &worker.Spec{ID: worker.IDOf("http://a:1"), URL: "http://a:1"}
	if err := r.Put(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	dearer := func(by float64) func(*worker.Spec) (*worker.Spec, error) {
		return func(old *worker.Spec) (*worker.Spec, error) {
			if old == nil {
				return nil, errors.New("nothing is there")
			}
			n := old.Clone()
			n.Cost += by
			n.Revision++
			return n, nil
		}
	}
	cost := func(want float64) func() bool {
		return func() bool {
			got := 0.0
			err := other.Change(t.Context(), s.ID, func(old *worker.Spec) (*worker.Spec, error) {
				got = old.Cost
				return old, nil
			})
			return err == nil && got == want
		}
	}
	if err := r.Change(t.Context(), s.ID, dearer(1)); err != nil || !cost(1)() {
		t.Fatalf("with a bus: %v", err)
	}
	link.Cut()
	bustest.Await(t, "the loss of the bus", func() bool { return !c.Connected() })
	if err := r.Change(t.Context(), s.ID, dearer(1)); err != nil || len(o.ids) != 1 {
		t.Errorf("without a bus: %v, offered %v", err, o.ids)
	}
	if err := r.Change(t.Context(), worker.IDOf("http://b:1"), dearer(1)); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("somebody else's, without a bus: %v", err)
	}
	if err := r.Change(t.Context(), s.ID, func(*worker.Spec) (*worker.Spec, error) { return nil, nil }); !errors.Is(err, bus.ErrDisconnected) { //nolint:nilnil // deletes it
		t.Errorf("deleted without a bus: %v", err)
	}
	for range 3 { // higher than what waits here
		if err := other.Change(t.Context(), s.ID, dearer(10)); err != nil {
			t.Fatal(err)
		}
	}
	link.Mend(server)
	bustest.Await(t, "the bus", c.Connected)
	for r.retry(t.Context()) {
	}
	bustest.Await(t, "what others have made of it", cost(31))
}
