package legs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/bustest"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// idleSource reports at once.
type idleSource struct{}

func (idleSource) Poll(context.Context) (Loads, error) {
	return Loads{Sums: worker.Report{Waiting: 1, KVUsage: 0.5}, Ranks: []RankLoad{{Running: new(1.0)}}}, nil
}

// BenchmarkPolls is what polling 10,000 workers once costs besides the questions
// themselves: the schedule, the keepers, the pools, and the records, which this
// replica hears back. Batches is how many messages the reports go out in: polls that
// end within 100 ms share one. Most rounds find nobody to poll.
func BenchmarkPolls(b *testing.B) {
	const n = 10_000
	for _, batches := range []int{1, 100} {
		b.Run(fmt.Sprintf("workers=%d/batches=%d", n, batches), func(b *testing.B) {
			s, clock := readyFleet(b, n)
			before := cpu(b)
			for b.Loop() {
				*clock = clock.Add(DefaultLoadConfig().Interval)
				due := s.pollsDue()
				if len(due) != n {
					b.Fatalf("%d of %d workers are due", len(due), n)
				}
				for part := range batches {
					var polls sync.WaitGroup
					for _, p := range due[part*n/batches : (part+1)*n/batches] {
						place, _ := s.lanes.enter(b.Context())
						polls.Go(func() {
							defer place.leave()
							s.poll(b.Context(), p)
						})
					}
					polls.Wait()
					s.mu.Lock()
					s.publish()
					s.mu.Unlock()
				}
			}
			b.ReportMetric(float64((cpu(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
	b.Run(fmt.Sprintf("workers=%d/nobody is due", n), func(b *testing.B) {
		s, _ := readyFleet(b, n)
		s.pollsDue()
		for b.Loop() {
			if due := s.pollsDue(); len(due) > 0 {
				b.Fatalf("%d workers are due", len(due))
			}
		}
	})
}

// readyFleet is a service that keeps n ready workers, and its clock. Only what is
// called runs, and what it hears over the bus.
func readyFleet(b *testing.B, n int) (*Service, *time.Time) {
	b.Helper()
	clock := time.Now()
	cfg := Config{
		Cluster: testCluster(b), Replica: 7, Policy: policy.DefaultConfig(), Keeper: worker.DefaultKeeperConfig(),
		Loads: DefaultLoadConfig(), Endpoint: "/health",
	}
	cfg.Keeper.Health.Disabled = true
	s, err := New(cfg, Deps{
		Bus: bustest.Start(b), Prober: &prober{}, Loads: func(*worker.Spec) LoadSource { return idleSource{} },
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Now: func() time.Time { return clock },
	})
	if err != nil {
		b.Fatal(err)
	}
	s.ranking.Apply(worker.ReplicaBeat{Replica: 7, Ready: true}, clock)
	specs := make([]*worker.Spec, n)
	for i := range specs {
		specs[i] = spec(i, "m")
	}
	s.add(specs...)
	var subs bus.Subscriptions
	bus.Join(&subs, s.bus, cfg.Cluster.State(cfg.Leg), func(m *wire.Records) { s.onState(m, true) })
	if err := subs.Err(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := subs.Stop(); err != nil {
			b.Error(err)
		}
	})
	return s, &clock
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
