package wire

import (
	"fmt"
	"testing"

	"smg/worker"
)

// benchBatch has starts, ends and whole leases in equal parts, over 16 workers.
func benchBatch(entries int) *worker.Batch {
	b := &worker.Batch{Ingress: "gw-0", Incarnation: 1 << 60, Leg: worker.Decode, Seq: 123456}
	kinds := []worker.EntryKind{worker.EntryStart, worker.EntryEnd, worker.EntryWhole}
	for i := range entries {
		e := worker.Entry{Kind: kinds[i%len(kinds)]}
		e.Lease.ID = worker.LeaseID{Incarnation: b.Incarnation, Plan: uint64(1_000_000 + i), Leg: b.Leg}
		if e.Kind != worker.EntryEnd {
			e.Lease.Worker = testID(i % 16)
			e.Lease.Tokens = int64(100 * i)
		}
		if e.Kind != worker.EntryStart {
			e.Outcome = worker.Success
		}
		b.Entries = append(b.Entries, e)
	}
	return b
}

func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1, 10, worker.BatchEntries} {
		v := benchBatch(n)
		data, err := AppendBatch(nil, v)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("encode/n=%d", n), func(b *testing.B) {
			buf := make([]byte, 0, len(data))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := AppendBatch(buf, v); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(data)), "B/message")
		})
		b.Run(fmt.Sprintf("decode/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeBatch(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The beat of an ingress with 10,000 open calls over 1,000 workers.
func BenchmarkLeaseBeat(b *testing.B) {
	v := &worker.Batch{Ingress: "gw-0", Incarnation: 1 << 60, Leg: worker.Decode, Seq: 123456, Beat: &worker.Beat{Open: 10_000}}
	for i := range 2_500 {
		id := worker.LeaseID{Incarnation: v.Incarnation, Plan: uint64(1_000_000 + i), Leg: v.Leg}
		v.Beat.Renewed = append(v.Beat.Renewed, worker.Lease{ID: id, Worker: testID(i % 1000), Tokens: 500})
	}
	buf := make([]byte, 0, MaxMessage)
	b.ReportAllocs()
	for b.Loop() {
		data, err := AppendBatch(buf, v)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(data)), "B/message")
		if _, err := DecodeBatch(data); err != nil {
			b.Fatal(err)
		}
	}
}
