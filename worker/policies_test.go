package worker

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPolicies holds the numbered cases of the policies' specification that are
// decided here, below any policy.
func TestPolicies(t *testing.T) {
	t.Run("AV-1_not_ready_is_not_available", func(t *testing.T) {
		r, _, specs := fleet(3)
		rec := readyAt(specs[1].ID, 2)
		rec.Status = NotReady
		r.Install(rec)
		if got := names(t, r.Pool(Regular, "m")); got != "0 2" {
			t.Errorf("available: %q", got)
		}
	})
	t.Run("AV-2_only_ready_is_available", func(t *testing.T) {
		for s := Pending; s <= Draining; s++ {
			if got := (Record{Status: s}).Available(); got != (s == Ready) {
				t.Errorf("%v: available %v", s, got)
			}
		}
	})
	t.Run("AV-3_load_is_no_veto", func(t *testing.T) {
		r, f, specs := fleet(3)
		f.Grant(Lease{ID: LeaseID{Plan: 1}, Worker: specs[1].ID}, f.Load(specs[1].ID), at(0))
		if got := names(t, r.Pool(Regular, "m")); got != "0 1 2" {
			t.Errorf("with a request in flight: %q", got)
		}
		rec := readyAt(specs[1].ID, 2)
		rec.Overloaded = true
		r.Install(rec)
		if got := names(t, r.Pool(Regular, "m")); got != "0 2" {
			t.Errorf("vetoed: %q", got)
		}
		r.Install(readyAt(specs[1].ID, 3))
		if got := names(t, r.Pool(Regular, "m")); got != "0 1 2" {
			t.Errorf("veto cleared: %q", got)
		}
	})
	t.Run("AV-4_each_limit", eachLimit)
	t.Run("AV-5_either_limit", eitherLimit)
	t.Run("LR-8_the_end_of_a_stay", endsOfStays)
	t.Run("AV-6_ten_failures_in_a_row_open_the_breaker", func(t *testing.T) {
		cases := []struct {
			name, calls string
			want        Breaker
		}{
			{"ten", strings.Repeat("F", 10), Open},
			{"a success between", strings.Repeat("F", 9) + "S" + strings.Repeat("F", 9), Closed},
			{"429s between", strings.Repeat("FNN", 10), Open},
		}
		for _, c := range cases {
			f := NewFold()
			k, id := newTestKeeper(5)
			k.Tick(true, at(0))
			s := &testStream{ingress: "i", incarnation: 7}
			for i, call := range c.calls {
				outcome := map[rune]Outcome{'F': Failure, 'S': Success, 'N': Neutral}[call]
				for _, e := range f.Apply(s.batch(s.start(uint64(i), id, 0), s.end(uint64(i), outcome, false)), at(0), nil) {
					k.Outcome(e, at(0))
				}
			}
			if got := k.Record().Breaker; got != c.want {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	})
	t.Run("AV-7_mixed_reasons_are_no_shed", func(t *testing.T) {
		r, _, specs := fleet(2)
		over, open := readyAt(specs[0].ID, 2), readyAt(specs[1].ID, 2)
		over.Overloaded, open.Breaker = true, Open
		r.InstallAll([]Record{over, open})
		take := func() error {
			_, err := r.Pool(Regular, "m").Take(&Ask{Now: at(0)}, nil)
			return err
		}
		if err := take(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("overloaded and open: %v", err)
		}
		open.Seq, open.Overloaded = 3, true
		r.Install(open)
		if err := take(); !errors.Is(err, ErrOverloaded) {
			t.Errorf("all overloaded: %v", err)
		}
		p := r.Pool(Regular, "m")
		r.Remove(specs[0].ID)
		r.Remove(specs[1].ID)
		if _, err := p.Take(&Ask{Now: at(0)}, nil); !errors.Is(err, ErrNoWorkers) {
			t.Errorf("nobody: %v", err)
		}
	})
	t.Run("IF-7_a_replacement_keeps_the_count", func(t *testing.T) {
		r, f, specs := fleet(1)
		p := NewPlans(7)
		w := NewLeaseWriter("i", 7, Regular)
		var leases []LeaseID
		for range 3 {
			id := p.Lease(p.Next(), Regular, 0)
			took, err := r.Pool(Regular, "m").Take(&Ask{Lease: id, Now: at(0)}, func(*View) int { return 0 })
			if err != nil {
				t.Fatal(err)
			}
			w.Begin(Lease{ID: id, Worker: took.Worker.Spec.ID})
			leases = append(leases, id)
		}
		again := specs[0].Clone()
		again.Labels = map[string]string{"rack": "7"}
		r.Put(again)
		now := r.Lookup(again.ID)
		if now.Load.Active() != 3 || now.Spec.Labels["rack"] != "7" || now.Record.Status != Ready {
			t.Fatalf("after the replacement: %d in flight, %+v", now.Load.Active(), now.Record)
		}
		b, _ := w.Flush()
		f.Apply(&b, at(0), nil)
		if now.Load.Active() != 3 {
			t.Fatalf("started: %d", now.Load.Active())
		}
		for _, id := range leases {
			w.End(id, Success, false)
		}
		b, _ = w.Flush()
		f.Apply(&b, at(0), nil)
		if now.Load.Active() != 0 || w.Active(again.ID) != 0 {
			t.Fatalf("ended: %d, %d at the ingress", now.Load.Active(), w.Active(again.ID))
		}
	})
	t.Run("IF-8_calls_are_told_apart_by_key", func(t *testing.T) {
		r, f, specs := fleet(1)
		p := NewPlans(7)
		w := NewLeaseWriter("i", 7, Regular)
		k, j := Scoped("m", HashKey("k").Short), Scoped("m", HashKey("j").Short)
		if k == Scoped("other", HashKey("k").Short) || Scoped("m", 0) != 0 {
			t.Error("a key is the same for two models, or no key is one")
		}
		begin := func(key uint64) LeaseID {
			id := p.Lease(p.Next(), Regular, 0)
			if _, err := r.Pool(Regular, "m").Take(&Ask{Lease: id, Key: key, Now: at(0)}, func(*View) int { return 0 }); err != nil {
				t.Fatal(err)
			}
			w.Begin(Lease{ID: id, Worker: specs[0].ID, Key: key})
			return id
		}
		want := func(when string, active, keys, sharing int) {
			t.Helper()
			got := 0
			if _, err := r.Pool(Regular, "m").Peek(&Ask{Now: at(0)}, func(v *View) int { got = v.Sharing(0, k); return 0 }); err != nil {
				t.Fatal(err)
			}
			if l := f.Load(specs[0].ID); l.Active() != active || l.Keys() != keys || got != sharing {
				t.Errorf("%s: %d calls, %d keys, %d of k; want %d, %d, %d", when, l.Active(), l.Keys(), got, active, keys, sharing)
			}
		}
		first := begin(k)
		begin(k)
		last := begin(j)
		want("granted", 3, 2, 2)
		b, _ := w.Flush()
		f.Apply(&b, at(0), nil)
		want("started", 3, 2, 2)
		w.End(first, Success, false)
		b, _ = w.Flush()
		f.Apply(&b, at(0), nil)
		want("after one of k", 2, 2, 1)
		w.End(last, Success, false)
		b, _ = w.Flush()
		f.Apply(&b, at(0), nil)
		want("after j", 1, 1, 1)
	})
	t.Run("IF-9_a_thousand_concurrent_pairs", func(t *testing.T) {
		r, f, specs := fleet(4)
		p := NewPlans(7)
		w := NewLeaseWriter("i", 7, Regular)
		full := make(chan struct{}, 1) // one: a second signal says nothing new
		wake := func(k Wake) {
			if k != WakeNone {
				select {
				case full <- struct{}{}:
				default:
				}
			}
		}
		var requests, publisher sync.WaitGroup
		publisher.Go(func() {
			for range full {
				if b, ok := w.Flush(); ok {
					f.Apply(&b, at(0), nil)
				}
				for _, s := range specs {
					if n := f.Load(s.ID).Active(); n < 0 {
						t.Errorf("%s: %d in flight", s.URL, n)
					}
				}
			}
		})
		for g := range 50 {
			requests.Go(func() {
				for range 20 {
					id := p.Lease(p.Next(), Regular, 0)
					took, err := r.Pool(Regular, "m").Take(&Ask{Lease: id, Tokens: 9, Now: at(0)}, func(v *View) int { return g % v.Len() })
					if err != nil {
						t.Error(err)
						return
					}
					wake(w.Begin(Lease{ID: id, Worker: took.Worker.Spec.ID, Tokens: 9}))
					wake(w.End(id, Success, false))
				}
			})
		}
		requests.Wait()
		close(full)
		publisher.Wait()
		if b, ok := w.Flush(); ok {
			f.Apply(&b, at(0), nil)
		}
		credit := int64(0)
		for _, s := range specs {
			l := f.Load(s.ID)
			credit += l.Credit()
			if l.Active() != 0 {
				t.Errorf("%s: %d in flight at the end", s.URL, l.Active())
			}
			f.Reported(s.ID, at(time.Second))
			if l.Credit() != 0 {
				t.Errorf("%s: credit %d after a report", s.URL, l.Credit())
			}
		}
		if credit != 9000 || w.Open() != 0 {
			t.Errorf("credit %d, %d open", credit, w.Open())
		}
	})
}

func TestNames(t *testing.T) {
	for l := Regular; l <= Decode; l++ {
		if got, err := ParseLeg(l.String()); err != nil || got != l {
			t.Errorf("%v: %v, %v", l, got, err)
		}
	}
	if _, err := ParseLeg("x"); err == nil {
		t.Error("leg x")
	}
	got := fmt.Sprint(Leg(9), HTTP, GRPC, Ready, Status(9), HalfOpen, Breaker(9))
	if want := "leg(9) http grpc ready status(9) half_open breaker(9)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
