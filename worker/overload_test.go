package worker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reach is a report of a worker and whether limits veto it.
type reach struct {
	name    string
	limits  OverloadLimits
	waiting int64
	usage   float64
	want    bool
}

func vetoes(t *testing.T, cases []reach) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.limits.Veto(&Report{Waiting: c.waiting, KVUsage: c.usage}); got != c.want {
				t.Errorf("%d waiting, usage %v under %+v: %v, want %v", c.waiting, c.usage, c.limits, got, c.want)
			}
		})
	}
}

// eachLimit is AV-4.
func eachLimit(t *testing.T) {
	vetoes(t, []reach{
		{"as many waiting", OverloadLimits{Waiting: 8}, 8, 0, true},
		{"one less", OverloadLimits{Waiting: 8}, 7, 1, false},
		{"usage below", OverloadLimits{TokenUsage: 0.9}, 1 << 20, 0.89, false},
		{"usage reached", OverloadLimits{TokenUsage: 0.9}, 0, 0.90, true},
		{"no limit", OverloadLimits{}, 1 << 40, 1, false},
	})
}

// eitherLimit is AV-5. What a worker does not report is 0 and vetoes nobody.
func eitherLimit(t *testing.T) {
	both := OverloadLimits{Waiting: 4, TokenUsage: 0.8}
	vetoes(t, []reach{
		{"neither", both, 3, 0.7, false},
		{"waiting", both, 4, 0.1, true},
		{"usage", both, 0, 0.8, true},
		{"nothing reported", both, 0, 0, false},
	})
}

func TestOwnLimitsReplaceTheFleets(t *testing.T) {
	fleet := OverloadLimits{Waiting: 4, TokenUsage: 0.8}
	tests := []struct {
		name       string
		own, fleet OverloadLimits
		want       OverloadLimits
		set        bool // whether the worker's own are
	}{
		{"none", OverloadLimits{}, fleet, fleet, false},
		{"waiting", OverloadLimits{Waiting: 9}, fleet, OverloadLimits{9, 0.8}, true},
		{"usage", OverloadLimits{TokenUsage: 0.5}, fleet, OverloadLimits{4, 0.5}, true},
		{"both", OverloadLimits{9, 0.5}, fleet, OverloadLimits{9, 0.5}, true},
		{"alone", OverloadLimits{Waiting: 9}, OverloadLimits{}, OverloadLimits{Waiting: 9}, true},
		{"nobody's", OverloadLimits{}, OverloadLimits{}, OverloadLimits{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.own.Or(tt.fleet)); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if got := tt.own.Set(); got != tt.set {
				t.Errorf("set: %v, want %v", got, tt.set)
			}
		})
	}
}

// A veto whose report holds no more ends, wherever it is known: with its keeper, and
// with those who hear of no keeper.
func TestVetoesLapse(t *testing.T) {
	vetoed := func(id ID, seq uint64, goodFor time.Duration) Record {
		rec := readyAt(id, seq)
		rec.Overloaded, rec.Report = true, &Report{PolledAt: at(0), GoodFor: goodFor}
		return rec
	}
	r, _, specs := fleet(3)
	r.Install(vetoed(specs[0].ID, 2, 30*time.Second))
	r.Install(vetoed(specs[2].ID, 2, time.Minute))
	r.Lapse(at(30 * time.Second))
	if got := names(t, r.Pool(Regular, "m")); got != "1" {
		t.Errorf("while the reports hold: %q", got)
	}
	r.Lapse(at(31 * time.Second))
	if got := names(t, r.Pool(Regular, "m")); got != "0 1" {
		t.Errorf("once one has lapsed: %q", got)
	}
	if r.Overloaded(specs[0].ID) || !r.Overloaded(specs[2].ID) {
		t.Error("the wrong veto has ended")
	}

	k, _ := newTestKeeper(5)
	k.Tick(true, at(0))
	k.Probe(k.Record().Epoch, true, at(0))
	k.Report(&Report{PolledAt: at(0), GoodFor: 3 * time.Second}, true, at(0))
	if rec, publish := k.Tick(true, at(2*time.Second)); publish || !rec.Overloaded {
		t.Errorf("while the report holds: %+v, %v", rec, publish)
	}
	if rec, publish := k.Tick(true, at(3*time.Second+ms)); !publish || rec.Overloaded {
		t.Errorf("once it has lapsed: %+v, %v", rec, publish)
	}
}

// TestOverloadedIsWhatIsHeld compares the look without a lock with the records, over
// any order of events.
func TestOverloadedIsWhatIsHeld(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	r, _, specs := fleet(4)
	for step := range 4000 {
		s := specs[rnd.IntN(len(specs))]
		rec := readyAt(s.ID, uint64(step+2))
		rec.Overloaded = rnd.IntN(3) == 0
		rec.Report = &Report{PolledAt: at(time.Duration(step) * ms), GoodFor: 20 * ms}
		switch rnd.IntN(6) {
		case 0:
			r.Remove(s.ID)
		case 1:
			r.Put(s, s.Clone())
		case 2:
			r.Lapse(at(time.Duration(step) * ms))
		case 3:
			other := readyAt(specs[0].ID, uint64(step+2))
			r.InstallAll([]Record{rec, other})
		default:
			r.Install(rec)
		}
		n := int64(0)
		for _, s := range specs {
			w := r.Lookup(s.ID)
			want := w != nil && w.Record.Overloaded
			if got := r.Overloaded(s.ID); got != want {
				t.Fatalf("step %d: %s is overloaded: %v, want %v", step, s.URL, got, want)
			}
			if want {
				n++
			}
		}
		if got := r.vetoed.Load(); got != n {
			t.Fatalf("step %d: %d are counted, want %d", step, got, n)
		}
	}
}
