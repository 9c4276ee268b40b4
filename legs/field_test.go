package legs

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// slowRecorder takes its time for each batch of leases until it is told to hurry.
type slowRecorder struct {
	hurry chan struct{}
	seen  atomic.Int64
}

func (*slowRecorder) Selected(*wire.Select, string, *wire.Pick, error, time.Time) {}
func (*slowRecorder) Fleet([]*worker.Worker, time.Time)                           {}

func (r *slowRecorder) Leases(*worker.Batch, time.Time) {
	r.seen.Add(1)
	select {
	case <-r.hurry:
	case <-time.After(time.Millisecond):
	}
}

// TestField holds the reports of the field that concern what a selector hears.
func TestField(t *testing.T) {
	t.Run("NC-06_slow_handler", slowConsumer)
}

// slowConsumer has more lease events come than a slow handler can take, so that NATS
// drops some: the selector answers meanwhile, and counts right soon after.
func slowConsumer(t *testing.T) {
	const events, kept = 120_000, 20_000 // NATS keeps 65,536 for a handler
	rec := &slowRecorder{hurry: make(chan struct{})}
	hurry := sync.OnceFunc(func() { close(rec.hurry) })
	reg := prometheus.NewRegistry()
	b := start(t, nil, func(d *Deps) {
		cfg := bus.DefaultConfig()
		cfg.Server = bustest.Server(t)
		d.Bus = bustest.ConnectWith(t, cfg, reg, d.Log)
		d.Recorder = rec
	})
	t.Cleanup(hurry)
	conn := b.Service.bus
	if err := bus.NewBucket(conn, b.cluster.Workers()).Put(t.Context(), spec(1, "m")); err != nil {
		t.Fatal(err)
	}
	b.ready(t, 1)
	id := spec(1, "m").ID

	w := worker.NewLeaseWriter("i", 1, worker.Regular)
	plans := worker.NewPlans(1)
	say := func(batch worker.Batch) {
		t.Helper()
		if err := bus.Publish(conn, b.cluster.Leases(worker.Regular), &batch); err != nil {
			t.Fatal(err)
		}
	}
	for i := range events / 2 {
		lease := plans.Lease(plans.Next(), worker.Regular, 0)
		w.Begin(worker.Lease{ID: lease, Worker: id, Tokens: 1})
		batch, _ := w.Flush()
		say(batch)
		if i%kept == 0 {
			continue
		}
		w.End(lease, worker.Success, false)
		batch, _ = w.Flush()
		say(batch)
	}
	if n := rec.seen.Load(); n >= events/2 {
		t.Errorf("the handler is not slow: it has seen %d of %d batches", n, events)
	}
	if _, err := b.ask(1<<40, "m"); err != nil {
		t.Errorf("a select while the handler is behind: %v", err)
	}
	lost := func() (n float64) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "smg_bus_dropped_total" {
				for _, m := range f.GetMetric() {
					n += m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	bustest.Await(t, "NATS to drop messages", func() bool { return lost() > 0 })
	hurry()
	want := w.Open()
	polls := 0
	bustest.Await(t, "the counts to be right", func() bool {
		if polls++; polls%50 == 0 {
			say(w.Beat())
		}
		return b.active(id) == want
	})
	t.Logf("%v of %d messages were lost, %d calls are open", lost(), events, want)
}
