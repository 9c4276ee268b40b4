package client

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// reports is a local replica that says what its engines report.
type reports struct {
	Local
	all []worker.Loads
}

func (r reports) EngineLoads() []worker.Loads { return r.all }

func loadOf(i int) worker.Loads {
	return worker.Loads{Worker: spec(i).ID, Ranks: []worker.RankLoad{{Running: new(float64(i))}}}
}

// TestLoadsAreGathered: what the own replica knows comes at once, that of others by the
// bus, in parts; what is said for another question is dropped, and one who is silent is
// not waited for longer than he may take.
func TestLoadsAreGathered(t *testing.T) {
	f := start(t, true, func(_ *Config, d *Deps) {
		d.Local = []Local{reports{d.Local[0], []worker.Loads{loadOf(1)}}}
	})
	if d := cmp.Diff([]worker.Loads{loadOf(1)}, f.EngineLoads(t.Context())); d != "" {
		t.Errorf("of the own replica (-want +got):\n%s", d)
	}
	var mute atomic.Bool
	sub, err := bus.Subscribe(f.bus, f.cluster.LoadsAsk(worker.Regular), func(ask *wire.LoadsAsk) {
		to := f.cluster.Loads(worker.Regular, ask.Asker)
		parts := []wire.Loads{
			{Question: ask.Question + 1, Replica: 2, Last: true, Workers: []worker.Loads{loadOf(8)}},
			{Question: ask.Question, Replica: 77, Last: true, Workers: []worker.Loads{loadOf(9)}},
			{Question: ask.Question, Replica: 2, Workers: []worker.Loads{loadOf(1), loadOf(2)}},
			{Question: ask.Question, Replica: 2, Last: true, Workers: []worker.Loads{loadOf(3)}},
		}
		for i := range parts {
			if i == 3 && mute.Load() {
				break
			}
			if err := bus.Publish(f.bus, to, &parts[i]); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	beat := wire.Beat{Replica: 2, Leg: worker.Regular, Ready: true, Policies: []wire.PolicyUse{{Name: "random"}}}
	if err := bus.Publish(f.bus, f.cluster.Beat(worker.Regular), &beat); err != nil {
		t.Fatal(err)
	}
	bustest.Await(t, "the other replica", func() bool { return len(f.legs[worker.Regular].ranking.Rank(0, nil)) == 2 })
	f.loads.taken = time.Time{} // what was said is old
	if d := cmp.Diff([]worker.Loads{loadOf(1), loadOf(2), loadOf(3)}, f.EngineLoads(t.Context())); d != "" {
		t.Errorf("of both (-want +got):\n%s", d)
	}
	mute.Store(true)
	f.loads.taken = time.Time{}
	if d := cmp.Diff([]worker.Loads{loadOf(1), loadOf(2)}, f.EngineLoads(t.Context())); d != "" {
		t.Errorf("of one who breaks off (-want +got):\n%s", d)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	f.loads.taken = time.Time{}
	f.EngineLoads(gone)
	if !f.loads.taken.IsZero() {
		t.Error("what was heard until the asker left is shown to others")
	}
	if err := sub.Stop(); err != nil {
		t.Fatal(err)
	}
}
