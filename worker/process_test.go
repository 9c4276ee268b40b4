package worker

import (
	"testing"
	"time"
)

// TestKeeperNoticesARestart: by what the process says of itself, or because nothing
// listened at the worker's address twice in a row.
func TestKeeperNoticesARestart(t *testing.T) {
	one, two := Process{ID: 1, BootstrapPort: 8998}, Process{ID: 2, BootstrapPort: 9001}
	good := func(p Process) Finding { return Finding{OK: true, Process: p} }
	bad, refused, moves := Finding{}, Finding{Refused: true}, Finding{Refused: true, Moves: true}
	tests := []struct {
		name     string
		before   Process // of the first probe
		suspect  bool    // a connection was refused before the probes
		findings []Finding
		renewed  bool // the epoch has risen in the end
		status   Status
		process  Process
	}{
		{name: "the same process", before: one, findings: []Finding{good(one), good(one)}, status: Ready, process: one},
		{name: "another process", before: one, findings: []Finding{good(two)}, renewed: true, status: Ready, process: two},
		{name: "one that says nothing any more", before: one, findings: []Finding{good(Process{})}, status: Ready, process: one},
		{name: "one that says something at last", findings: []Finding{good(one)}, status: Ready, process: one},
		{name: "refused once", findings: []Finding{refused, good(Process{})}, status: Ready},
		{name: "refused twice", findings: []Finding{refused, refused, good(Process{})}, renewed: true, status: Ready},
		{name: "refused a call, then a probe", suspect: true, findings: []Finding{refused, good(Process{})}, renewed: true, status: Ready},
		{name: "refused a call alone", suspect: true, findings: []Finding{good(Process{})}, status: Ready},
		{name: "it does not answer", findings: []Finding{bad, bad, good(Process{})}, status: Ready},
		{name: "what it was is forgotten", before: one, findings: []Finding{refused, refused, good(Process{})}, renewed: true, status: Ready},
		{name: "while it is gone", findings: []Finding{refused, refused}, status: Ready},
		{name: "while it is gone, and others must not meet the next one", findings: []Finding{moves, moves}, status: NotReady},
		{name: "one probe brings the next one back", before: one, findings: []Finding{moves, moves, moves, good(two)}, renewed: true, status: Ready, process: two},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k, _ := newTestKeeper(5)
			k.Tick(true, at(0))
			rec, _ := k.Probed(k.Record().Epoch, good(tt.before), at(0))
			for range 9 { // one more would open the breaker
				k.Outcome(Event{Worker: rec.Worker, Outcome: Failure}, at(0))
			}
			epoch, now := rec.Epoch, time.Second
			if tt.suspect && !k.Suspect(at(now)) {
				t.Fatal("no probe is due")
			}
			if tt.suspect && k.Suspect(at(now)) {
				t.Error("one is due again")
			}
			for i, f := range tt.findings {
				now += time.Second
				was := k.Record()
				got, publish := k.Probed(was.Epoch, f, at(now))
				if publish != (got != was) {
					t.Errorf("finding %d: published %v, from %+v to %+v", i, publish, was, got)
				}
			}
			rec = k.Record()
			if renewed := rec.Epoch > epoch; renewed != tt.renewed || rec.Status != tt.status || rec.Process != tt.process {
				t.Errorf("epoch %d after %d, %v, %+v; want renewed %v, %v, %+v", rec.Epoch, epoch, rec.Status, rec.Process, tt.renewed, tt.status, tt.process)
			}
			if rec, _ = k.Outcome(Event{Worker: rec.Worker, Outcome: Failure}, at(now)); (rec.Breaker == Closed) != tt.renewed {
				t.Errorf("breaker %v after ten failures of which nine were before", rec.Breaker)
			}
			if _, publish := k.Probed(epoch, Finding{Refused: true}, at(now)); publish && tt.renewed {
				t.Error("a probe of the process before counts")
			}
		})
	}
}

// TestAWorkerThatIsGoneIsProbedFaster, but fails its thresholds no sooner.
func TestAWorkerThatIsGoneIsProbedFaster(t *testing.T) {
	k, _ := newTestKeeper(5)
	k.Tick(true, at(0))
	k.ProbeDue(at(0))
	epoch := k.Record().Epoch
	k.Probed(epoch, Finding{OK: true}, at(0))
	due := func(d time.Duration) bool { _, ok := k.ProbeDue(at(d)); return ok }
	if due(30 * time.Second) {
		t.Fatal("probed in between, though nothing is suspected")
	}
	k.Suspect(at(30 * time.Second))
	probes := 0
	for d := 30 * time.Second; d < 90*time.Second; d += 250 * ms {
		if due(d) {
			probes++
			k.Probed(epoch, Finding{Refused: true}, at(d))
		}
	}
	if probes != 60 {
		t.Errorf("%d probes in a minute, want one a second", probes)
	}
	if got := k.Record().Status; got != Ready {
		t.Errorf("%v after one bad probe of the interval", got)
	}
	for d := 90 * time.Second; d < 181*time.Second; d += 250 * ms {
		if due(d) {
			k.Probed(epoch, Finding{Refused: true}, at(d))
		}
	}
	if got := k.Record().Status; got != NotReady {
		t.Errorf("%v after three bad probes of the interval", got)
	}
	if !due(182 * time.Second) {
		t.Error("it is not probed any more")
	}
	if rec, publish := k.Probed(epoch, Finding{OK: true}, at(182*time.Second)); !publish || rec.Status != Ready || rec.Epoch <= epoch {
		t.Errorf("one good probe later: %+v", rec)
	}
	if due(200*time.Second) || !due(242*time.Second) {
		t.Error("it is not probed in the interval again")
	}
}

// TestARestartIsKnown: registries turn what is older down, call the process where it
// says it is, and drop the credit of the one before.
func TestARestartIsKnown(t *testing.T) {
	r, f, specs := fleet(2)
	s := specs[0].Clone()
	s.BootstrapPort, s.BootstrapSource = 8998, EngineSource
	fixed := specs[1].Clone()
	fixed.BootstrapPort, fixed.BootstrapSource = 8998, "spec"
	r.Put(s, fixed)
	rec := func(s *Spec, seq, epoch uint64, p Process) {
		t.Helper()
		r.Install(Record{Worker: s.ID, Epoch: epoch, Term: 9, Keeper: 1, Seq: seq, Status: Ready, BreakerSince: at(time.Second), Process: p})
	}
	port := func(s *Spec) uint16 { return r.Lookup(s.ID).Spec.BootstrapPort }
	rec(s, 1, 10, Process{ID: 1, BootstrapPort: 8998})
	rec(fixed, 1, 10, Process{ID: 1, BootstrapPort: 9001})
	if port(s) != 8998 || port(fixed) != 8998 {
		t.Fatalf("ports %d and %d", port(s), port(fixed))
	}
	st := testStream{incarnation: 1}
	f.Apply(st.batch(st.start(1, s.ID, 100), st.start(2, fixed.ID, 100)), at(0), nil)
	for _, q := range []struct {
		epoch uint64
		want  bool
	}{{0, false}, {9, true}, {10, false}, {11, false}} {
		if got := r.Outdated(s.Leg, s.ID, q.epoch); got != q.want {
			t.Errorf("epoch %d outdated: %v", q.epoch, got)
		}
	}
	if r.Outdated(s.Leg, IDOf("http://nobody"), 1) {
		t.Error("nobody is outdated")
	}
	rec(s, 2, 20, Process{ID: 2, BootstrapPort: 9001})
	if port(s) != 9001 {
		t.Errorf("the new process is met at %d", port(s))
	}
	if !r.Outdated(s.Leg, s.ID, 10) || r.Outdated(s.Leg, s.ID, 20) {
		t.Error("the former process is not outdated")
	}
	if got := f.Load(s.ID).Credit(); got != 0 {
		t.Errorf("credit %d of the former process", got)
	}
	if got := f.Load(fixed.ID).Credit(); got != 100 {
		t.Errorf("credit %d of a worker that was not restarted", got)
	}
	r.Put(s) // as its registrar stores it again
	if port(s) != 9001 {
		t.Errorf("stored again it is met at %d", port(s))
	}
	again := s.Clone()
	again.RegisteredAt, again.BootstrapPort = s.RegisteredAt.Add(time.Second), 9005
	r.Put(again)
	if port(s) != 9005 {
		t.Errorf("registered again it is met at %d", port(s))
	}
	r.Install(Record{Worker: s.ID, Epoch: 30, Term: 9, Keeper: 1, Seq: 3, Status: NotReady})
	if !r.Outdated(s.Leg, s.ID, 20) {
		t.Error("the former process of a worker that is not ready is not outdated")
	}
}
