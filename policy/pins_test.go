package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"smg/policy"
	"smg/worker"
)

// TestPinsAreBounded (W-12): with a bound the key that was used longest ago makes
// room; without one every key stays.
func TestPinsAreBounded(t *testing.T) {
	for _, most := range []int{0, 100} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			cfg := manualConfig(policy.AssignRandom)
			cfg.Pins.MaxKeys = most
			d := newDesk(t, 2, cfg, nil, policy.Deps{})
			for i := range 1000 {
				d.call(t, keyed(d.Fleet, fmt.Sprint("key-", i)))
				d.call(t, keyed(d.Fleet, "kept"))
			}
			want := 1001
			if most > 0 {
				want = most
			}
			wantEntries(t, d.reg, want)
			d.wantBranch(t, keyed(d.Fleet, "kept"), "occupied_hit")
			d.wantBranch(t, keyed(d.Fleet, "key-999"), "occupied_hit")
			if first := d.call(t, keyed(d.Fleet, "key-0")); (first.branch == "vacant") != (most > 0) {
				t.Errorf("the first key: %s", first.branch)
			}
		})
	}
}

// pinning is the policies that pin.
func pinning(t *testing.T, run func(t *testing.T, cfg policy.Config)) {
	t.Helper()
	for name, cfg := range map[string]policy.Config{
		"manual":   manualConfig(policy.AssignRandom),
		"delegate": stickyConfig(policy.Random, policy.AssignDelegate),
		"random":   stickyConfig(policy.Random, policy.AssignRandom),
	} {
		t.Run(name, func(t *testing.T) { run(t, cfg) })
	}
}

// TestPinsUndo: a call that never got to its worker leaves no pin, unless somebody
// has used it since.
func TestPinsUndo(t *testing.T) {
	pinning(t, func(t *testing.T, cfg policy.Config) {
		t.Run("new key", func(t *testing.T) {
			d := newDesk(t, 4, cfg, nil, policy.Deps{})
			d.Undo(worker.LeaseID{Plan: 999})
			c := d.wantBranch(t, keyed(d.Fleet, "s"), "vacant")
			d.Undo(c.lease)
			wantEntries(t, d.reg, 0)
			d.Undo(c.lease)
			d.wantBranch(t, keyed(d.Fleet, "s"), "vacant")
			wantEntries(t, d.reg, 1)
		})
		t.Run("stand-in", func(t *testing.T) {
			d := newDesk(t, 4, cfg, nil, policy.Deps{})
			first := d.call(t, keyed(d.Fleet, "s"))
			d.Down(first.worker)
			second := d.wantBranch(t, keyed(d.Fleet, "s"), "occupied_miss")
			d.Undo(second.lease)
			d.Up(first.worker)
			d.want(t, keyed(d.Fleet, "s"), first.worker, "occupied_hit")
			d.Down(first.worker)
			d.wantBranch(t, keyed(d.Fleet, "s"), "occupied_miss")
		})
		t.Run("used since", func(t *testing.T) {
			d := newDesk(t, 4, cfg, nil, policy.Deps{})
			c := d.call(t, keyed(d.Fleet, "s"))
			d.want(t, keyed(d.Fleet, "s"), c.worker, "occupied_hit")
			d.Undo(c.lease)
			wantEntries(t, d.reg, 1)
		})
		t.Run("a hit", func(t *testing.T) {
			d := newDesk(t, 4, cfg, nil, policy.Deps{})
			c := d.call(t, keyed(d.Fleet, "s"))
			d.Undo(d.want(t, keyed(d.Fleet, "s"), c.worker, "occupied_hit").lease)
			wantEntries(t, d.reg, 1)
		})
		t.Run("asked twice", func(t *testing.T) {
			d := newDesk(t, 4, cfg, nil, policy.Deps{})
			req := keyed(d.Fleet, "s")
			first := d.call(t, req)
			d.Down(first.worker)
			d.Undo(d.wantBranch(t, req, "occupied_miss").lease)
			wantEntries(t, d.reg, 0)
		})
		t.Run("long ago", func(t *testing.T) {
			d := newDesk(t, 4, cfg, nil, policy.Deps{})
			c := d.call(t, keyed(d.Fleet, "s"))
			d.Tick(plain(d.Fleet).Ask.Now.Add(29 * time.Second))
			young := d.call(t, at(keyed(d.Fleet, "t"), 29*time.Second))
			d.Tick(plain(d.Fleet).Ask.Now.Add(30 * time.Second))
			d.Undo(c.lease)
			wantEntries(t, d.reg, 2)
			d.Undo(young.lease)
			wantEntries(t, d.reg, 1)
		})
	})
	t.Run("respill", func(t *testing.T) {
		d := newDesk(t, 2, stickyConfig(policy.LeastLoad, policy.AssignDelegate), nil, seeded(1))
		first := d.call(t, keyed(d.Fleet, "s"))
		second := d.call(t, keyed(d.Fleet, "s"))
		third := d.want(t, keyed(d.Fleet, "s"), 1-first.worker, "cap_respill")
		d.Undo(third.lease)
		d.end(first, second, third)
		d.want(t, keyed(d.Fleet, "s"), first.worker, "occupied_hit")
	})
}

// TestPinsAndTriedWorkers: a request that comes again avoids the workers that it has
// tried. A key that others use stays where it is all the same; one that this request
// alone has pinned goes with it.
func TestPinsAndTriedWorkers(t *testing.T) {
	pinning(t, func(t *testing.T, cfg policy.Config) {
		t.Run("first call of the key", func(t *testing.T) {
			d := newDesk(t, 4, cfg, nil, policy.Deps{})
			first := d.call(t, keyed(d.Fleet, "s"))
			again := d.wantBranch(t, keyed(d.Fleet, "s", first.worker), "vacant")
			if again.worker == first.worker {
				t.Fatalf("worker %d was tried and is chosen again", first.worker)
			}
			d.end(first, again)
			d.Undo(first.lease) // late
			d.want(t, keyed(d.Fleet, "s"), again.worker, "occupied_hit")
			d.Down(again.worker)
			d.wantBranch(t, keyed(d.Fleet, "s"), "occupied_miss")
			wantEntries(t, d.reg, 1)
		})
		t.Run("later call", func(t *testing.T) {
			d := newDesk(t, 4, cfg, nil, policy.Deps{})
			pin := d.call(t, keyed(d.Fleet, "s"))
			second := d.want(t, keyed(d.Fleet, "s"), pin.worker, "occupied_hit")
			d.end(pin, second)
			again := d.wantBranch(t, keyed(d.Fleet, "s", pin.worker), "occupied_miss")
			if again.worker == pin.worker {
				t.Fatalf("worker %d was tried and is chosen again", pin.worker)
			}
			d.end(again)
			d.end(d.want(t, keyed(d.Fleet, "s"), pin.worker, "occupied_hit"))
			d.end(d.want(t, keyed(d.Fleet, "s", pin.worker), again.worker, "occupied_hit"))
			third := d.wantBranch(t, keyed(d.Fleet, "s", pin.worker, again.worker), "occupied_miss")
			d.end(third)
			d.end(d.want(t, keyed(d.Fleet, "s"), pin.worker, "occupied_hit"))
			d.want(t, keyed(d.Fleet, "s", pin.worker), again.worker, "occupied_hit")
		})
		t.Run("all tried", func(t *testing.T) {
			d := newDesk(t, 2, cfg, nil, policy.Deps{})
			pin := d.call(t, keyed(d.Fleet, "s"))
			d.want(t, keyed(d.Fleet, "s", 0, 1), pin.worker, "occupied_hit")
		})
	})
}

// naive is the pins of policy manual in the plainest words.
type naive struct {
	most  int
	pins  map[string]*naivePin
	clock int
}

type naivePin struct {
	workers []int
	used    int
	maker   worker.LeaseID // of the last change, zero once another call has come
	placed  int
	before  []int
}

// expect is the branch of a call, and its worker if the pins say it.
func (n *naive) expect(key string, lease worker.LeaseID, tried []int, usable func(int) bool) (branch string, at int) {
	p := n.pins[key]
	if p == nil {
		return "vacant", -1
	}
	for _, w := range p.workers {
		if usable(w) {
			return "occupied_hit", w
		}
	}
	if p.maker != (worker.LeaseID{}) && p.maker != lease && slices.Contains(tried, p.placed) {
		if n.undo(p.maker); n.pins[key] == nil {
			return "vacant", -1
		}
		return n.expect(key, lease, tried, usable)
	}
	return "occupied_miss", -1
}

// note is what a call leaves behind.
func (n *naive) note(key string, lease worker.LeaseID, branch string, at int, tried []int, up func(int) bool) {
	n.clock++
	p := n.pins[key]
	if p == nil {
		if n.most > 0 && len(n.pins) == n.most {
			oldest := ""
			for k, q := range n.pins {
				if oldest == "" || q.used < n.pins[oldest].used {
					oldest = k
				}
			}
			delete(n.pins, oldest)
		}
		p = &naivePin{}
		n.pins[key] = p
	}
	p.used, p.maker = n.clock, worker.LeaseID{}
	if branch == "occupied_hit" {
		return
	}
	after := append(slices.Clone(p.workers), at)
	if kept := slices.DeleteFunc(slices.Clone(p.workers), func(w int) bool { return !up(w) || !slices.Contains(tried, w) }); len(kept) > 0 {
		after = append(kept, at)[:2]
	} else if len(after) > 2 {
		after = after[1:]
	}
	if !slices.Equal(after, p.workers) {
		p.maker, p.placed, p.before, p.workers = lease, at, p.workers, after
	}
}

func (n *naive) undo(lease worker.LeaseID) {
	for key, p := range n.pins {
		if p.maker != lease {
			continue
		}
		p.maker = worker.LeaseID{}
		if p.workers = p.before; len(p.workers) == 0 {
			delete(n.pins, key)
		}
	}
}

// TestPinsModel compares policy manual with the plainest model of it.
func TestPinsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const n = 4
		all := []int{0, 1, 2, 3}
		cfg := manualConfig(policy.AssignRandom)
		cfg.Pins.MaxKeys = rapid.SampledFrom([]int{0, 2}).Draw(rt, "bound")
		d := newDesk(t, n, cfg, nil, policy.Deps{})
		model := &naive{most: cfg.Pins.MaxKeys, pins: map[string]*naivePin{}}
		down := map[int]bool{}
		up := func(i int) bool { return !down[i] }
		var leases []worker.LeaseID
		key := rapid.SampledFrom([]string{"a", "b", "c"})
		one := rapid.IntRange(0, n-1)
		rt.Repeat(map[string]func(*rapid.T){
			"call": func(rt *rapid.T) {
				k, tried := key.Draw(rt, "key"), rapid.SliceOfNDistinct(one, 0, 3, rapid.ID[int]).Draw(rt, "tried")
				usable := func(i int) bool { return up(i) && !slices.Contains(tried, i) }
				if !slices.ContainsFunc(all, usable) {
					usable = up // all of them tried
				}
				req := keyed(d.Fleet, k, tried...)
				branch, want := model.expect(k, req.Ask.Lease, tried, usable)
				got := d.call(t, req)
				if got.branch != branch || want >= 0 && got.worker != want {
					rt.Fatalf("worker %d by %s, want %d by %s", got.worker, got.branch, want, branch)
				}
				model.note(k, got.lease, branch, got.worker, tried, up)
				leases = append(leases, got.lease)
			},
			"undo": func(rt *rapid.T) {
				if len(leases) == 0 {
					rt.Skip("nothing to undo")
				}
				lease := leases[max(0, len(leases)-1-rapid.IntRange(0, 3).Draw(rt, "back"))]
				d.Undo(lease)
				model.undo(lease)
			},
			"down or up": func(rt *rapid.T) {
				switch i := one.Draw(rt, "worker"); {
				case down[i]:
					delete(down, i)
					d.Up(i)
				case len(down) < n-1:
					down[i] = true
					d.Down(i)
				}
			},
			"": func(*rapid.T) { wantEntries(t, d.reg, len(model.pins)) },
		})
	})
}
