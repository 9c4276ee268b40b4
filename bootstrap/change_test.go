package bootstrap

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// stored is what the store has of a worker, nil if nothing.
func (m *memory) stored(url string) *worker.Spec {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now[worker.IDOf(url)]
}

// TestGatewayDrain is case 9 as far as the registrar decides it.
func TestGatewayDrain(t *testing.T) {
	t.Run("9_a_worker_drains", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{lag: 10 * time.Millisecond}
			r, stop := running(t, &prober{}, m, nil)
			defer stop()
			add(t, r, w1, nil)
			pass(time.Second)
			if err := r.Drain(t.Context(), worker.IDOf(w1)); err != nil {
				t.Fatal(err)
			}
			pass(4 * time.Second)
			s := m.stored(w1)
			if s == nil || !s.Draining() || s.Revision != 1 {
				t.Fatalf("after 4 s the record is %+v, want one that drains", s)
			}
			if j, ok := r.Job(s.ID); !ok || j.Type != RemoveWorker || j.Failed {
				t.Errorf("job %+v, %v", j, ok)
			}
			if err := r.Add(asked(t, w1, nil)); !errors.Is(err, ErrRegistered) {
				t.Errorf("added while it drains: %v", err)
			}
			if err := r.Patch(t.Context(), s.ID, Patch{}); !errors.Is(err, ErrLeaving) {
				t.Errorf("patched while it drains: %v", err)
			}
			if err := r.Replace(t.Context(), asked(t, w1, nil)); !errors.Is(err, ErrLeaving) {
				t.Errorf("replaced while it drains: %v", err)
			}
			if err := r.Drain(t.Context(), s.ID); err != nil { // again: no longer for that
				t.Error(err)
			}
			pass(2 * time.Second)
			if s := m.stored(w1); s != nil {
				t.Errorf("after 6 s the record is %+v, want none", s)
			}
			if _, ok := r.Job(s.ID); ok {
				t.Error("a removal that is over has a job")
			}
			add(t, r, w1, nil)
			pass(2 * orphaned) // what was planned for the one before does not concern it
			if s := m.stored(w1); s == nil || s.Draining() {
				t.Errorf("the one that came after it: %+v", s)
			}
		})
	})
	for _, tt := range []struct {
		name       string
		settle     *time.Duration
		registered bool
		want       time.Duration
		err        error
	}{
		{name: "with no time of its own", registered: true, want: 5 * time.Second},
		{name: "with its own time", registered: true, settle: new(time.Minute), want: time.Minute},
		{name: "at once", registered: true, settle: new(time.Duration(0)), want: 0},
		{name: "nobody", err: ErrUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{lag: 10 * time.Millisecond}
				r, stop := running(t, &prober{}, m, nil)
				defer stop()
				if tt.registered {
					add(t, r, w1, func(s *worker.Spec) { s.Health = &worker.HealthRules{Settle: tt.settle} })
					pass(time.Second)
				}
				began := time.Now()
				if err := r.Drain(t.Context(), worker.IDOf(w1)); !errors.Is(err, tt.err) {
					t.Fatalf("got %v, want %v", err, tt.err)
				}
				for m.stored(w1) != nil {
					pass(100 * time.Millisecond)
				}
				if took := time.Since(began); took < tt.want || took > tt.want+time.Second {
					t.Errorf("it was there for %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// TestOrphansLeave has the process that began a drain be gone.
func TestOrphansLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lag: 10 * time.Millisecond}
		first, stop := running(t, &prober{}, m, nil)
		add(t, first, w1, nil)
		pass(time.Second)
		if err := first.Drain(t.Context(), worker.IDOf(w1)); err != nil {
			t.Fatal(err)
		}
		stop()
		second := registrar(t, &prober{}, m, func(c *Config) { c.Workers = nil })
		m.hear = second.Heard
		second.Heard(worker.IDOf(w1), m.stored(w1)) // before it runs
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(t, second, 2*orphaned)
		}()
		pass(orphaned)
		if m.stored(w1) == nil {
			t.Error("it was removed before its time")
		}
		<-done
		if m.stored(w1) != nil {
			t.Error("it was not removed")
		}
	})
}

// TestGatewayChange is case 8 as far as the registrar decides it.
func TestGatewayChange(t *testing.T) {
	t.Run("8_a_patch_merges", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &prober{found: Found{Labels: map[string]string{"version": "1"}}}
			m := &memory{lag: 10 * time.Millisecond}
			r, stop := running(t, p, m, nil)
			defer stop()
			add(t, r, w1, func(s *worker.Spec) {
				s.Labels = map[string]string{"zone": "a", "rack": "1"}
				s.Health = &worker.HealthRules{Timeout: time.Second, FailureThreshold: 4}
			})
			pass(time.Second)
			before := m.stored(w1)
			patch := Patch{Priority: new(7), Cost: new(0.5), Labels: map[string]string{"zone": "b", "new": "n"}, Health: &worker.HealthRules{FailureThreshold: 2, Disabled: new(true)}}
			if err := r.Patch(t.Context(), before.ID, patch); err != nil {
				t.Fatal(err)
			}
			want := before.Clone()
			want.Priority, want.Cost, want.Revision = 7, 0.5, 1
			want.Labels = map[string]string{"zone": "b", "rack": "1", "new": "n", "version": "1"}
			want.Health = &worker.HealthRules{Timeout: time.Second, FailureThreshold: 2, Disabled: new(true)}
			if diff := cmp.Diff(want, m.stored(w1)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			pass(time.Second)
			// Another process comes: what was patched holds against what it says.
			p.becomes(Found{Labels: map[string]string{"version": "2", "zone": "c"}}, nil)
			r.Process(before.ID, 1, worker.Process{})
			r.Process(before.ID, 2, worker.Process{})
			pass(time.Minute)
			want.Labels["version"] = "2"
			if diff := cmp.Diff(want, m.stored(w1)); diff != "" {
				t.Errorf("after a restart (-want +got):\n%s", diff)
			}
			if err := r.Patch(t.Context(), worker.IDOf("http://nobody:1"), patch); !errors.Is(err, ErrUnknown) {
				t.Errorf("nobody is patched: %v", err)
			}
			m.mu.Lock()
			m.fails = 1
			m.mu.Unlock()
			if err := r.Patch(t.Context(), before.ID, patch); !errors.Is(err, errStore) {
				t.Errorf("got %v, want the store's error", err)
			}
		})
	})
	t.Run("8_a_patch_of_another_process", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &prober{found: Found{Labels: map[string]string{"version": "1"}}}
			m := &memory{lag: 10 * time.Millisecond}
			r, stop := running(t, p, m, nil)
			defer stop()
			other := registrar(t, &prober{}, m, func(c *Config) { c.Workers = nil })
			hear := m.hear
			m.hear = func(id worker.ID, s *worker.Spec) { hear(id, s); other.Heard(id, s) }
			add(t, r, w1, nil)
			pass(time.Second)
			id := worker.IDOf(w1)
			if err := other.Patch(t.Context(), id, Patch{Labels: map[string]string{"zone": "b"}}); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			p.becomes(Found{Labels: map[string]string{"version": "2"}}, nil)
			r.Process(id, 1, worker.Process{})
			r.Process(id, 2, worker.Process{})
			pass(time.Minute)
			if diff := cmp.Diff(map[string]string{"zone": "b", "version": "2"}, m.stored(w1).Labels); diff != "" {
				t.Errorf("its owner has undone it (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("8_a_worker_is_replaced", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{lag: 10 * time.Millisecond}
			r, stop := running(t, &prober{}, m, nil)
			defer stop()
			add(t, r, w1, func(s *worker.Spec) { s.Priority, s.Labels = 3, map[string]string{"zone": "a"} })
			pass(time.Second)
			before := m.stored(w1)
			if err := r.Replace(t.Context(), asked(t, w1, func(s *worker.Spec) { s.Cost = 2 })); err != nil {
				t.Fatal(err)
			}
			if j, ok := r.Job(before.ID); !ok || j.Type != UpdateWorker {
				t.Errorf("job %+v, %v", j, ok)
			}
			if err := r.Replace(t.Context(), asked(t, w1, nil)); !errors.Is(err, ErrRegistering) {
				t.Errorf("twice at a time: %v", err)
			}
			pass(time.Minute)
			want := asked(t, w1, func(s *worker.Spec) { s.Cost = 2 })
			want.RegisteredAt, want.Revision = before.RegisteredAt, 1
			if diff := cmp.Diff(want, m.stored(w1)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, ok := r.Job(before.ID); ok {
				t.Error("there still is a job")
			}
			if err := r.Replace(t.Context(), asked(t, "http://nobody:1", nil)); !errors.Is(err, ErrUnknown) {
				t.Errorf("nobody is replaced: %v", err)
			}
		})
	})
	t.Run("8_one_that_was_removed_meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, m := &prober{}, &memory{lag: 10 * time.Millisecond}
			r, stop := running(t, p, m, nil)
			defer stop()
			add(t, r, w1, nil)
			pass(time.Second)
			p.mu.Lock()
			p.goods = map[string]int{w1: 3}
			p.mu.Unlock()
			if err := r.Replace(t.Context(), asked(t, w1, nil)); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			if err := m.Delete(t.Context(), worker.IDOf(w1)); err != nil { // by somebody else
				t.Fatal(err)
			}
			pass(2 * time.Minute)
			if m.stored(w1) != nil {
				t.Error("it has come back")
			}
			if j, ok := r.Job(worker.IDOf(w1)); !ok || !j.Failed || j.Type != UpdateWorker || j.Reason == "" {
				t.Errorf("job %+v, %v, want one that failed", j, ok)
			}
			pass(keepFailed)
			if j, ok := r.Job(worker.IDOf(w1)); ok {
				t.Errorf("it is still told: %+v", j)
			}
		})
	})
	t.Run("8_ranks", func(t *testing.T) {
		r := registrar(t, &prober{}, &memory{}, func(c *Config) { c.DPAware = true })
		if err := r.Replace(t.Context(), asked(t, w1, nil)); !errors.Is(err, ErrRanks) {
			t.Errorf("got %v, want ErrRanks", err)
		}
	})
}

// TestGatewayRemoval is case 37 as far as the registrar decides it.
func TestGatewayRemoval(t *testing.T) {
	for name, remove := range map[string]bool{"37_a_failed_worker_is_removed": true, "37_a_failed_worker_stays": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{lag: 10 * time.Millisecond}
				r, stop := running(t, &prober{}, m, func(c *Config) { c.RemoveFailed = remove })
				defer stop()
				add(t, r, w1, nil)
				pass(time.Second)
				r.Failed(worker.IDOf("http://nobody:1"), math.MaxUint64) // somebody else's
				r.Failed(worker.IDOf(w1), 1)                             // a process of before its registration
				pass(time.Second)
				if m.stored(w1) == nil {
					t.Error("it was removed for what a former stay was")
				}
				m.mu.Lock()
				m.fails = 1
				m.mu.Unlock()
				for range 3 {
					r.Failed(worker.IDOf(w1), math.MaxUint64)
					pass(3 * time.Second)
				}
				if gone := m.stored(w1) == nil; gone != remove {
					t.Errorf("gone %v, want %v", gone, remove)
				}
				m.mu.Lock()
				m.fails = 0
				m.mu.Unlock()
			})
		})
	}
}
