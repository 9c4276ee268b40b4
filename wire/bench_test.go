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

// A select with a key, and its answer.
func BenchmarkSelect(b *testing.B) {
	id := worker.LeaseID{Incarnation: 1 << 60, Plan: 1_000_000, Leg: worker.Prefill}
	ask := &Select{
		Lease: id, Model: "meta-llama/Llama-3.1-8B-Instruct", Keys: worker.Keys{Header: worker.HashKey("key")}, Tokens: 500,
	}
	reply := &Reply{Lease: id, Replica: 1 << 60, Pick: Pick{
		Worker: &worker.Spec{
			ID: testID(1), URL: "http://10.0.0.1:8000", Leg: worker.Prefill, Runtime: worker.SGLang,
			Models: []worker.Model{{ID: ask.Model}}, BootstrapHost: "10.0.0.1", BootstrapPort: 8998,
		},
		Epoch: 1790000000000, Policy: "consistent_hashing", Branch: "routing_key_hit",
	}}
	for _, m := range []struct {
		name  string
		codec codec
		value any
	}{{"select", askCodec, ask}, {"reply", replyCodec, reply}} {
		data, err := m.codec.append(nil, m.value)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(m.name+"/encode", func(b *testing.B) {
			buf := make([]byte, 0, len(data))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.codec.append(buf, m.value); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(data)), "B/message")
		})
		b.Run(m.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.codec.decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
