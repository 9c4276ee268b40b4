package wire

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"smg/worker"
)

// BenchmarkScale is the sizes of messages, and what it takes to write and read them,
// in a fleet of 100,000 workers: the figures of docs/scaling.md.
func BenchmarkScale(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	anyone := func() worker.ID {
		return worker.IDOf(fmt.Sprintf("http://10.%d.%d.%d:8000", rng.IntN(2), rng.IntN(224), rng.IntN(224)))
	}
	const incarnation, leg = 1_790_000_000_000_000_000, worker.Decode
	lease := func(key uint64) worker.Lease {
		return worker.Lease{
			ID:     worker.LeaseID{Incarnation: incarnation, Plan: 10_000_000 + rng.Uint64N(1_000_000), Leg: leg},
			Worker: anyone(), Tokens: rng.Int64N(8000), Key: key,
		}
	}
	batch := func(entries int) *worker.Batch {
		m := &worker.Batch{Ingress: "smg-ingress-7d9f8b6c5-abcde", Incarnation: incarnation, Leg: leg, Seq: 1_000_000}
		for i := range entries {
			l := lease(0)
			if i%2 == 0 {
				m.Entries = append(m.Entries, worker.Entry{Kind: worker.EntryStart, Lease: l})
				continue
			}
			l.Worker, l.Tokens = worker.ID{}, 0
			m.Entries = append(m.Entries, worker.Entry{Kind: worker.EntryEnd, Lease: l, Outcome: worker.Success})
		}
		return m
	}
	beat := func(leases int, key uint64) *worker.Batch {
		m := batch(0)
		m.Beat = &worker.Beat{Open: worker.Quarters * leases}
		for range leases {
			l := lease(key)
			m.Beat.Renewed = append(m.Beat.Renewed, l)
		}
		return m
	}
	records := func(n int) *Records {
		r := make(Records, n)
		for i := range r {
			r[i] = State{
				Worker: anyone(), Epoch: 1_790_000_000_000, Term: 3, Keeper: worker.ReplicaID(rng.Uint64()), Seq: 100_000, Status: worker.Ready,
				BreakerAge: 50 * time.Hour, Report: &Report{Age: 60 * time.Millisecond, Load: worker.Report{
					GoodFor: 30 * time.Second, Waiting: 2, Queued: 4000, Running: 16, MaxRunning: 256, Throughput: 1234.5, KVUsage: 0.4321,
				}},
			}
		}
		return &r
	}
	spec := &worker.Spec{
		ID: anyone(), URL: "http://10.1.100.200:8000", Leg: leg, Runtime: worker.SGLang,
		Models: []worker.Model{{ID: "meta-llama/Llama-3.1-70B-Instruct"}}, Labels: map[string]string{"zone": "a"},
		RegisteredAt: time.Date(2026, 8, 1, 12, 0, 0, 1, time.UTC),
	}
	for _, m := range []struct {
		name  string
		codec codec
		value any
	}{
		{"batch/entries=1", batchCodec, batch(1)},
		{"batch/entries=4", batchCodec, batch(4)},
		{"batch/entries=64", batchCodec, batch(64)},
		{"beat/leases=1562", batchCodec, beat(1562, 0)},
		{"beat/leases=1562/keys", batchCodec, beat(1562, 1<<63)},
		{"beat/leases=20000", batchCodec, beat(20_000, 0)},
		{"records/n=1", stateCodec, records(1)},
		{"records/n=31", stateCodec, records(31)},
		{"records/n=1024", stateCodec, records(MaxRecords)},
		{"worker", specCodec, spec},
	} {
		data, err := m.codec.append(nil, m.value)
		if err != nil {
			b.Fatal(m.name, err)
		}
		b.Run(m.name+"/encode", func(b *testing.B) {
			buf := make([]byte, 0, len(data))
			for b.Loop() {
				if _, err := m.codec.append(buf, m.value); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(data)), "B/message")
		})
		b.Run(m.name+"/decode", func(b *testing.B) {
			for b.Loop() {
				if _, err := m.codec.decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
