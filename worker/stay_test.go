package worker

import (
	"testing"
	"time"
)

// TestAFormerStayIsOver: a worker that fails is removed and added again at once; the
// last record of before arrives after that, or is what this replica held.
func TestAFormerStayIsOver(t *testing.T) {
	former, id := newTestKeeper(5)
	former.Registered(at(0))
	former.Tick(true, at(0))
	former.held.Term = 7 // it had many keepers
	former.held.Status, former.circuit.state = Ready, Open
	last, _ := former.publish(true, at(time.Second))

	for name, taken := range map[string]bool{"heard before it keeps the worker": false, "heard while it does": true} {
		t.Run(name, func(t *testing.T) {
			k := NewKeeper(id, 6, DefaultKeeperConfig())
			k.Registered(at(2 * time.Second))
			if taken {
				k.Tick(true, at(2*time.Second))
			}
			if held, _ := k.Hear(last); held.Breaker != Open {
				t.Fatalf("the record of before was not heard: %+v", held)
			}
			rec, publish := k.Tick(true, at(3*time.Second))
			if !publish || rec.Breaker != Closed || rec.Status != Pending || rec.Compare(last) <= 0 || rec.Epoch <= last.Epoch {
				t.Errorf("got %+v, want a record of a new process", rec)
			}
		})
	}
}

// TestAStaySurvivesItsKeeper: another replica takes over, whose clock or whose
// predecessor's clock is behind that of whoever registered the worker.
func TestAStaySurvivesItsKeeper(t *testing.T) {
	first, id := newTestKeeper(5)
	first.Registered(at(time.Minute))
	first.Tick(true, at(0))
	rec, _ := first.Probe(first.Record().Epoch, true, at(time.Second))
	second := NewKeeper(id, 6, DefaultKeeperConfig())
	second.Registered(at(time.Minute))
	second.Hear(rec)
	if got, _ := second.Tick(true, at(2*time.Second)); got.Status != Ready || got.Epoch != rec.Epoch {
		t.Errorf("it begins again: %+v after %+v", got, rec)
	}
}
