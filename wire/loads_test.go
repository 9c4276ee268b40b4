package wire

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/wire/wirepb"
	"smg/worker"
)

// goodLoads has every number of a rank, and a rank that reports two.
func goodLoads() *Loads {
	full := worker.RankLoad{Rank: 3, Mode: "prefill"}
	for i, n := range full.Numbers() {
		*n = new(float64(i) + 0.5)
	}
	return &Loads{Question: 7, Replica: 9, Last: true, Workers: []worker.Loads{
		{Worker: testID(1), Ranks: []worker.RankLoad{{Waiting: new(0.0), QueueRetracted: new(2.0)}, full}},
		{Worker: testID(2), Ranks: []worker.RankLoad{{}}},
	}}
}

func TestDecodeLoadsIsStrict(t *testing.T) {
	id := testID(1)
	good := func() *wirepb.Loads {
		return &wirepb.Loads{Replica: 1, Workers: []*wirepb.WorkerLoads{{Worker: id[:], Ranks: []*wirepb.RankLoad{{Present: 5, Numbers: []float64{1, 2}}}}}}
	}
	runSpoils(t, good, loadsCodec, []spoil[*wirepb.Loads]{
		{"no replica", func(m *wirepb.Loads) { m.Replica = 0 }, "from nobody"},
		{"no worker", func(m *wirepb.Loads) { m.Workers[0].Worker = nil }, "0 bytes"},
		{"no rank", func(m *wirepb.Loads) { m.Workers[0].Ranks = nil }, "of no rank"},
		{"large rank", func(m *wirepb.Loads) { m.Workers[0].Ranks[0].Rank = math.MaxUint32 }, "rank 4294967295"},
		{"too few numbers", func(m *wirepb.Loads) { m.Workers[0].Ranks[0].Present = 7 }, "2 numbers where there are to be 3"},
		{"a negative number", func(m *wirepb.Loads) { m.Workers[0].Ranks[0].Numbers[0] = -1 }, "-1"},
		{"no number", func(m *wirepb.Loads) { m.Workers[0].Ranks[0].Numbers[0] = math.NaN() }, "NaN"},
	})
	runSpoils(t, func() *wirepb.LoadsAsk { return &wirepb.LoadsAsk{Asker: 1} }, askLoads, []spoil[*wirepb.LoadsAsk]{
		{"no asker", func(m *wirepb.LoadsAsk) { m.Asker = 0 }, "from nobody"},
	})
}

// Ten thousand workers with every number fit into messages.
func TestLoadsInParts(t *testing.T) {
	full := goodLoads().Workers[0].Ranks[1]
	var want []worker.Loads
	for i := range 10_000 {
		want = append(want, worker.Loads{Worker: testID(1 + i%200), Ranks: []worker.RankLoad{full}})
	}
	var got []worker.Loads
	parts := LoadsOf(1, 2, want)
	for i := range parts {
		data, err := AppendLoads(nil, &parts[i])
		if err != nil {
			t.Fatal(err)
		}
		l, err := DecodeLoads(data)
		if err != nil {
			t.Fatal(err)
		}
		if last := i == len(parts)-1; l.Last != last {
			t.Errorf("part %d of %d: last is %v", i, len(parts), l.Last)
		}
		got = append(got, l.Workers...)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d[:min(len(d), 500)])
	}
	if none := LoadsOf(1, 2, nil); len(none) != 1 || !none[0].Last {
		t.Errorf("no loads are %+v, want one part", none)
	}
}
