package worker

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// BenchmarkScale is memory and CPU time of what a process knows of 100,000 workers of
// one model: the figures of docs/scaling.md.
func BenchmarkScale(b *testing.B) {
	const workers, calls = 100_000, 1_600_000
	began := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	before := heap()
	fold := NewFold()
	registry := NewRegistry(fold, 3)
	specs := make([]*Spec, workers)
	for i := range specs {
		url := fmt.Sprintf("http://10.%d.%d.%d:8000", i>>16, i>>8&255, i&255)
		specs[i] = &Spec{
			ID: IDOf(url), URL: url, Runtime: SGLang, Models: []Model{{ID: string([]byte("meta-llama/Llama-3.1-70B-Instruct"))}},
			RegisteredAt: began.Add(time.Duration(i)),
		}
	}
	registry.Put(specs...)
	seq := uint64(0)
	report := func(n, from int) []Record {
		seq++
		recs := make([]Record, n)
		for i := range recs {
			recs[i] = Record{
				Worker: specs[(from+i)%workers].ID, Epoch: 1, Term: 1, Keeper: 1, Seq: seq, Status: Ready,
				Report: &Report{PolledAt: began.Add(time.Duration(seq)), GoodFor: 30 * time.Second, Running: 16},
			}
		}
		return recs
	}
	registry.InstallAll(report(workers, 0))
	perWorker := float64(heap()-before) / workers

	before = heap()
	keepers := make([]*Keeper, workers)
	for i, s := range specs {
		keepers[i] = NewKeeper(s.ID, 1, DefaultKeeperConfig())
	}
	perKeeper := float64(heap()-before) / workers

	before = heap()
	batch := func(seq uint64, n, from int) *Batch {
		out := &Batch{Ingress: "a", Incarnation: 1, Seq: seq}
		for i := range n {
			plan := uint64(from + i + 1)
			out.Entries = append(out.Entries, Entry{Lease: Lease{ID: LeaseID{Incarnation: 1, Plan: plan}, Worker: specs[plan*7919%workers].ID, Tokens: 1000}})
		}
		return out
	}
	number := uint64(0)
	for from := 0; from < calls; from += BatchEntries {
		number++
		fold.Apply(batch(number, BatchEntries, from), began, nil)
	}
	perCall := float64(heap()-before) / calls

	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(perWorker, "B/worker")
		b.ReportMetric(perKeeper, "B/keeper")
		b.ReportMetric(perCall, "B/call")
		b.ReportMetric(float64(len(keepers)), "keepers")
	})
	for _, n := range []int{1, 31, 1024} {
		b.Run(fmt.Sprintf("reports/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			from := 0
			for b.Loop() {
				recs := report(n, from)
				if n == 1 {
					registry.Install(recs[0])
				} else {
					registry.InstallAll(recs)
				}
				from += n
			}
		})
	}
	b.Run("repeats/n=1024", func(b *testing.B) {
		for b.Loop() {
			recs := report(1024, 0)
			for i := range recs {
				held, _ := registry.Record(recs[i].Worker)
				recs[i].Report = held.Report
			}
			registry.InstallAll(recs)
		}
	})
	b.Run("start_and_end", func(b *testing.B) {
		from := calls
		for b.Loop() {
			number++
			out := batch(number, BatchEntries, from)
			fold.Apply(out, began, nil)
			for i := range out.Entries {
				out.Entries[i].Kind = EntryEnd
			}
			number++
			out.Seq = number
			fold.Apply(out, began, nil)
			from += BatchEntries
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/BatchEntries, "ns/call")
	})
	b.Run("beat/leases=1562", func(b *testing.B) {
		beats := NewFold()
		w := NewLeaseWriter("b", 2, Regular)
		for i := range uint64(4 * 1562) {
			w.Begin(Lease{ID: LeaseID{Incarnation: 2, Plan: i + 1}, Worker: specs[i*7919%workers].ID, Tokens: 1000})
		}
		for range Quarters {
			m := w.Beat()
			beats.Apply(&m, began, nil)
		}
		for b.Loop() {
			m := w.Beat()
			beats.Apply(&m, began, nil)
		}
	})
	runtime.KeepAlive(keepers)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
