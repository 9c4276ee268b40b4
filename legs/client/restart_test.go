package client

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// TestAPickOfAFormerProcessIsTurnedDown: the selector is asked again under another plan
// number, and after three such picks the client picks by itself. What was granted is
// given back.
func TestAPickOfAFormerProcessIsTurnedDown(t *testing.T) {
	const known = 100 // the epoch in the client's copy
	tests := []struct {
		name     string
		epochs   []uint64 // of the selector's picks, the last one of all that follow
		asks     int
		degraded bool
	}{
		{"the same", []uint64{known}, 1, false},
		{"newer than is known here", []uint64{known + 1}, 1, false},
		{"from a selector that knows no epochs", []uint64{0}, 1, false},
		{"older once", []uint64{known - 1, known}, 2, false},
		{"older twice", []uint64{1, known - 1, known}, 3, false},
		{"older again and again", []uint64{known - 1}, 3, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, false, far, patient)
			f.late = time.Hour // nobody is, on a slow machine either
			f.known(t, 1)
			id := spec(1).ID
			f.registry.Install(worker.Record{Worker: id, Epoch: known, Term: 9, Keeper: 1, Seq: 1, Status: worker.Ready})
			var mu sync.Mutex
			var asked []worker.LeaseID
			f.replica(t, 9, "round_robin", func(s *wire.Select) *wire.Reply {
				mu.Lock()
				defer mu.Unlock()
				epoch := tt.epochs[min(len(asked), len(tt.epochs)-1)]
				asked = append(asked, s.Lease)
				return &wire.Reply{Lease: s.Lease, Replica: 9, Pick: wire.Pick{Worker: spec(1), Epoch: epoch, Policy: "round_robin"}}
			})
			ask := wire.Select{Lease: f.Plan(), Model: "m"}
			pick, err := f.Select(t.Context(), &ask)
			if err != nil {
				t.Fatal(err)
			}
			if pick.Degraded != tt.degraded || len(asked) != tt.asks {
				t.Errorf("degraded %v after %d asks, want %v after %d", pick.Degraded, len(asked), tt.degraded, tt.asks)
			}
			if n := int(testutil.ToFloat64(f.metrics.WithLabelValues("regular", reasonOutdated))); (n == 1) != tt.degraded {
				t.Errorf("%d picks count as outdated", n)
			}
			if tt.degraded && pick.Epoch != known {
				t.Errorf("epoch %d, want that of the copy", pick.Epoch)
			}
			f.End(ask.Lease, worker.Success, false)
			want := map[worker.LeaseID][]worker.EntryKind{ask.Lease: {worker.EntryWhole}}
			for _, one := range asked {
				if one != ask.Lease {
					want[one] = []worker.EntryKind{worker.EntryEnd}
				}
			}
			if len(want) != max(tt.asks, len(asked)+btoi(tt.degraded)) {
				t.Errorf("asked under %v, and then chosen under %v: want another number each time", asked, ask.Lease)
			}
			var got map[worker.LeaseID][]worker.EntryKind
			bustest.Await(t, "what became of the leases", func() bool {
				got = map[worker.LeaseID][]worker.EntryKind{}
				for one := range want {
					for _, e := range f.entries(one) {
						got[one] = append(got[one], e.Kind)
					}
				}
				return len(got) == len(want)
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("leases (-want +got):\n%s", diff)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
