package legs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/bus"
	"smg/bus/bustest"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// TestGateway holds the numbered cases of the gateway's specification about when
// workers are polled.
func TestGateway(t *testing.T) {
	t.Run("39_overload", vetoedByReport)
	t.Run("54_first_poll_and_interval", polledAtItsInterval)
	t.Run("55_polled_on_demand", polledOnDemand)
	t.Run("57_engine_gauges", engineGaugesFollow)
	t.Run("58_kv_events", eventsFollowed)
}

func polledAtItsInterval(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.pass(1234 * time.Millisecond) // between two ticks
		added := time.Now()
		s.come(a)
		s.pass(time.Minute)
		polls := s.engines.asked(a, added)
		if len(polls) != 7 || polls[0] > 2*gather {
			t.Fatalf("polled at %v, want at once and then every 10 s", polls)
		}
		for i, at := range polls {
			if late := at - time.Duration(i)*10*time.Second; late > tickEvery+2*gather {
				t.Errorf("poll %d at %v", i, at)
			}
		}
	})
	if _, err := New(Config{Keeper: worker.DefaultKeeperConfig()}, Deps{Loads: func(*worker.Spec) LoadSource { return nil }}); err == nil {
		t.Error("an interval of 0 is taken")
	}
}

// A worker is polled by who keeps it, and at once by who takes it over.
func TestPollsFollowTheKeeper(t *testing.T) {
	const other = worker.ReplicaID(99)
	inTime(t, nil, func(t *testing.T, s *site) {
		beat := func(ready bool) { s.onBeat(&wire.Beat{Replica: other, Ready: ready}) }
		beat(true)
		var mine, others []*worker.Spec
		for i := range 20 {
			w := spec(i, "m")
			if s.first(worker.WorkerKey(w.ID)) {
				mine = append(mine, w)
			} else {
				others = append(others, w)
			}
			s.registry.Install(worker.Record{Worker: w.ID, Epoch: uint64(s.begun.UnixMilli()), Term: 1, Keeper: other, Seq: 1, Status: worker.Ready})
		}
		s.come(append(mine, others...)...)
		for range 25 {
			beat(true)
			s.pass(time.Second)
		}
		for _, w := range mine {
			if n := len(s.engines.asked(w, s.begun)); n != 3 {
				t.Errorf("an own worker was polled %d times in 25 s, want 3", n)
			}
		}
		for _, w := range others {
			if n := len(s.engines.asked(w, s.begun)); n != 0 {
				t.Errorf("another's worker was polled %d times", n)
			}
		}
		left := time.Now()
		beat(false)
		s.pass(time.Second)
		for _, w := range others {
			if polls := s.engines.asked(w, left); len(polls) != 1 || polls[0] > 2*gather {
				t.Errorf("after the takeover: polled at %v, want at once", polls)
			}
			if !s.reported(t, w) {
				t.Error("after the takeover: no report")
			}
		}
	})
}

// W-25: a worker of many models was polled once for each.
func TestWorkerOfManyModelsIsPolledOnce(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a := spec(1, "m0")
		for i := range 9 {
			a.Models = append(a.Models, worker.Model{ID: fmt.Sprintf("m%d", i)}) // m0 twice
		}
		s.come(a, spec(2, "m3"))
		s.pass(9 * time.Second)
		if polls := s.engines.asked(a, s.begun); len(polls) != 1 {
			t.Errorf("polled at %v, want once", polls)
		}
	})
}

func TestSchedule(t *testing.T) {
	const fleet = 10 * time.Second
	own := func(w *worker.Spec, every time.Duration) *worker.Spec {
		w.LoadInterval = every
		return w
	}
	limited := func(w *worker.Spec) *worker.Spec {
		w.Overload.Waiting = 5
		return w
	}
	grpc := own(spec(3, "m"), 2*time.Second)
	grpc.Mode = worker.GRPC
	both := spec(4, "m")
	both.Models = append(both.Models, worker.Model{ID: "n"})
	tests := []struct {
		name    string
		cfg     LoadConfig
		reads   string // the model whose policy reads loads
		workers []*worker.Spec
		want    map[int]time.Duration // by index of spec
	}{
		{"nobody", LoadConfig{Interval: fleet}, "", nil, map[int]time.Duration{}},
		{"as the fleet", LoadConfig{Interval: fleet}, "", []*worker.Spec{spec(1, "m"), spec(2, "")}, map[int]time.Duration{1: fleet, 2: fleet}},
		{
			"the shortest of a group",
			LoadConfig{Interval: fleet},
			"",
			[]*worker.Spec{own(spec(1, "m"), 4*time.Second), spec(2, "m"), own(spec(3, "m"), time.Minute), spec(4, "n")},
			map[int]time.Duration{1: 4 * time.Second, 2: 4 * time.Second, 3: 4 * time.Second, 4: fleet},
		},
		{"longer than the fleet, alone", LoadConfig{Interval: fleet}, "", []*worker.Spec{own(spec(1, "m"), time.Minute)}, map[int]time.Duration{1: time.Minute}},
		{"a second at least", LoadConfig{Interval: fleet}, "", []*worker.Spec{own(spec(1, "m"), time.Millisecond)}, map[int]time.Duration{1: time.Second}},
		{"modes apart", LoadConfig{Interval: fleet}, "", []*worker.Spec{spec(1, "m"), grpc}, map[int]time.Duration{1: fleet, 3: 2 * time.Second}},
		{
			"of two groups",
			LoadConfig{Interval: fleet},
			"",
			[]*worker.Spec{own(spec(1, "n"), 2*time.Second), spec(2, "m"), both},
			map[int]time.Duration{1: 2 * time.Second, 2: fleet, 4: 2 * time.Second},
		},
		{"no demand", LoadConfig{Interval: fleet, OnDemand: true}, "", []*worker.Spec{spec(1, "m")}, map[int]time.Duration{}},
		{"of a policy", LoadConfig{Interval: fleet, OnDemand: true}, "m", []*worker.Spec{spec(1, "m"), spec(2, "n"), both}, map[int]time.Duration{1: fleet, 4: fleet}},
		{"of metrics", LoadConfig{Interval: fleet, OnDemand: true, Export: true}, "", []*worker.Spec{spec(1, "m")}, map[int]time.Duration{1: fleet}},
		{"of the fleet's limits", LoadConfig{Interval: fleet, OnDemand: true, Overload: worker.OverloadLimits{TokenUsage: 0.9}}, "", []*worker.Spec{spec(1, "m")}, map[int]time.Duration{1: fleet}},
		{
			"of a member's limits",
			LoadConfig{Interval: fleet, OnDemand: true},
			"",
			[]*worker.Spec{limited(spec(1, "m")), spec(2, "m"), spec(3, "n")},
			map[int]time.Duration{1: fleet, 2: fleet},
		},
		{"a group without demand does not hurry", LoadConfig{Interval: fleet, OnDemand: true}, "m", []*worker.Spec{own(spec(1, "n"), time.Second), both}, map[int]time.Duration{4: fleet}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reads := func(model string) bool { return tt.reads != "" && model == tt.reads }
			all, got := tt.cfg.rhythms(tt.workers, reads), map[worker.ID]time.Duration{}
			for _, w := range tt.workers {
				if every := all.every(w); every > 0 {
					got[w.ID] = every
				}
			}
			want := map[worker.ID]time.Duration{}
			for i, every := range tt.want {
				want[spec(i, "").ID] = every
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("intervals (-want +got):\n%s", diff)
			}
			// One who joins changes nothing for others, or says so.
			for i, w := range tt.workers {
				some := tt.cfg.rhythms(tt.workers[:i], reads)
				before := map[worker.ID]time.Duration{}
				for _, o := range tt.workers[:i] {
					before[o.ID] = some.every(o)
				}
				same := some.add(&tt.cfg, w, reads)
				if got, want := some.every(w), tt.cfg.rhythms(tt.workers[:i+1], reads).every(w); got != want {
					t.Errorf("worker %d joins at %s, want %s", i, got, want)
				}
				for _, o := range tt.workers[:i] {
					if same && some.every(o) != before[o.ID] {
						t.Errorf("worker %d changes others without saying so", i)
					}
				}
			}
		})
	}
}

// polledOnDemand is LR-5, LR-11 and the table of case 55.
func polledOnDemand(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		spec   func(*worker.Spec)
		want   bool
	}{
		{name: "round_robin", change: func(c *Config) { c.Loads.OnDemand = true }},
		{name: "passthrough", change: func(c *Config) { c.Loads.OnDemand, c.Policy.Policy = true, policy.Passthrough }},
		{name: "passthrough without the flag", change: func(c *Config) { c.Policy.Policy = policy.Passthrough }, want: true},
		{name: "cache_aware", change: func(c *Config) { c.Loads.OnDemand, c.Policy.Policy = true, policy.CacheAware }, want: true},
		{name: "least_load", change: func(c *Config) { c.Loads.OnDemand, c.Policy.Policy = true, policy.LeastLoad }, want: true},
		{
			name: "a label of least_load", change: func(c *Config) { c.Loads.OnDemand = true },
			spec: func(s *worker.Spec) { s.Labels = map[string]string{"policy": "least_load"} }, want: true,
		},
		{name: "engine metrics", change: func(c *Config) { c.Loads.OnDemand, c.Loads.Export = true, true }, want: true},
		{name: "LR-11 overload limits", change: func(c *Config) { c.Loads.OnDemand, c.Loads.Overload.Waiting = true, 5 }, want: true},
		{
			name: "LR-11 a worker's own", change: func(c *Config) { c.Loads.OnDemand = true },
			spec: func(s *worker.Spec) { s.Overload.TokenUsage = 0.5 }, want: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inTime(t, tt.change, func(t *testing.T, s *site) {
				a := spec(1, "m")
				if tt.spec != nil {
					tt.spec(a)
				}
				s.come(a)
				s.pass(time.Minute)
				if polls := s.engines.asked(a, s.begun); (len(polls) > 0) != tt.want {
					t.Errorf("polled at %v, want any: %v", polls, tt.want)
				}
			})
		})
	}
}

// sourceOfAStay is the memo of LR-1: what a source has learned of a worker's routes
// is kept from poll to poll, and forgotten with the stay.
func sourceOfAStay(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.come(a)
		s.pass(time.Minute)
		if n := s.engines.made(a); n != 1 || len(s.engines.asked(a, s.begun)) < 5 {
			t.Fatalf("%d sources for one stay", n)
		}
		s.ill(a)
		s.well(a)
		if n := s.engines.made(a); n != 2 {
			t.Errorf("back to ready: %d sources", n)
		}
		again := spec(1, "m")
		again.RegisteredAt = again.RegisteredAt.Add(time.Hour)
		s.come(again)
		s.pass(time.Second)
		if n := s.engines.made(a); n != 3 {
			t.Errorf("replaced: %d sources", n)
		}
		s.remove(a.ID)
		s.come(a)
		s.pass(time.Second)
		if n := s.engines.made(a); n != 4 {
			t.Errorf("removed and registered again: %d sources", n)
		}
	})
}

func unreportedIsEligible(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.engines.fails(a, "no KV gauge")
		s.come(a)
		s.pass(30 * time.Second)
		if s.reported(t, a) {
			t.Error("a failed poll has reported")
		}
		if _, err := s.pick(1, "m"); err != nil {
			t.Errorf("a worker without a report is not eligible: %v", err)
		}
		s.engines.fails(a, "connection refused")
		s.pass(30 * time.Second)
		s.engines.says(a, 1, 0.5)
		s.pass(10 * time.Second)
		if !s.reported(t, a) {
			t.Error("a good poll has not reported")
		}
		s.engines.fails(a, "no KV gauge")
		s.pass(20 * time.Second)
		if s.reported(t, a) {
			t.Error("a failed poll leaves the report before it")
		}
		// One line each time the reason changes, however often it fails.
		if lines := s.log.lines("load poll failed"); len(lines) != 3 {
			t.Errorf("lines of failed polls: %q", lines)
		}
	})
}

func leavesTheReady(t *testing.T) {
	inTime(t, func(c *Config) { c.Loads.Overload.Waiting = 5 }, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.engines.says(a, 7, 0.5)
		s.come(a)
		if rec := s.record(t, a); !rec.Overloaded || rec.Report == nil {
			t.Fatalf("after the first poll: %+v", rec)
		}
		s.ill(a)
		if rec := s.record(t, a); rec.Status != worker.NotReady || rec.Overloaded || rec.Report != nil {
			t.Errorf("not ready: %+v", rec)
		}
		left := time.Now()
		s.pass(time.Minute)
		if polls := s.engines.asked(a, left); len(polls) > 0 {
			t.Errorf("polled at %v while it was not ready", polls)
		}
		s.well(a)
		if rec := s.record(t, a); !rec.Overloaded || rec.Report == nil {
			t.Errorf("back to ready: %+v", rec)
		}
	})
}

func groupsComeAndGo(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a, b := spec(1, "m"), spec(2, "n")
		s.come(a)
		s.remove(a.ID)
		gone := time.Now()
		s.pass(time.Minute)
		if polls := s.engines.asked(a, gone); len(polls) > 0 {
			t.Errorf("polled at %v, although it is gone", polls)
		}
		come := time.Now()
		s.come(b)
		if polls := s.engines.asked(b, come); len(polls) != 1 || polls[0] > 2*gather {
			t.Errorf("a new model's worker was polled at %v, want at once", polls)
		}
	})
}

// vetoedByReport is overload protection as one leg's selector sees it.
func vetoedByReport(t *testing.T) {
	inTime(t, func(c *Config) { c.Loads.Overload = worker.OverloadLimits{Waiting: 5} }, func(t *testing.T, s *site) {
		a, b := spec(1, "m"), spec(2, "m")
		s.engines.says(a, 5, 0)
		s.engines.says(b, 4, 0)
		s.come(a, b)
		only := func(want *worker.Spec) {
			t.Helper()
			for plan := range uint64(4) {
				pick, err := s.pick(100+plan, "m")
				if err != nil {
					t.Fatal(err)
				}
				if pick.Worker.ID != want.ID {
					t.Fatalf("got %s, which is overloaded", pick.Worker.URL)
				}
			}
		}
		only(b)
		s.engines.says(b, 9, 0)
		s.pass(11 * time.Second)
		if _, err := s.pick(1, "m"); !errors.Is(err, worker.ErrOverloaded) {
			t.Errorf("all overloaded: %v, want %v", err, worker.ErrOverloaded)
		}
		s.engines.says(a, 4, 0)
		s.pass(11 * time.Second)
		only(a)
		s.engines.says(a, 5, 0)
		s.engines.fails(b, "no answer") // fails open
		s.pass(11 * time.Second)
		only(b)
		if lines := s.log.lines("worker is overloaded"); len(lines) != 3 {
			t.Errorf("lines of vetoes: %q", lines)
		}
		if lines := s.log.lines("not overloaded any more"); len(lines) != 2 {
			t.Errorf("lines of their ends: %q", lines)
		}
		// One overloaded and one that is not ready are no shed.
		s.ill(b)
		if _, err := s.pick(2, "m"); !errors.Is(err, worker.ErrUnavailable) {
			t.Errorf("mixed reasons: %v, want %v", err, worker.ErrUnavailable)
		}
	})
}

func TestOwnLimitsDecide(t *testing.T) {
	inTime(t, func(c *Config) { c.Loads.Overload = worker.OverloadLimits{Waiting: 5, TokenUsage: 0.9} }, func(t *testing.T, s *site) {
		a, b := spec(1, "m"), spec(2, "m")
		a.Overload.Waiting = 20
		s.engines.says(a, 19, 0.9)
		s.engines.says(b, 19, 0)
		s.come(a, b)
		if !s.record(t, a).Overloaded {
			t.Error("the fleet's limit does not hold where a worker has none of its own")
		}
		s.engines.says(a, 19, 0.5)
		s.pass(11 * time.Second)
		if s.record(t, a).Overloaded || !s.record(t, b).Overloaded {
			t.Error("a worker's own limit does not replace the fleet's")
		}
	})
}

// What nobody polls any more has no veto for ever.
func TestNoLongerPolled(t *testing.T) {
	inTime(t, func(c *Config) { c.Loads.OnDemand = true }, func(t *testing.T, s *site) {
		a, b := spec(1, "m"), spec(2, "m")
		a.Overload.Waiting = 5
		b.Labels = map[string]string{"policy": "least_load"}
		s.engines.says(a, 5, 0)
		s.come(a, b)
		if !s.record(t, a).Overloaded || !s.reported(t, b) {
			t.Fatal("not polled")
		}
		again := spec(1, "m") // the same registration, its limits taken back
		s.come(again)
		s.pass(time.Second)
		if rec := s.record(t, a); rec.Overloaded || rec.Report != nil || s.reported(t, b) {
			t.Errorf("after the demand: %+v", rec)
		}
		s.pass(time.Minute)
		if n := len(s.engines.asked(a, s.begun)); n != 1 {
			t.Errorf("polled %d times, want once", n)
		}
	})
}

// Workers that do not answer delay nobody but themselves.
func TestSlowWorkersDelayNobody(t *testing.T) {
	inTime(t, func(c *Config) { c.Loads.Interval = 2 * time.Second }, func(t *testing.T, s *site) {
		var all []*worker.Spec
		for i := range 2 * maxPolls {
			w := spec(i, "m")
			s.engines.hangs(w, 10*time.Second)
			all = append(all, w)
		}
		s.add(all...)
		s.pass(30 * time.Second)
		quick := spec(10_000, "m")
		come := time.Now()
		s.come(quick)
		s.pass(20 * time.Second)
		polls := s.engines.asked(quick, come)
		if len(polls) < 10 {
			t.Errorf("polled at %v, want every 2 s", polls)
		}
		for i := 1; i < len(polls); i++ {
			if gap := polls[i] - polls[i-1]; gap > 2*time.Second+tickEvery+2*patience {
				t.Errorf("%v between two polls", gap)
			}
		}
		if n := len(s.engines.asked(all[0], s.begun)); n > 6 {
			t.Errorf("a worker that takes 10 s was asked %d times in 50 s", n)
		}
	})
}

func TestPollsAreBounded(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		var all []*worker.Spec
		for i := range maxPolls + maxSlowPolls + 500 {
			w := spec(i, "m")
			s.engines.hangs(w, time.Minute)
			all = append(all, w)
		}
		s.add(all...)
		s.pass(40 * time.Second)
		if n := s.engines.under; n != maxPolls+maxSlowPolls {
			t.Errorf("%d polls are under way, want %d", n, maxPolls+maxSlowPolls)
		}
	})
}

// What is learned of a worker after its removal is nothing.
func TestPollOutlivesItsWorker(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.engines.does(a, func(ctx context.Context) (Loads, error) {
			pause(ctx, 5*time.Second)
			return Loads{Sums: worker.Report{Waiting: 3}}, nil
		})
		s.come(a)
		s.remove(a.ID)
		s.pass(10 * time.Second)
		if rec, ok := s.registry.Record(a.ID); ok {
			t.Errorf("kept of a removed worker: %+v", rec)
		}
		s.come(a)
		s.remove(a.ID) // and back, while the poll is under way
		s.engines.says(a, 1, 0)
		s.come(a)
		s.pass(9 * time.Second)
		if rec := s.record(t, a); rec.Report == nil || rec.Report.Waiting != 1 {
			t.Errorf("after the return: %+v", rec)
		}
	})
}

// A report that cannot be would spoil the message that carries it.
func TestUnsoundReportIsNone(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.engines.says(a, -1, 0)
		s.come(a)
		if s.reported(t, a) {
			t.Error("minus one request waits")
		}
	})
}

// The reports of many polls that end at about the same time go out together.
func TestReportsGoOutTogether(t *testing.T) {
	const n = 1000
	var messages, records, counted atomic.Int64
	conn := bustest.Start(t)
	sub, err := bus.Subscribe(conn, testCluster(t).State(worker.Regular), func(m *wire.Records) {
		if counted.Load() != 0 {
			messages.Add(1)
			records.Add(int64(len(*m)))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	inTimeOn(t, conn, func(c *Config) { c.Keeper.Health.Interval = time.Hour }, func(t *testing.T, s *site) {
		var all []*worker.Spec
		for i := range n {
			w := spec(i, "m")
			s.engines.does(w, func(ctx context.Context) (Loads, error) {
				pause(ctx, time.Duration(i%20)*time.Millisecond)
				return Loads{Sums: worker.Report{Waiting: int64(i)}}, nil
			})
			all = append(all, w)
		}
		s.add(all...)
		s.pass(4900 * time.Millisecond)
		counted.Store(1)
		s.pass(10 * time.Second)
	})
	bustest.Await(t, "the records", func() bool { return records.Load() >= 3*n })
	if err := sub.Stop(); err != nil {
		t.Error(err)
	}
	if got := messages.Load(); got > 100 {
		t.Errorf("%d messages for %d records", got, records.Load())
	}
}
