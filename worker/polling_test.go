package worker

import (
	"math/rand/v2"
	"testing"
	"time"
)

// polledKeeper is a keeper of a ready worker at second 0, and its record.
func polledKeeper(t *testing.T) (*Keeper, Record) {
	t.Helper()
	k, _ := newTestKeeper(5)
	rec, _ := k.Tick(true, at(0))
	if _, due := k.PollDue(at(0), time.Second); due || k.Stay() != 0 {
		t.Fatal("a pending worker is polled")
	}
	rec, _ = k.Probe(rec.Epoch, true, at(0))
	return k, rec
}

func TestPollsKeepTheirPace(t *testing.T) {
	k, _ := polledKeeper(t)
	const every = 10 * time.Second
	steps := []struct {
		name string
		at   time.Duration
		due  bool
		busy time.Duration // how long the poll takes
	}{
		{"at once", 0, true, time.Second},
		{"too early", 9 * time.Second, false, 0},
		{"late by a tick", 10*time.Second + 200*ms, true, ms},
		{"on time all the same", 20 * time.Second, true, 15 * time.Second},
		{"it took longer than the interval", 35 * time.Second, true, ms},
		{"nothing is caught up on", 39 * time.Second, false, 0},
		{"the interval goes on", 40 * time.Second, true, ms},
		{"much was missed", 3600 * time.Second, true, ms},
		{"a new start", 3609 * time.Second, false, 0},
		{"from there", 3610 * time.Second, true, ms},
	}
	for _, s := range steps {
		stay, due := k.PollDue(at(s.at), every)
		if due != s.due {
			t.Fatalf("%s: due %v, want %v", s.name, due, s.due)
		}
		if !due {
			continue
		}
		if _, twice := k.PollDue(at(s.at+every+time.Minute), every); twice {
			t.Fatalf("%s: polled again before the result", s.name)
		}
		k.Polled(stay, nil, false, at(s.at+s.busy))
	}
	if _, due := k.PollDue(at(3611*time.Second), time.Second); !due {
		t.Error("a shorter interval does not hold at once")
	}
}

// endsOfStays is LR-8 and what else ends a stay: with it go report, veto, and what
// was asked in it.
func endsOfStays(t *testing.T) {
	tests := []struct {
		name string
		end  func(*Keeper, Record) // and begin another
	}{
		{"not ready", func(k *Keeper, rec Record) {
			for range 3 {
				k.Probe(rec.Epoch, false, at(2*time.Second))
			}
			if rec := k.Record(); rec.Status != NotReady || rec.Report != nil || rec.Overloaded {
				t.Errorf("not ready: %+v", rec)
			}
			for range 2 {
				k.Probe(rec.Epoch, true, at(2*time.Second))
			}
		}},
		{"replaced", func(k *Keeper, _ Record) {
			if rec, _ := k.Replaced(at(2 * time.Second)); rec.Report != nil || rec.Overloaded {
				t.Errorf("replaced: %+v", rec)
			}
			k.Probe(k.Record().Epoch, true, at(2*time.Second))
		}},
		{"kept by another meanwhile", func(k *Keeper, rec Record) {
			rec.Term++
			rec.Keeper, rec.Report, rec.Overloaded = 6, nil, false
			k.Hear(rec)
			if k.Stay() != 0 {
				t.Error("another's worker has a stay here")
			}
			k.Tick(true, at(2*time.Second))
		}},
		{"not first meanwhile", func(k *Keeper, _ Record) {
			k.Tick(false, at(2*time.Second))
			k.Tick(true, at(2*time.Second))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k, _ := polledKeeper(t)
			stay, _ := k.PollDue(at(0), time.Hour)
			if stay != k.Stay() || stay == 0 {
				t.Fatalf("asked in stay %d of %d", stay, k.Stay())
			}
			if rec, publish := k.Polled(stay, &Report{PolledAt: at(0), GoodFor: time.Hour}, true, at(0)); !publish || !rec.Overloaded {
				t.Fatalf("the report of the first poll: %+v", rec)
			}
			tt.end(k, k.Record())
			if k.Stay() == stay || k.Record().Status != Ready {
				t.Fatalf("still stay %d, %v", stay, k.Record().Status)
			}
			before := k.Record().Report
			if rec, publish := k.Polled(stay, &Report{PolledAt: at(time.Second)}, false, at(3*time.Second)); publish || rec.Report != before {
				t.Errorf("a poll of the last stay reports: %+v", rec)
			}
			if next, due := k.PollDue(at(3*time.Second), time.Hour); !due || next != k.Stay() {
				t.Error("the first poll of the next stay is not due at once")
			}
		})
	}
}

func TestPollsWithoutHealthChecks(t *testing.T) {
	cfg := DefaultKeeperConfig()
	cfg.Health.Disabled = true
	k := NewKeeper(IDOf("http://a"), 5, cfg)
	k.Tick(true, at(0))
	first, due := k.PollDue(at(0), time.Hour)
	if !due {
		t.Fatal("a worker that is ready without a probe is not polled")
	}
	k.Replaced(at(time.Second))
	if next, due := k.PollDue(at(time.Second), time.Hour); !due || next == first {
		t.Error("a replacement goes on with the stay")
	}
	k.Drain(at(2 * time.Second))
	if _, due := k.PollDue(at(3*time.Hour), time.Hour); due {
		t.Error("a draining worker is polled")
	}
}

// TestPollsProperty runs a keeper through random events beside a plain model of a
// stay: it begins when the worker turns ready here, and ends with that.
func TestPollsProperty(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		k, id := newTestKeeper(5)
		type poll struct {
			stay uint64
			life int // the model's number of the stay
		}
		var (
			now    time.Duration
			life   int // the model's number of the present stay
			inStay bool
			open   []poll
			polls  int // of this stay under way
			first  bool
		)
		// note compares before and after an event; fresh says that one stay has
		// ended and another begun in it.
		note := func(fresh bool) {
			in := k.Active() && k.Record().Status == Ready
			if in && (!inStay || fresh) || !in && inStay {
				life, polls, first = life+1, 0, in
			}
			inStay = in
			if (k.Stay() != 0) != in {
				t.Fatalf("stay %d, though ready here is %v", k.Stay(), in)
			}
			if rec := k.Record(); rec.Status != Ready && (rec.Report != nil || rec.Overloaded) {
				t.Fatalf("not ready, but %+v", rec)
			}
		}
		for range 300 {
			now += time.Duration(rnd.IntN(4000)) * ms
			switch rnd.IntN(9) {
			case 0:
				was := k.Active()
				k.Tick(rnd.IntN(5) > 0, at(now))
				note(!was)
			case 1, 2:
				k.Probe(k.Record().Epoch, rnd.IntN(3) > 0, at(now))
				note(false)
			case 3:
				k.Replaced(at(now))
				note(false)
			case 4:
				rec := k.Record()
				rec.Worker, rec.Term, rec.Keeper, rec.Report, rec.Overloaded = id, rec.Term+uint64(rnd.IntN(2)), 4, nil, false
				k.Hear(rec)
				note(false)
			case 5, 6:
				stay, due := k.PollDue(at(now), 10*time.Second)
				if due && (!inStay || polls > 0) || !due && first && inStay {
					t.Fatalf("due %v: ready here %v, %d under way, first %v", due, inStay, polls, first)
				}
				if due {
					open = append(open, poll{stay, life})
					polls, first = polls+1, false
				}
			default:
				if len(open) == 0 {
					continue
				}
				i := rnd.IntN(len(open))
				p := open[i]
				open = append(open[:i], open[i+1:]...)
				rep := &Report{PolledAt: at(now), GoodFor: 30 * time.Second}
				if rnd.IntN(3) == 0 {
					rep = nil
				}
				before := k.Record()
				after, _ := k.Polled(p.stay, rep, rnd.IntN(2) == 0, at(now))
				if p.life == life {
					polls--
					if after.Report != rep {
						t.Fatalf("the result of this stay is not taken: %+v", after)
					}
				} else if after != before {
					t.Fatalf("the result of stay %d is taken in %d: %+v", p.life, life, after)
				}
			}
		}
	}
}
