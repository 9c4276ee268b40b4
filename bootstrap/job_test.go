package bootstrap

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

const w1 = "http://w1:8000"

func TestWhatIsAskedForHolds(t *testing.T) {
	sglang := Found{Runtime: worker.SGLang, Models: []string{"m"}, Labels: map[string]string{
		"tp_size": "2", modeLabel: "prefill", portLabel: "9001",
	}}
	tests := []struct {
		name  string
		found Found
		ask   func(*worker.Spec)
		want  func(*worker.Spec) // of what is asked for, with what was found
	}{
		{name: "nothing is asked for or found"},
		{
			name: "what is found counts where nothing is asked for", found: sglang,
			want: func(s *worker.Spec) {
				s.Runtime, s.Models, s.Labels = worker.SGLang, []worker.Model{{ID: "m"}}, sglang.Labels
				s.Conflict = misplaced(s)
			},
		},
		{
			name: "models, runtime and labels", found: sglang,
			ask: func(s *worker.Spec) {
				s.Runtime, s.Models = worker.VLLM, []worker.Model{{ID: "other", Aliases: []string{"o"}}}
				s.Labels = map[string]string{"tp_size": "8", "policy": "random"}
			},
			want: func(s *worker.Spec) {
				s.Labels = map[string]string{"tp_size": "8", "policy": "random", modeLabel: "prefill", portLabel: "9001"}
			},
		},
		{
			name: "the engine's bootstrap port", found: sglang,
			ask: func(s *worker.Spec) { s.Leg = worker.Prefill },
			want: func(s *worker.Spec) {
				s.Runtime, s.Models, s.Labels = worker.SGLang, []worker.Model{{ID: "m"}}, sglang.Labels
				s.BootstrapPort, s.BootstrapSource = 9001, "engine"
			},
		},
		{
			name: "a bootstrap address", found: sglang,
			ask: func(s *worker.Spec) {
				s.Leg, s.BootstrapHost, s.BootstrapPort, s.BootstrapSource = worker.Prefill, "10.0.0.9", 8998, "api"
			},
			want: func(s *worker.Spec) {
				s.Runtime, s.Models, s.Labels = worker.SGLang, []worker.Model{{ID: "m"}}, sglang.Labels
			},
		},
		{
			name: "labels that are fields", found: Found{Labels: map[string]string{"kv_connector": "theirs", "kv_role": "theirs", "kv_engine_id": "theirs", "zone": "a"}},
			ask: func(s *worker.Spec) {
				s.KVConnector = "field"
				s.Labels = map[string]string{"kv_connector": "label", "kv_role": "label"}
			},
			want: func(s *worker.Spec) {
				s.KVRole, s.KVEngineID, s.Labels = "label", "theirs", map[string]string{"zone": "a"}
			},
		},
		{
			name: "limits of its own",
			ask: func(s *worker.Spec) {
				s.Priority, s.Cost, s.LoadInterval = 7, 0.5, time.Second
				s.Overload = worker.OverloadLimits{Waiting: 3, TokenUsage: 0.5}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{}
				r, stop := running(t, &prober{found: tt.found}, m, nil)
				defer stop()
				ask := asked(t, w1, tt.ask)
				want := ask.Clone()
				if tt.want != nil {
					tt.want(want)
				}
				want.RegisteredAt = time.Now()
				if err := r.Add(ask); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if diff := cmp.Diff(map[worker.ID]*worker.Spec{ask.ID: want}, m.now); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAddRefuses(t *testing.T) {
	tests := []struct {
		name   string
		before func(t *testing.T, r *Registrar, p *prober)
		want   error
	}{
		{name: "nothing", before: func(*testing.T, *Registrar, *prober) {}},
		{name: "one that is being registered", want: ErrRegistering, before: func(t *testing.T, r *Registrar, p *prober) {
			p.goods = map[string]int{w1: 1}
			add(t, r, w1, nil)
		}},
		{name: "one that was registered here", want: ErrRegistered, before: func(t *testing.T, r *Registrar, _ *prober) {
			add(t, r, w1, nil)
		}},
		{name: "one that somebody else has registered", want: ErrRegistered, before: func(t *testing.T, r *Registrar, _ *prober) {
			s := asked(t, w1, nil)
			r.Heard(s.ID, s)
		}},
		{name: "one that was removed", before: func(t *testing.T, r *Registrar, _ *prober) {
			s := add(t, r, w1, nil)
			if err := r.Remove(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "one too many", want: ErrFull, before: func(t *testing.T, r *Registrar, p *prober) {
			p.goods = map[string]int{}
			for i := range maxJobs {
				u := fmt.Sprintf("http://absent:%d", i+1)
				p.goods[u] = 1 << 30
				add(t, r, u, nil)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &prober{}
				r, stop := running(t, p, &memory{lag: time.Millisecond}, nil)
				defer stop()
				tt.before(t, r, p)
				if err := r.Add(asked(t, w1, nil)); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// add adds a worker and waits until all is done that can be done at once.
func add(t *testing.T, r *Registrar, url string, change func(*worker.Spec)) *worker.Spec {
	t.Helper()
	s := asked(t, url, change)
	if err := r.Add(s); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return s
}

func TestOneThatIsAddedIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prober{goods: map[string]int{w1: 4}}
		m := &memory{}
		r, stop := running(t, p, m, func(c *Config) { c.Interval, c.Timeout = 10*time.Second, 40*time.Second })
		defer stop()
		s := add(t, r, w1, nil)
		pass(time.Hour)
		if n := len(p.asked[w1]); n != 4 { // ceil(0.9 · 40 / 10)
			t.Errorf("asked %d times, want 4", n)
		}
		if _, ok := r.Job(s.ID); ok {
			t.Error("it has a job still")
		}
		add(t, r, w1, nil)
		if diff := cmp.Diff([]string{w1}, m.urls()); diff != "" {
			t.Errorf("added again (-want +got):\n%s", diff)
		}
	})
}

func TestJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prober{goods: map[string]int{w1: 1}}
		r, stop := running(t, p, &memory{lag: time.Second}, func(c *Config) { c.Interval = 10 * time.Second })
		defer stop()
		s := add(t, r, w1, nil)
		look := func(want Job, known bool) {
			t.Helper()
			synctest.Wait()
			got, ok := r.Job(s.ID)
			if ok {
				want.Worker = got.Worker
				if got.Worker.URL != w1 {
					t.Errorf("it is the job of %s", got.Worker.URL)
				}
			}
			if diff := cmp.Diff(want, got); ok != known || diff != "" {
				t.Errorf("known: %v (-want +got):\n%s", ok, diff)
			}
		}
		began := time.Now()
		look(Job{Reason: "connection refused", Since: began}, true)
		pass(10 * time.Second)
		// It is registered, but who shows workers does not know yet.
		look(Job{Trying: true, Since: began.Add(10 * time.Second)}, true)
		pass(time.Second)
		look(Job{}, false)
	})
}

func TestRemove(t *testing.T) {
	tests := []struct {
		name   string
		before func(t *testing.T, r *Registrar, p *prober, m *memory)
		want   error
		left   []string // that are stored
		tries  int      // of the worker, whatever time passes
	}{
		{name: "one that nobody knows", before: func(*testing.T, *Registrar, *prober, *memory) {}, want: ErrUnknown},
		{name: "one that was registered here", tries: 1, before: func(t *testing.T, r *Registrar, _ *prober, _ *memory) {
			add(t, r, w1, nil)
			pass(time.Second)
		}},
		{name: "one that was registered here just now", tries: 1, before: func(t *testing.T, r *Registrar, _ *prober, _ *memory) {
			add(t, r, w1, nil)
		}},
		{name: "one that somebody else has registered", before: func(t *testing.T, _ *Registrar, _ *prober, m *memory) {
			if err := m.Put(t.Context(), asked(t, w1, nil)); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}},
		{name: "one that does not answer", tries: 1, before: func(t *testing.T, r *Registrar, p *prober, _ *memory) {
			p.goods = map[string]int{w1: 1 << 30}
			add(t, r, w1, nil)
		}},
		{name: "one whose record could not be written", tries: 1, before: func(t *testing.T, r *Registrar, _ *prober, m *memory) {
			m.fails = 1
			add(t, r, w1, nil)
		}},
		{name: "when the store fails", want: errStore, left: []string{w1}, tries: 1, before: func(t *testing.T, r *Registrar, _ *prober, m *memory) {
			add(t, r, w1, nil)
			m.fails = 1
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, m := &prober{}, &memory{lag: 10 * time.Millisecond}
				r, stop := running(t, p, m, nil)
				defer stop()
				tt.before(t, r, p, m)
				if err := r.Remove(t.Context(), worker.IDOf(w1)); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				pass(long)
				if diff := cmp.Diff(tt.left, m.urls()); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
				if n := len(p.asked[w1]); n != tt.tries {
					t.Errorf("asked %d times, want %d", n, tt.tries)
				}
				if tt.left == nil { // it can come again
					p.goods = nil
					add(t, r, w1, nil)
					if diff := cmp.Diff([]string{w1}, m.urls()); diff != "" {
						t.Errorf("added again (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

func TestRemoveEndsTheJobOfANamedWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m := &prober{goods: map[string]int{w1: 2}}, &memory{}
		r, stop := running(t, p, m, func(c *Config) { c.Workers = []Candidate{{URL: w1}} })
		defer stop()
		if err := r.Remove(t.Context(), worker.IDOf(w1)); err != nil {
			t.Fatal(err)
		}
		pass(long)
		if n := len(p.asked[w1]); n != 1 || len(m.specs) != 0 {
			t.Errorf("asked %d times, %d records; want 1 and none", n, len(m.specs))
		}
	})
}

// A removal must be over before the same worker comes again, however late its news
// are: an old record would look like the new one's.
func TestRemoveWaitsForItsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lag: 500 * time.Millisecond}
		r, stop := running(t, &prober{}, m, nil)
		defer stop()
		for range 3 {
			s := add(t, r, w1, nil)
			pass(time.Second)
			began := time.Now()
			if err := r.Remove(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != m.lag {
				t.Errorf("it took %v, want %v", took, m.lag)
			}
		}
	})
}

func TestWorkersThatAreAddedAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow, fast = "http://a:1", "http://z:1"
		p, m := &prober{goods: map[string]int{slow: 1}}, &memory{}
		r, stop := running(t, p, m, nil)
		defer stop()
		first, second := add(t, r, slow, nil), add(t, r, fast, nil)
		pass(long)
		// The label of the first registered worker decides on its model's policy, so
		// the order is that in which they came up, on every replica.
		if m.now[second.ID].Compare(m.now[first.ID]) >= 0 {
			t.Errorf("%s, which answered first, is not before %s", fast, slow)
		}
		if first, second := m.specs[0].RegisteredAt, m.specs[1].RegisteredAt; !first.Before(second) {
			t.Errorf("registered at %v and %v", first, second)
		}
	})
}
