package worker

import (
	"slices"
	"testing"
	"time"
)

func beatOf(id ReplicaID) ReplicaBeat { return ReplicaBeat{Replica: id, Ready: true} }

func TestRankingMembership(t *testing.T) {
	r := NewRanking()
	if _, ok := r.First(1); ok {
		t.Fatal("nobody is first")
	}
	steps := []struct {
		name    string
		do      func() bool
		changed bool
		want    int
	}{
		{"a beat that is not ready", func() bool { return r.Apply(ReplicaBeat{Replica: 1}, at(0)) }, false, 0},
		{"one ready beat is enough", func() bool { return r.Apply(beatOf(1), at(0)) }, true, 1},
		{"the next changes nothing", func() bool { return r.Apply(beatOf(1), at(0)) }, false, 1},
		{"a second replica", func() bool { return r.Apply(beatOf(2), at(time.Second)) }, true, 2},
		{"a third", func() bool { return r.Apply(beatOf(3), at(time.Second)) }, true, 3},
		{"draining", func() bool { return r.Apply(ReplicaBeat{Replica: 3, Ready: true, Draining: true}, at(time.Second)) }, true, 2},
		{"silent for just as long as allowed", func() bool { return r.Tick(at(ReplicaSilent), false) }, false, 2},
		{"a late loop restarts the timers", func() bool { return r.Tick(at(10*time.Second), true) }, false, 2},
		{"so nobody leaves at once", func() bool { return r.Tick(at(12*time.Second), false) }, false, 2},
		{"a reconnect restarts them too", func() bool { r.Reconnected(at(20 * time.Second)); return false }, false, 2},
		{"one beats", func() bool { return r.Apply(beatOf(2), at(22*time.Second)) }, false, 2},
		{"the other is silent", func() bool { return r.Tick(at(24*time.Second), false) }, true, 1},
		{"not ready any more", func() bool { return r.Apply(ReplicaBeat{Replica: 2}, at(24*time.Second)) }, true, 0},
	}
	for _, s := range steps {
		if changed := s.do(); changed != s.changed || r.Len() != s.want {
			t.Fatalf("%s: changed %v, %d replicas; want %v, %d", s.name, changed, r.Len(), s.changed, s.want)
		}
	}
}

func TestRankingOrder(t *testing.T) {
	a, b := NewRanking(), NewRanking()
	ids := []ReplicaID{11, 22, 33, 44}
	for i := range ids {
		a.Apply(beatOf(ids[i]), at(0))
		b.Apply(beatOf(ids[len(ids)-1-i]), at(0))
	}
	first := map[ReplicaID]int{}
	moved := 0
	less := NewRanking()
	for _, id := range ids[1:] {
		less.Apply(beatOf(id), at(0))
	}
	for key := range uint64(4000) {
		order := a.Rank(key, nil)
		if !slices.Equal(order, b.Rank(key, nil)) {
			t.Fatalf("key %d: two views rank differently", key)
		}
		f, _ := a.First(key)
		if f != order[0] {
			t.Fatalf("key %d: first %d, rank %v", key, f, order)
		}
		first[f]++
		if g, _ := less.First(key); g != f {
			moved++
			if f != ids[0] {
				t.Fatalf("key %d moved from %d, which stayed", key, f)
			}
		}
	}
	for id, n := range first {
		if n < 850 || n > 1150 {
			t.Errorf("replica %d is first for %d of 4000 keys", id, n)
		}
	}
	if moved != first[ids[0]] {
		t.Errorf("%d keys moved, want %d", moved, first[ids[0]])
	}
	if got := a.Rank(1, []ReplicaID{7}); len(got) != 5 || got[0] != 7 {
		t.Errorf("Rank does not append: %v", got)
	}
	if PoolKey(Prefill, "m") == PoolKey(Decode, "m") || WorkerKey(IDOf("http://a")) == WorkerKey(IDOf("http://b")) {
		t.Error("keys collide")
	}
	buf := make([]ReplicaID, 0, 8)
	if n := testing.AllocsPerRun(100, func() { a.First(9); buf = a.Rank(9, buf[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestExclusion(t *testing.T) {
	x := NewExclusion()
	out := func(sent, now time.Duration, want bool) {
		t.Helper()
		if got := x.TimedOut(1, at(sent), at(now)); got != want {
			t.Fatalf("time-out of a select of %v at %v excludes: %v, want %v", sent, now, got, want)
		}
	}
	excluded := func(now time.Duration, want bool) {
		t.Helper()
		if got := x.Excluded(1, at(now)); got != want {
			t.Fatalf("excluded at %v: %v, want %v", now, got, want)
		}
	}
	out(0, 200*ms, false)
	x.Answered(1)
	out(100*ms, 300*ms, false) // the streak began anew
	excluded(300*ms, false)
	out(110*ms, 310*ms, true)
	excluded(1309*ms, true)
	excluded(1310*ms, false)
	out(120*ms, 320*ms, false) // sent before the exclusion
	out(130*ms, 330*ms, false)
	for _, back := range []time.Duration{2 * time.Second, 4 * time.Second, 4 * time.Second} {
		sent := x.replicas[1].until.Sub(harnessStart)
		out(sent, sent+200*ms, false)
		out(sent, sent+201*ms, true)
		excluded(sent+201*ms+back-1, true)
		excluded(sent+201*ms+back, false)
	}
	x.Forget(1)
	if len(x.replicas) != 0 {
		t.Fatal("a forgotten replica is kept")
	}
}

func TestReadiness(t *testing.T) {
	type step struct {
		at       time.Duration
		do       string
		complete bool
		want     bool
	}
	cases := []struct {
		name   string
		settle time.Duration
		steps  []step
	}{
		{"after the settle time, when complete", Settle, []step{{at: 0}, {0, "connect", false, false}, {time.Second, "", true, false}, {Settle, "", true, true}}},
		{"incomplete after the limit", Settle, []step{{0, "connect", false, false}, {4 * time.Second, "", false, false}, {SettleLimit, "", false, true}}},
		{"at once on a private bus", 0, []step{{0, "connect", true, true}}},
		{"never without a connection", Settle, []step{{9 * time.Second, "", true, false}}},
		{"lost before ready: from the start", Settle, []step{{0, "connect", false, false}, {time.Second, "lose", true, false}, {2 * time.Second, "connect", true, false}, {3 * time.Second, "", true, false}, {2*time.Second + Settle, "", true, true}}},
		{"a reconnect leaves it ready", Settle, []step{{0, "connect", false, false}, {2 * time.Second, "", true, true}, {3 * time.Second, "lose", false, true}, {4 * time.Second, "connect", false, true}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := NewReadiness(c.settle)
			for i, s := range c.steps {
				switch s.do {
				case "connect":
					r.Connected(at(s.at))
				case "lose":
					r.Disconnected()
				}
				if got := r.Tick(at(s.at), s.complete); got != s.want || r.Ready() != s.want {
					t.Fatalf("step %d at %v: ready %v, want %v", i, s.at, got, s.want)
				}
			}
		})
	}
}

func TestLoopLate(t *testing.T) {
	var l Loop
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{0, false}, {250 * ms, false}, {1500 * ms, false}, {2751 * ms, true}, {3000 * ms, false}} {
		if got := l.Late(at(c.at), 250*ms); got != c.want {
			t.Errorf("round at %v: late %v, want %v", c.at, got, c.want)
		}
	}
}

func BenchmarkRankingFirst(b *testing.B) {
	r := NewRanking()
	for i := range 3 {
		r.Apply(beatOf(ReplicaID(i)), at(0))
	}
	b.ReportAllocs()
	for b.Loop() {
		r.First(42)
	}
}
