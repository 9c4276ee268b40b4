package worker

import (
	"strings"
	"testing"
	"time"
)

func TestKeeperConfigValidate(t *testing.T) {
	if err := DefaultKeeperConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := KeeperConfig{}.Validate()
	for _, f := range []string{
		"--cb-failure-threshold", "--cb-success-threshold", "--cb-timeout-duration-secs", "--cb-window-duration-secs",
		"--health-check-interval-secs", "--health-check-timeout-secs", "--health-failure-threshold", "--health-success-threshold",
	} {
		if err == nil || !strings.Contains(err.Error(), f) {
			t.Errorf("%s is not named in %v", f, err)
		}
	}
}

// TestHealth runs probe results through the state machine: + is good, - is bad.
func TestHealth(t *testing.T) {
	bad := func(n int) string { return strings.Repeat("-", n) }
	cases := []struct {
		name   string
		probes string
		want   Status
	}{
		{"one good probe makes a pending worker ready", "+", Ready},
		{"after bad ones too", bad(29) + "+", Ready},
		{"ten times the failure threshold", bad(30), Failed},
		{"two failures are not three", "+--", Ready},
		{"three in a row", "+---", NotReady},
		{"a success resets the streak", "+--+--", Ready},
		{"one success is not enough to return", "+---+", NotReady},
		{"two are", "+---++", Ready},
		{"in a row", "+---+-+", NotReady},
		{"nine further failures", "+---" + bad(8), NotReady},
		{"fail it", "+---" + bad(9), Failed},
		{"a failed worker comes back", "+---" + bad(9) + "-++", Ready},
		{"not with one success", "+---" + bad(9) + "+", Failed},
	}
	cfg := DefaultHealthConfig()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var h health
			s := Pending
			for _, p := range c.probes {
				s = h.observe(p == '+', s, &cfg)
			}
			if s != c.want {
				t.Errorf("%s ends %v, want %v", c.probes, s, c.want)
			}
		})
	}
}

func TestCircuit(t *testing.T) {
	type step struct {
		after   time.Duration
		outcome Outcome
		probe   bool
	}
	fail, good, probed := step{0, Failure, false}, step{0, Success, false}, step{0, Success, true}
	times := func(n int, s step) (out []step) {
		for range n {
			out = append(out, s)
		}
		return out
	}
	join := func(parts ...[]step) (out []step) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	wait := []step{{time.Minute, Neutral, false}}
	cases := []struct {
		name     string
		steps    []step
		disabled bool
		want     Breaker
	}{
		{"nine failures", times(9, fail), false, Closed},
		{"ten", times(10, fail), false, Open},
		{"ten, disabled", times(10, fail), true, Closed},
		{"a success between", join(times(9, fail), times(1, good), times(9, fail)), false, Closed},
		{"nothing recorded between", join(times(9, fail), times(5, step{0, Neutral, false}), times(1, fail)), false, Open},
		{"older than the window", join(times(1, fail), []step{{2 * time.Minute, Neutral, false}}, times(9, fail)), false, Closed},
		{"just inside it", join(times(1, fail), []step{{2*time.Minute - 1, Neutral, false}}, times(9, fail)), false, Open},
		{"a success while open", join(times(10, fail), times(3, probed)), false, Open},
		{"half open after the timeout", join(times(10, fail), wait), false, HalfOpen},
		{"not before", join(times(10, fail), []step{{time.Minute - 1, Neutral, false}}), false, Open},
		{"a failure opens it again", join(times(10, fail), wait, times(2, probed), times(1, fail)), false, Open},
		{"and the timer restarts", join(times(10, fail), wait, times(1, fail), []step{{time.Minute - 1, Neutral, false}}), false, Open},
		{"two probes", join(times(10, fail), wait, times(2, probed)), false, HalfOpen},
		{"three close it", join(times(10, fail), wait, times(3, probed)), false, Closed},
		{"old calls do not", join(times(10, fail), wait, times(9, good)), false, HalfOpen},
		{"it starts anew", join(times(10, fail), wait, times(3, probed), times(9, fail)), false, Closed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultBreakerConfig()
			cfg.Disabled = c.disabled
			var b circuit
			now := at(0)
			for _, s := range c.steps {
				now = now.Add(s.after)
				b.tick(&cfg, now)
				b.observe(Event{Outcome: s.outcome, Probe: s.probe}, &cfg, now)
			}
			if b.state != c.want {
				t.Errorf("%v, want %v", b.state, c.want)
			}
		})
	}
}

func newTestKeeper(self ReplicaID) (*Keeper, ID) {
	id := IDOf("http://a")
	return NewKeeper(id, self, DefaultKeeperConfig()), id
}

func TestKeeperLife(t *testing.T) {
	k, id := newTestKeeper(5)
	if _, publish := k.Tick(false, at(0)); publish || k.Active() {
		t.Fatal("it keeps a worker that is another's")
	}
	rec, publish := k.Tick(true, at(0))
	want := Record{Worker: id, Epoch: uint64(at(0).UnixMilli()), Term: 1, Keeper: 5, Seq: 1, BreakerSince: at(0)}
	if !publish || !k.Active() || rec != want {
		t.Fatalf("takeover: %+v, %v", rec, publish)
	}
	epoch, due := k.ProbeDue(at(0))
	if !due || epoch != rec.Epoch {
		t.Fatal("the first probe is due at once")
	}
	if _, due := k.ProbeDue(at(59 * time.Second)); due {
		t.Fatal("the next one before the interval")
	}
	if rec, publish = k.Probe(epoch, true, at(ms)); !publish || rec.Status != Ready || rec.Seq != 2 {
		t.Fatalf("a good probe: %+v, %v", rec, publish)
	}
	if _, publish = k.Probe(epoch, true, at(ms)); publish {
		t.Fatal("nothing changed, but it publishes")
	}
	if _, publish = k.Tick(true, at(2*time.Second)); publish {
		t.Fatal("repeated too early")
	}
	if rec, publish = k.Tick(true, at(ms+RecordRepeat)); !publish || rec.Seq != 3 {
		t.Fatal("not repeated")
	}
	for range 10 {
		rec, publish = k.Outcome(Event{Worker: id, Outcome: Failure}, at(4*time.Second))
	}
	if !publish || rec.Breaker != Open || !rec.BreakerSince.Equal(at(4*time.Second)) || rec.Available() {
		t.Fatalf("ten failures: %+v, %v", rec, publish)
	}
	if rec, publish = k.Tick(true, at(64*time.Second)); !publish || rec.Breaker != HalfOpen {
		t.Fatalf("after the timeout: %+v", rec)
	}
	if _, publish = k.Outcome(Event{Worker: IDOf("http://b"), Outcome: Failure}, at(64*time.Second)); publish {
		t.Fatal("another worker's outcome counts")
	}
	if rec, publish = k.Drain(at(65 * time.Second)); !publish || rec.Status != Draining {
		t.Fatal("not draining")
	}
	if _, due := k.ProbeDue(at(time.Hour)); due {
		t.Fatal("a draining worker is probed")
	}
}

func TestKeeperReports(t *testing.T) {
	k, _ := newTestKeeper(5)
	k.Tick(true, at(0))
	rep := func(d time.Duration) *Report { return &Report{PolledAt: at(d)} }
	if _, publish := k.Report(rep(0), true, at(0)); publish {
		t.Fatal("a pending worker reports")
	}
	k.Probe(k.Record().Epoch, true, at(0))
	rec, _ := k.Report(rep(time.Second), true, at(2*time.Second))
	if !rec.Overloaded || rec.Report == nil {
		t.Fatalf("reported: %+v", rec)
	}
	if _, publish := k.Report(rep(500*ms), false, at(2*time.Second)); publish {
		t.Fatal("a report polled earlier is taken")
	}
	rec, publish := k.Report(nil, true, at(3*time.Second))
	if !publish || rec.Report != nil || rec.Overloaded {
		t.Fatalf("after a failed poll: %+v", rec)
	}
	if _, publish = k.Report(nil, false, at(3*time.Second)); publish {
		t.Fatal("nothing changed, but it publishes")
	}
	k.Report(rep(4*time.Second), true, at(4*time.Second))
	for range 3 {
		rec, _ = k.Probe(rec.Epoch, false, at(5*time.Second))
	}
	if rec.Status != NotReady || rec.Report != nil || rec.Overloaded {
		t.Fatalf("not ready any more: %+v", rec)
	}
}

func TestKeeperTakeover(t *testing.T) {
	a, id := newTestKeeper(5)
	b := NewKeeper(id, 6, DefaultKeeperConfig())
	rec, _ := a.Tick(true, at(0))
	rec, _ = a.Probe(rec.Epoch, true, at(0))
	for range 9 {
		a.Outcome(Event{Worker: id, Outcome: Failure}, at(0))
	}
	if _, answer := b.Hear(rec); answer || b.Record() != rec {
		t.Fatal("a higher record is not held")
	}
	next, publish := b.Tick(true, at(time.Second))
	if !publish || next.Term != 2 || next.Seq != 1 || next.Status != Ready || next.Epoch != rec.Epoch || !next.BreakerSince.Equal(rec.BreakerSince) {
		t.Fatalf("takeover: %+v", next)
	}
	if next, _ = b.Outcome(Event{Worker: id, Outcome: Failure}, at(time.Second)); next.Breaker != Closed {
		t.Fatal("the streak was inherited")
	}
	if held, answer := b.Hear(rec); !answer || held.Term != 2 {
		t.Fatal("the former keeper is not answered")
	}
	if a.Hear(next); a.Active() {
		t.Fatal("two keepers")
	}
	back, publish := a.Tick(true, at(2*time.Second)) // it still ranks itself first
	if !publish || back.Term != 3 || back.Keeper != 5 {
		t.Fatalf("taken back: %+v", back)
	}
	if _, publish = a.Tick(false, at(3*time.Second)); publish || a.Active() {
		t.Fatal("it goes on although another comes first")
	}
	for _, do := range []func() bool{
		func() bool { _, p := a.Probe(back.Epoch, false, at(0)); return p },
		func() bool { _, p := a.Outcome(Event{Worker: id, Outcome: Failure}, at(0)); return p },
		func() bool { _, p := a.Report(&Report{}, false, at(0)); return p },
		func() bool { _, p := a.Drain(at(0)); return p },
		func() bool { _, p := a.Replaced(at(0)); return p },
		func() bool { _, due := a.ProbeDue(at(time.Hour)); return due },
	} {
		if do() {
			t.Fatal("a keeper that stopped writes")
		}
	}
}

func TestKeeperEpochs(t *testing.T) {
	k, _ := newTestKeeper(5)
	k.Tick(true, at(0))
	rec, _ := k.Probe(k.Record().Epoch, true, at(0))
	for _, want := range []struct {
		now   time.Time
		epoch uint64
	}{
		{at(0), rec.Epoch + 1}, // in the same millisecond
		{at(time.Second), uint64(at(time.Second).UnixMilli())},
		{at(-time.Hour), uint64(at(time.Second).UnixMilli()) + 1}, // the clock was set back
	} {
		old := k.Record().Epoch
		got, publish := k.Replaced(want.now)
		if !publish || got.Epoch != want.epoch || got.Status != Pending {
			t.Fatalf("at %v: %+v, want epoch %d", want.now, got, want.epoch)
		}
		if _, publish = k.Probe(old, true, want.now); publish {
			t.Fatal("a probe of the former process counts")
		}
	}
}

func TestKeeperWithoutChecks(t *testing.T) {
	cfg := DefaultKeeperConfig()
	cfg.Health.Disabled, cfg.Breaker.Disabled = true, true
	id := IDOf("http://a")
	k := NewKeeper(id, 5, cfg)
	k.Hear(Record{Worker: id, Term: 3, Keeper: 4, Status: Failed, Breaker: Open, BreakerSince: at(0), Epoch: 9})
	rec, publish := k.Tick(true, at(0))
	if !publish || rec.Status != Ready || rec.Breaker != Closed || rec.Term != 4 {
		t.Fatalf("disabled checks: %+v", rec)
	}
	if _, due := k.ProbeDue(at(time.Hour)); due {
		t.Fatal("it is probed")
	}
	if _, publish = k.Probe(rec.Epoch, false, at(0)); publish {
		t.Fatal("a probe counts")
	}
	if rec, _ = k.Replaced(at(0)); rec.Status != Ready {
		t.Fatalf("replaced: %v", rec.Status)
	}
	if rec, _ = k.Drain(at(0)); rec.Status != Draining {
		t.Fatal("not draining")
	}
	if rec, _ = k.Tick(true, at(time.Minute)); rec.Status != Draining {
		t.Fatal("draining is undone")
	}
}
