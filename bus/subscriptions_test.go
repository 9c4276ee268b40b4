package bus_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

func TestSubscriptionsBeginAndEndTogether(t *testing.T) {
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	conn := bustest.Start(t)
	var heard atomic.Int64
	hear := func(*wire.Beat) { heard.Add(1) }
	var subs bus.Subscriptions
	bus.Join(&subs, conn, cluster.Beat(worker.Prefill), hear)
	bus.Join(&subs, conn, cluster.Beat(worker.Decode), hear)
	if err := subs.Err(); err != nil {
		t.Fatal(err)
	}
	send := func() {
		for _, leg := range []worker.Leg{worker.Prefill, worker.Decode} {
			if err := bus.Publish(conn, cluster.Beat(leg), &wire.Beat{Replica: 1, Leg: leg}); err != nil {
				t.Fatal(err)
			}
		}
	}
	send()
	bustest.Await(t, "both beats", func() bool { return heard.Load() == 2 })
	if err := subs.Stop(); err != nil {
		t.Fatal(err)
	}
	send()
	if got := heard.Load(); got != 2 {
		t.Errorf("%d beats heard, want none after Stop", got-2)
	}
}

func TestSubscriptionsTellOfAFailure(t *testing.T) {
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	conn := bustest.Connect(t, bustest.Server(t))
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	var subs bus.Subscriptions
	bus.Join(&subs, conn, cluster.Beat(worker.Decode), func(*wire.Beat) {})
	if err := subs.Err(); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("got %v, want %v", err, bus.ErrDisconnected)
	}
	if err := subs.Stop(); err != nil {
		t.Errorf("stopping none: %v", err)
	}
}
