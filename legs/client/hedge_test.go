package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/bustest"
	"smg/legs"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// freezer stops whoever asks it for the time, until it thaws.
type freezer struct{ mu sync.RWMutex }

func (f *freezer) now() time.Time {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return time.Now()
}

// selector is one replica of the leg, which can be frozen, and the selects that it was
// sent.
type selector struct {
	*legs.Service
	freezer
	counts *prometheus.Registry

	seen  sync.Mutex
	asked []worker.LeaseID
}

// count is the calls that the replica counts, or -1.
func (s *selector) count() int {
	n, err := counted(s.counts)
	if err != nil {
		return -1
	}
	return n
}

func (s *selector) wasAsked(id worker.LeaseID) int {
	s.seen.Lock()
	defer s.seen.Unlock()
	n := 0
	for _, one := range s.asked {
		if one == id {
			n++
		}
	}
	return n
}

// replicated is a client whose leg has n selector replicas over the bus, and two
// workers.
func replicated(t *testing.T, n int, opts ...option) (*fleet, map[worker.ReplicaID]*selector) {
	t.Helper()
	return replicatedWith(t, n, legs.Rooms{}, opts...)
}

// replicatedWith is replicated with bounds of the workers' rooms.
func replicatedWith(t *testing.T, n int, rooms legs.Rooms, opts ...option) (*fleet, map[worker.ReplicaID]*selector) {
	t.Helper()
	f := start(t, false, append([]option{far}, opts...)...)
	all := map[worker.ReplicaID]*selector{}
	for i := range n {
		id := worker.ReplicaID(100 + i)
		s := &selector{counts: prometheus.NewRegistry()}
		keeper := worker.DefaultKeeperConfig()
		var err error
		s.Service, err = legs.New(legs.Config{
			Cluster: f.cluster, Replica: id, Build: "test", Policy: policy.Config{Policy: policy.RoundRobin}, Keeper: keeper, Endpoint: "/health", Rooms: rooms,
		}, legs.Deps{Bus: f.bus, Prober: wellProber{}, Log: slog.New(slog.DiscardHandler), Registerer: s.counts, Now: s.now})
		if err != nil {
			t.Fatal(err)
		}
		sub, err := bus.Subscribe(f.bus, f.cluster.Select(worker.Regular, id).Topic, func(ask *wire.Select) {
			s.seen.Lock()
			defer s.seen.Unlock()
			s.asked = append(s.asked, ask.Lease)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sub.Stop(); err != nil {
				t.Error(err)
			}
		})
		run(t, s.Run)
		all[id] = s
	}
	bustest.Await(t, "the replicas", func() bool { return f.legs[worker.Regular].ranking.Len() == n })
	f.put(t, 2)
	bustest.Await(t, "the replicas to know the workers", func() bool {
		for _, s := range all {
			id := f.Plan()
			pick, err := s.Select(&wire.Select{Lease: id, Model: "m"})
			if err != nil {
				return false
			}
			f.legs[worker.Regular].writer.Begin(worker.Lease{ID: id, Worker: pick.Worker.ID})
			f.End(id, worker.Neutral, true)
		}
		return true
	})
	f.settled(t, all, 0)
	return f, all
}

// settled waits until every replica counts n calls.
func (f *fleet) settled(t *testing.T, all map[worker.ReplicaID]*selector, n int) {
	t.Helper()
	bustest.Await(t, fmt.Sprintf("every replica to count %d calls", n), func() bool {
		for _, s := range all {
			if s.count() != n {
				return false
			}
		}
		return true
	})
}

// ranked are the replicas in the order in which the pool's are asked.
func (f *fleet) ranked() []worker.ReplicaID {
	return f.legs[worker.Regular].ranking.Rank(worker.PoolKey(worker.Regular, "m"), nil)
}

func patient(c *Config, _ *Deps) { c.PlanTimeout = time.Hour }

// unanswered are the selects that replicas have to answer.
func (f *fleet) unanswered() int {
	f.waiting.mu.Lock()
	defer f.waiting.mu.Unlock()
	return len(f.waiting.asks)
}

// TestAFrozenReplicaIsHedged: another one answers for the same lease, and both count
// it once.
func TestAFrozenReplicaIsHedged(t *testing.T) {
	for n := 2; n <= 3; n++ {
		t.Run(fmt.Sprintf("of %d", n), func(t *testing.T) {
			f, all := replicated(t, n, patient)
			order := f.ranked()
			first, second := all[order[0]], all[order[1]]
			first.mu.Lock()
			thaw := sync.OnceFunc(first.mu.Unlock)
			defer thaw()
			id, pick := f.choose(t, "m")
			if pick.Degraded {
				t.Error("the client chose by itself")
			}
			bustest.Await(t, "both to be asked once", func() bool { return first.wasAsked(id) == 1 && second.wasAsked(id) == 1 })
			for _, other := range order[2:] {
				if all[other].wasAsked(id) > 0 {
					t.Error("a third was asked")
				}
			}
			thaw()
			bustest.Await(t, "the late answer", func() bool { return f.unanswered() == 0 })
			bustest.Await(t, "the start", func() bool { return len(f.entries(id)) == 1 })
			f.settled(t, all, 1)
			f.End(id, worker.Success, false)
			f.settled(t, all, 0)
			if n := len(f.entries(id)); n != 2 {
				t.Errorf("the lease has %d entries, want its start and its end: %v", n, f.entries(id))
			}
		})
	}
}

// entries are what was published of a lease.
func (f *fleet) entries(id worker.LeaseID) (all []worker.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.batches {
		for _, e := range b.Entries {
			if e.Lease.ID == id {
				all = append(all, e)
			}
		}
	}
	return all
}

// TestALoserThatIsSilentIsExcluded: after two selects that others had to answer.
func TestALoserThatIsSilentIsExcluded(t *testing.T) {
	f, all := replicated(t, 2, func(c *Config, _ *Deps) { c.PlanTimeout = 500 * time.Millisecond })
	first := all[f.ranked()[0]]
	excluded := func() bool { return f.legs[worker.Regular].excluded.Excluded(first.Replica(), time.Now()) }
	first.mu.Lock()
	thaw := sync.OnceFunc(first.mu.Unlock)
	defer thaw()
	for range 2 {
		if excluded() {
			t.Fatal("excluded before it was silent twice")
		}
		id, pick := f.choose(t, "m")
		if pick.Degraded {
			t.Fatal("the client chose by itself")
		}
		bustest.Await(t, "the first's time to be over", func() bool { return f.unanswered() == 0 })
		f.End(id, worker.Success, false)
	}
	if !excluded() {
		t.Fatal("it is not excluded")
	}
	id, _ := f.choose(t, "m")
	if first.wasAsked(id) != 0 {
		t.Error("a replica that is excluded was asked")
	}
	f.End(id, worker.Success, false)
	thaw()
	f.settled(t, all, 0)
	bustest.Await(t, "it to be asked again", func() bool {
		id, _ := f.choose(t, "m")
		f.End(id, worker.Success, false)
		return first.wasAsked(id) == 1
	})
	f.settled(t, all, 0)
}

// TestALateAnswerInTimeExcludesNobody: who answers after another has won, but within
// the plan time-out, is slow and not silent.
func TestALateAnswerInTimeExcludesNobody(t *testing.T) {
	f, all := replicated(t, 2, patient)
	l, first := f.legs[worker.Regular], all[f.ranked()[0]]
	l.excluded.TimedOut(first.Replica(), time.Now(), time.Now())
	first.mu.Lock()
	id, _ := f.choose(t, "m")
	first.mu.Unlock()
	bustest.Await(t, "the late answer", func() bool { return f.unanswered() == 0 })
	bustest.Await(t, "the start", func() bool { return len(f.entries(id)) > 0 })
	if l.excluded.TimedOut(first.Replica(), time.Now(), time.Now()) {
		t.Error("the time-out before the answer still counts")
	}
	if n := l.peer(f.Client, worker.Regular, first.Replica()).open.Load(); n != 0 {
		t.Errorf("%d selects are unanswered, want 0", n)
	}
	f.End(id, worker.Success, false)
	f.settled(t, all, 0)
}

// TestAllReplicasAreSilent: then the copy serves, and once that is known few wait for
// longer than it takes to ask the second.
func TestAllReplicasAreSilent(t *testing.T) {
	const timeout = 400 * time.Millisecond
	f, all := replicated(t, 2, func(c *Config, _ *Deps) { c.PlanTimeout = timeout })
	for _, s := range all {
		s.mu.Lock()
	}
	thaw := sync.OnceFunc(func() {
		for _, s := range all {
			s.mu.Unlock()
		}
	})
	defer thaw()
	var whole atomic.Int64
	var wg sync.WaitGroup
	choose := func() {
		began := time.Now()
		id := f.Plan()
		pick, err := f.Select(context.Background(), &wire.Select{Lease: id, Model: "m"})
		if err != nil || !pick.Degraded {
			t.Errorf("picked %+v (%v), want a degraded pick", pick, err)
		}
		if time.Since(began) >= timeout {
			whole.Add(1)
		}
		f.End(id, worker.Success, false)
	}
	choose()
	for range 30 {
		wg.Go(choose)
	}
	wg.Wait()
	if n := whole.Load(); n > maxSilent {
		t.Errorf("%d requests waited for the whole time-out, want at most %d", n, maxSilent)
	}
	thaw()
	f.settled(t, all, 0)
	if n := f.unanswered(); n != 0 {
		t.Errorf("%d selects are still waited for", n)
	}
}

// TestARefusalGoesToTheNextReplica however many refuse, and the first who decides does.
func TestARefusalGoesToTheNextReplica(t *testing.T) {
	const picks = wire.Code(255) // no code: an answer with a pick
	tests := []struct {
		name    string
		answers []wire.Code // in the order in which the replicas are asked
		asked   int         // replicas that were asked
		want    string
	}{
		{"the first is not ready", []wire.Code{wire.CodeNotReady, picks}, 2, "picked"},
		{"two are not ready", []wire.Code{wire.CodeNotReady, wire.CodeDraining, picks}, 3, "picked"},
		{"nobody is ready", []wire.Code{wire.CodeNotReady, wire.CodeUnsupportedVersion}, 2, "degraded"},
		{"a decision is final", []wire.Code{wire.CodeOverloaded, picks}, 1, "overloaded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, false, far, patient)
			f.late = time.Hour // nobody is, on a slow machine either
			f.known(t, 1)
			for i := range tt.answers {
				f.legs[worker.Regular].ranking.Apply(worker.ReplicaBeat{Replica: worker.ReplicaID(100 + i), Ready: true}, time.Now())
			}
			var subs bus.Subscriptions
			var asked atomic.Int64
			for i, id := range f.ranked() {
				bus.Serve(&subs, f.bus, f.cluster.Select(worker.Regular, id), func(s *wire.Select) *wire.Reply {
					asked.Add(1)
					if code := tt.answers[i]; code != picks {
						return &wire.Reply{Lease: s.Lease, Replica: id, Err: &wire.Error{Code: code}}
					}
					return &wire.Reply{Lease: s.Lease, Replica: id, Pick: wire.Pick{Worker: spec(1)}}
				})
			}
			if err := subs.Err(); err != nil {
				t.Fatal(err)
			}
			id := f.Plan()
			pick, err := f.Select(t.Context(), &wire.Select{Lease: id, Model: "m"})
			f.End(id, worker.Success, false)
			got := "picked"
			switch {
			case errors.Is(err, worker.ErrOverloaded):
				got = "overloaded"
			case err != nil:
				t.Fatal(err)
			case pick.Degraded:
				got = "degraded"
			}
			if n := int(asked.Load()); got != tt.want || n != tt.asked {
				t.Errorf("%s after %d were asked, want %s after %d", got, n, tt.want, tt.asked)
			}
			if n := f.unanswered(); n != 0 {
				t.Errorf("%d selects are still waited for", n)
			}
			if err := subs.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPrefixesLeaveACrowdedReplica: the second is asked, and not the first.
func TestPrefixesLeaveACrowdedReplica(t *testing.T) {
	text, tokens := &wire.Select{Model: "m", Text: "hello"}, &wire.Select{Model: "m", TokenIDs: []uint32{1, 2}}
	keyed := &wire.Select{Model: "m", Text: "hello", Keys: worker.Keys{Header: worker.HashKey("k")}}
	none := &wire.Select{Model: "m"}
	tests := []struct {
		name       string
		ask        *wire.Select
		reads      wire.Reads
		unanswered []int64 // of the replicas, in their order
		want       bool    // the first two change places
	}{
		{"eight are no crowd", text, wire.ReadsText, []int64{8, 0}, false},
		{"nine are", text, wire.ReadsText, []int64{9, 0}, true},
		{"of tokens", tokens, wire.ReadsTokens, []int64{9, 0}, true},
		{"twice as many as the other", text, wire.ReadsText, []int64{18, 9}, false},
		{"more than twice as many", text, wire.ReadsText, []int64{19, 9}, true},
		{"twice the mean of the others", text, wire.ReadsText, []int64{20, 15, 5}, false},
		{"more than twice the mean of the others", text, wire.ReadsText, []int64{21, 15, 5}, true},
		{"a routing key has one writer", keyed, wire.ReadsText | wire.ReadsKey, []int64{99, 0}, false},
		{"a key that no policy goes by", keyed, wire.ReadsText, []int64{9, 0}, true},
		{"a pool has one place", none, wire.ReadsText, []int64{99, 0}, false},
		{"nobody else", text, wire.ReadsText, []int64{99}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, false, far)
			l := f.legs[worker.Regular]
			l.reads.Store(uint32(tt.reads))
			for i := range tt.unanswered {
				l.ranking.Apply(worker.ReplicaBeat{Replica: worker.ReplicaID(100 + i), Ready: true}, time.Now())
			}
			want := l.ranking.Rank(f.selectionKey(tt.ask), nil)
			for i, id := range want {
				l.peer(f.Client, worker.Regular, id).open.Add(tt.unanswered[i])
			}
			if tt.want {
				want[0], want[1] = want[1], want[0]
			}
			if got := f.order(l, tt.ask); !slices.Equal(got, want) {
				t.Errorf("asked in the order %v, want %v", got, want)
			}
		})
	}
}

// TestNoCountIsLeftBehind has many clients select and leave while replicas freeze and
// thaw, sometimes the one after the other that was asked. In the end nothing is counted.
func TestNoCountIsLeftBehind(t *testing.T) {
	f, all := replicated(t, 3, func(c *Config, _ *Deps) { c.PlanTimeout = 10 * time.Second })
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		rng := rand.New(rand.NewPCG(1, 2))
		ids := f.ranked()
		for {
			s := all[ids[rng.IntN(len(ids))]]
			s.mu.Lock()
			frozen := time.After(time.Duration(rng.IntN(60)) * time.Millisecond)
			select {
			case <-frozen:
				s.mu.Unlock()
			case <-stop:
				s.mu.Unlock()
				return
			}
		}
	}()
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(client)))
			for range 30 {
				ctx, cancel := context.WithCancel(context.Background())
				leaves := rng.IntN(8) == 0
				if leaves {
					time.AfterFunc(time.Duration(rng.IntN(40))*time.Millisecond, cancel)
				}
				id := f.Plan()
				_, err := f.Select(ctx, &wire.Select{Lease: id, Model: "m", Text: fmt.Sprint("prompt ", rng.IntN(10))})
				if err != nil && !leaves {
					t.Error(err)
				}
				f.End(id, worker.Success, false)
				cancel()
			}
		})
	}
	wg.Wait()
	close(stop)
	<-done
	f.settled(t, all, 0)
	bustest.Await(t, "no select to be waited for", func() bool { return f.unanswered() == 0 })
	f.legs[worker.Regular].peers.Range(func(id, p any) bool {
		if n := p.(*peer).open.Load(); n != 0 {
			t.Errorf("replica %d has %d selects to answer, want 0", id, n)
		}
		return true
	})
	starts := map[worker.LeaseID]int{}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.batches {
		for _, e := range b.Entries {
			switch id := e.Lease.ID; {
			case e.Kind == worker.EntryStart || e.Kind == worker.EntryWhole:
				starts[id]++
				if starts[id] > 1 {
					t.Errorf("lease %v began twice, or after an end", id)
				}
			case e.Unreached:
				starts[id]++ // a late grant given back: it must not begin any more
			}
		}
	}
}
