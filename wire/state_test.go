package wire

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// Instants become ages where they are sent and instants where they are received,
// each in its own clock; whoever passes a record on adds what it held it for.
func TestStateAges(t *testing.T) {
	sender := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	receiver := sender.Add(-time.Hour) // its clock is an hour behind
	for _, tt := range []struct {
		name string
		at   worker.Record // in the sender's clock
		want worker.Record // in the receiver's
	}{
		{"none", worker.Record{}, worker.Record{}},
		{
			"both",
			worker.Record{BreakerSince: sender.Add(-time.Minute), Report: &worker.Report{Queued: 7, KVUsage: 0.5, GoodFor: time.Second, PolledAt: sender.Add(-time.Second)}},
			worker.Record{BreakerSince: receiver.Add(-time.Minute), Report: &worker.Report{Queued: 7, KVUsage: 0.5, GoodFor: time.Second, PolledAt: receiver.Add(-time.Second)}},
		},
		{
			"in the future",
			worker.Record{BreakerSince: sender.Add(time.Minute), Report: &worker.Report{Queued: 7, KVUsage: 0.5, GoodFor: time.Second, PolledAt: sender.Add(time.Minute)}},
			worker.Record{BreakerSince: receiver, Report: &worker.Report{Queued: 7, KVUsage: 0.5, GoodFor: time.Second, PolledAt: receiver}},
		},
		{
			"below a microsecond",
			worker.Record{BreakerSince: sender.Add(-1999 * time.Nanosecond)},
			worker.Record{BreakerSince: receiver.Add(-time.Microsecond)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []*worker.Record{&tt.at, &tt.want} {
				r.Worker, r.Keeper, r.Term, r.Seq, r.Epoch = testID(1), 7, 3, 9, 11
				r.Status, r.Breaker, r.Overloaded = worker.Ready, worker.Open, true
			}
			data, err := AppendRecords(nil, &Records{*StateOf(tt.at, sender)})
			if err != nil {
				t.Fatal(err)
			}
			records, err := DecodeRecords(data)
			if err != nil {
				t.Fatal(err)
			}
			s := &(*records)[0]
			if d := cmp.Diff(tt.want, s.Record(receiver)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			held := 5 * time.Second
			again := StateOf(s.Record(receiver), receiver.Add(held))
			if want := s.BreakerAge + held; s.BreakerAge >= 0 && again.BreakerAge != want {
				t.Errorf("passed on: breaker %s, want %s", again.BreakerAge, want)
			}
			if s.Report != nil && again.Report.Age != s.Report.Age+held {
				t.Errorf("passed on: report %s, want %s", again.Report.Age, s.Report.Age+held)
			}
		})
	}
}

func TestRecordsOf(t *testing.T) {
	for _, n := range []int{0, 1, MaxRecords, MaxRecords + 1, 2*MaxRecords + 5} {
		recs := make([]worker.Record, n)
		for i := range recs {
			recs[i] = worker.Record{Worker: testID(i), Keeper: 1, Seq: uint64(i)}
		}
		next := uint64(0)
		for _, records := range RecordsOf(recs, time.Now()) {
			if _, err := AppendRecords(nil, &records); err != nil {
				t.Errorf("%d records: %v", n, err)
			}
			for _, s := range records {
				if s.Seq != next {
					t.Fatalf("%d records: got %d, want %d", n, s.Seq, next)
				}
				next++
			}
		}
		if next != uint64(n) {
			t.Errorf("%d of %d records are sent", next, n)
		}
	}
}
