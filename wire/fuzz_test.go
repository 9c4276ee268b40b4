package wire

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/worker"
)

// fuzz feeds anything to a decoder: it is an error that says malformed, or a value
// that can be sent on and arrives as the same.
func fuzz(f *testing.F, c codec) {
	for _, r := range recordings() {
		data, err := r.codec.append(nil, r.want)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := c.decode(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("got %v, want %v", err, ErrMalformed)
			}
			return
		}
		again, err := c.append(nil, v)
		if err != nil {
			t.Fatalf("%+v was decoded and cannot be encoded: %v", v, err)
		}
		got, err := c.decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(v, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

func FuzzDecodeBatch(f *testing.F)    { fuzz(f, batchCodec) }
func FuzzDecodeRecords(f *testing.F)  { fuzz(f, stateCodec) }
func FuzzDecodeBeat(f *testing.F)     { fuzz(f, beatCodec) }
func FuzzDecodeSpec(f *testing.F)     { fuzz(f, specCodec) }
func FuzzDecodeSelect(f *testing.F)   { fuzz(f, askCodec) }
func FuzzDecodeReply(f *testing.F)    { fuzz(f, replyCodec) }
func FuzzDecodeSnapshot(f *testing.F) { fuzz(f, snapCodec) }
func FuzzDecodeLoadsAsk(f *testing.F) { fuzz(f, askLoads) }
func FuzzDecodeLoads(f *testing.F)    { fuzz(f, loadsCodec) }
func FuzzDecodePin(f *testing.F)      { fuzz(f, pinCodec) }

// Any batch arrives as it was sent, whatever was encoded before with the same
// memory.
func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawBatch(t)
		data, err := AppendBatch(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeBatch(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

func drawBatch(t *rapid.T) *worker.Batch {
	b := &worker.Batch{
		Ingress:     rapid.StringN(1, 20, MaxName).Draw(t, "ingress"),
		Incarnation: rapid.Uint64Min(1).Draw(t, "incarnation"),
		Leg:         worker.Leg(rapid.Uint8Max(uint8(worker.Decode)).Draw(t, "leg")),
		Seq:         rapid.Uint64Min(1).Draw(t, "seq"),
	}
	lease := rapid.Custom(func(t *rapid.T) worker.Lease {
		return worker.Lease{
			ID: worker.LeaseID{
				Incarnation: b.Incarnation,
				Plan:        rapid.Uint64Min(1).Draw(t, "plan"),
				Leg:         b.Leg,
				Item:        rapid.Uint16().Draw(t, "item"),
			},
			Worker: testID(rapid.IntRange(1, 9).Draw(t, "worker")),
			Tokens: rapid.Int64Min(0).Draw(t, "tokens"),
			Key:    rapid.Uint64().Draw(t, "key"),
			Probe:  rapid.Bool().Draw(t, "probe"),
		}
	})
	for range rapid.IntRange(0, worker.BatchEntries).Draw(t, "entries") {
		e := worker.Entry{
			Kind:      worker.EntryKind(rapid.Uint8Max(uint8(worker.EntryWhole)).Draw(t, "kind")),
			Lease:     lease.Draw(t, "lease"),
			Outcome:   worker.Outcome(rapid.Uint8Max(uint8(worker.Failure)).Draw(t, "outcome")),
			Unreached: rapid.Bool().Draw(t, "unreached"),
		}
		if e.Kind == worker.EntryEnd {
			e.Lease.Worker = worker.ID{}
		}
		b.Entries = append(b.Entries, e)
	}
	if rapid.Bool().Draw(t, "beat") {
		b.Beat = &worker.Beat{Quarter: rapid.Uint8Max(worker.Quarters-1).Draw(t, "quarter")}
		for range rapid.IntRange(0, 40).Draw(t, "renewed") {
			b.Beat.Renewed = append(b.Beat.Renewed, lease.Draw(t, "lease"))
		}
		b.Beat.Open = len(b.Beat.Renewed) + rapid.IntRange(0, 100).Draw(t, "more")
	}
	return b
}
