package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/natsd"
	"smg/wire"
	"smg/worker"
)

// A service starts the embedded server, connects, listens to the leases of a leg,
// and publishes one.
func Example() {
	log := slog.New(slog.DiscardHandler)
	server, err := natsd.Start(natsd.DefaultConfig(), log)
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := bus.DefaultConfig()
	cfg.Server = server
	conn, err := bus.Connect(cfg, prometheus.NewRegistry(), log)
	if err != nil {
		fmt.Println(err)
		return
	}
	cluster, err := wire.ParseCluster("default")
	if err != nil {
		fmt.Println(err)
		return
	}
	leases := cluster.Leases(worker.Decode)

	heard := make(chan *worker.Batch)
	sub, err := bus.Subscribe(conn, leases, func(b *worker.Batch) { heard <- b })
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := &worker.Batch{Ingress: "gw-0", Incarnation: 1, Leg: worker.Decode, Seq: 1}
	if err := bus.Publish(conn, leases, batch); err != nil {
		fmt.Println(err)
	}
	b := <-heard
	fmt.Println(leases.Subject, b.Ingress, b.Seq)

	fmt.Println(sub.Stop(), conn.Close(), server.Stop())
	// Output:
	// smg.v1.default.leases.decode gw-0 1
	// <nil> <nil> <nil>
}

// A registrar puts a worker into the bucket; everybody who watches it hears of it,
// and of its removal.
func ExampleBucket() {
	log := slog.New(slog.DiscardHandler)
	server, err := natsd.Start(natsd.DefaultConfig(), log)
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := bus.DefaultConfig()
	cfg.Server = server
	conn, err := bus.Connect(cfg, prometheus.NewRegistry(), log)
	if err != nil {
		fmt.Println(err)
		return
	}
	cluster, err := wire.ParseCluster("default")
	if err != nil {
		fmt.Println(err)
		return
	}
	workers := bus.NewBucket(conn, cluster.Workers())

	ctx, cancel := context.WithCancel(context.Background())
	synced, seen := make(chan struct{}), make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		err := workers.Watch(ctx, bus.Events[worker.ID, worker.Spec]{
			Put:    func(_ worker.ID, s *worker.Spec) { fmt.Println("put", s.URL); close(seen) },
			Delete: func(id worker.ID) { fmt.Println("deleted", id); cancel() },
			Synced: func() { close(synced) },
		})
		if err != nil {
			fmt.Println(err)
		}
	})
	<-synced
	const url = "http://127.0.0.1:30000"
	spec := &worker.Spec{ID: worker.IDOf(url), URL: url}
	if err := workers.Put(context.Background(), spec); err != nil {
		fmt.Println(err)
	}
	<-seen // a watch may skip a value that is replaced at once
	if err := workers.Delete(context.Background(), spec.ID); err != nil {
		fmt.Println(err)
	}
	watching.Wait()

	fmt.Println(conn.Close(), server.Stop())
	// Output:
	// put http://127.0.0.1:30000
	// deleted e55541d8-3c9c-5cfd-b229-aa837be2e0c2
	// <nil> <nil>
}

// A selector answers selects, and an ingress asks it: what it is told comes to its
// inbox.
func ExampleServe() {
	log := slog.New(slog.DiscardHandler)
	server, err := natsd.Start(natsd.DefaultConfig(), log)
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := bus.DefaultConfig()
	cfg.Server = server
	conn, err := bus.Connect(cfg, prometheus.NewRegistry(), log)
	if err != nil {
		fmt.Println(err)
		return
	}
	cluster, err := wire.ParseCluster("default")
	if err != nil {
		fmt.Println(err)
		return
	}
	const replica, incarnation = 9, 7
	service, inbox := cluster.Select(worker.Decode, replica), cluster.Replies(incarnation)

	heard := make(chan *wire.Reply)
	var subs bus.Subscriptions
	bus.Serve(&subs, conn, service, func(s *wire.Select) *wire.Reply {
		return &wire.Reply{Lease: s.Lease, Replica: replica, Err: wire.ErrorOf(worker.ErrNoWorkers)}
	})
	bus.Join(&subs, conn, inbox, func(r *wire.Reply) { heard <- r })
	if err := subs.Err(); err != nil {
		fmt.Println(err)
	}
	ask := &wire.Select{Lease: worker.LeaseID{Incarnation: incarnation, Plan: 1, Leg: worker.Decode}, Model: "m"}
	if err := bus.Request(conn, service, ask, inbox); err != nil {
		fmt.Println(err)
	}
	r := <-heard
	fmt.Println(service.Subject, r.Lease.Plan, r.Err.Code, errors.Is(r.Err, worker.ErrNoWorkers))

	fmt.Println(subs.Stop(), conn.Close(), server.Stop())
	// Output:
	// smg.v1.default.select.decode.9 1 model_not_found true
	// <nil> <nil> <nil>
}
