package bootstrap

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// told is what an SGLang prefill engine says of itself.
func toldAt(port int, model string) Found {
	return Found{Runtime: worker.SGLang, Models: []string{model}, Labels: map[string]string{modeLabel: "prefill", portLabel: strconv.Itoa(port)}}
}

// TestAnotherProcessIsAskedAnew has workers' processes change, as their keepers tell.
func TestAnotherProcessIsAskedAnew(t *testing.T) {
	const a, b = "http://a:1", "http://b:1"
	onLeg := func(s *worker.Spec) { s.Leg, s.BootstrapHost = worker.Prefill, "p" }
	synctest.Test(t, func(t *testing.T) {
		p, m := &prober{found: toldAt(9001, "old")}, &memory{lag: time.Millisecond}
		r, stop := running(t, p, m, nil)
		defer stop()
		id := worker.IDOf(a)
		add(t, r, a, onLeg)
		pass(time.Second)
		p.becomes(toldAt(9002, "old"), nil)
		add(t, r, b, onLeg)
		pass(time.Second)
		before := m.now[id].RegisteredAt
		process := func(of worker.ID, epoch uint64, port uint16) {
			r.Process(of, epoch, worker.Process{ID: epoch, BootstrapPort: port})
			pass(10 * time.Second)
		}
		process(id, 5, 9001)
		process(worker.IDOf(b), 5, 9002)
		if p.discovered != 2 {
			t.Errorf("asked %d times, want once each: the processes are those that were registered", p.discovered)
		}

		// The first one takes the second one's port.
		p.becomes(toldAt(9002, "new"), nil)
		process(id, 6, 9002)
		if s := m.now[id]; s.ModelID() != "new" || s.BootstrapPort != 9002 || s.BootstrapSource != worker.EngineSource || !s.RegisteredAt.Equal(before) {
			t.Errorf("stored as %+v", s)
		}
		if diff := cmp.Diff([]string{b}, m.conflicts()); diff != "" {
			t.Errorf("conflicts (-want +got):\n%s", diff)
		}

		// It gives it back; the engine does not answer at once.
		p.becomes(Found{}, errors.New("loading"))
		r.Process(id, 7, worker.Process{})
		pass(1500 * time.Millisecond)
		p.becomes(toldAt(9001, "new"), nil)
		pass(10 * time.Second)
		if diff := cmp.Diff([]string(nil), m.conflicts()); diff != "" {
			t.Errorf("conflicts (-want +got):\n%s", diff)
		}

		// What is older, or nobody's here, changes nothing.
		asked := p.discovered
		process(id, 6, 9001)
		process(worker.IDOf("http://c:1"), 9, 9009)
		if p.discovered != asked {
			t.Error("an old process was asked about")
		}

		// A worker that is removed meanwhile does not come back.
		p.becomes(Found{}, errors.New("loading"))
		r.Process(id, 8, worker.Process{})
		synctest.Wait()
		if err := r.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		p.becomes(toldAt(9001, "new"), nil)
		pass(time.Minute)
		if diff := cmp.Diff([]string{b}, m.urls()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

// TestAskedForHoldsInAnotherProcess has an engine say something else than whoever
// registered it.
func TestAskedForHoldsInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m := &prober{found: toldAt(9001, "m")}, &memory{lag: time.Millisecond}
		r, stop := running(t, p, m, nil)
		defer stop()
		add(t, r, "http://a:1", prefill)
		pass(time.Second)
		id := worker.IDOf("http://a:1")
		r.Process(id, 1, worker.Process{ID: 1, BootstrapPort: 9001})
		p.becomes(toldAt(9002, "m"), nil)
		r.Process(id, 2, worker.Process{ID: 2, BootstrapPort: 9002})
		pass(time.Second)
		if s := m.now[id]; s.BootstrapPort != 8998 || s.BootstrapSource != "spec" || s.Labels[portLabel] != "9002" {
			t.Errorf("stored as %+v", s)
		}
	})
}
