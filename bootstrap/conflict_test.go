package bootstrap

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

func TestBootstrapConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		r := registrar(t, &prober{}, m, func(c *Config) {
			c.Workers = []Candidate{
				{URL: "http://p:1", Leg: worker.Prefill, BootstrapPort: 8998, BootstrapSource: "cli"},
				{URL: "http://p:2", Leg: worker.Prefill, BootstrapPort: 8998, BootstrapSource: "cli"},
				{URL: "http://p:3", Leg: worker.Prefill, BootstrapPort: 8999, BootstrapSource: "cli"},
				{URL: "http://p:4", Leg: worker.Prefill},
				{URL: "http://p:5", Leg: worker.Prefill},
			}
		})
		run(t, r, long)
		if diff := cmp.Diff([]string{"http://p:2"}, m.conflicts()); diff != "" {
			t.Errorf("conflicts (-want +got):\n%s", diff)
		}
		if c := m.now[worker.IDOf("http://p:2")].Conflict; !strings.Contains(c, "bootstrap_port_conflict: http://p:1 has") {
			t.Errorf("conflict %q", c)
		}
	})
}

// prefill makes a worker one that decode meets at p:8998.
func prefill(s *worker.Spec) {
	s.Leg, s.BootstrapHost, s.BootstrapPort, s.BootstrapSource = worker.Prefill, "p", 8998, "spec"
}

func rank(s *worker.Spec) {
	prefill(s)
	s.DPSize, s.BaseURL = 2, "http://base:1"
}

func shared(s *worker.Spec) {
	prefill(s)
	s.Labels = map[string]string{sharedLabel: "true"}
}

func TestConflictsFollowTheFleet(t *testing.T) {
	const a, b, c = "http://a:1", "http://b:1", "http://c:1"
	const named = "http://p:1" // on the command line
	add := func(url string, change func(*worker.Spec)) func(*testing.T, *Registrar, *memory) {
		return func(t *testing.T, r *Registrar, _ *memory) { add(t, r, url, change) }
	}
	remove := func(url string) func(*testing.T, *Registrar, *memory) {
		return func(t *testing.T, r *Registrar, _ *memory) {
			if err := r.Remove(t.Context(), worker.IDOf(url)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// other is a worker that another process registers, at a time from now.
	other := func(url string, at time.Duration) func(*testing.T, *Registrar, *memory) {
		return func(t *testing.T, _ *Registrar, m *memory) {
			s := asked(t, url, prefill)
			s.RegisteredAt = time.Now().Add(at)
			if err := m.Put(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name  string
		named bool // that never answers
		steps []func(*testing.T, *Registrar, *memory)
		want  []string
	}{
		{name: "the later one", steps: []func(*testing.T, *Registrar, *memory){add(b, prefill), add(a, prefill)}, want: []string{a}},
		{name: "another leg too", steps: []func(*testing.T, *Registrar, *memory){add(b, prefill), add(a, func(s *worker.Spec) {
			prefill(s)
			s.Leg = worker.Encode
		})}, want: []string{a}},
		{name: "no port, no conflict", steps: []func(*testing.T, *Registrar, *memory){add(b, prefill), add(a, func(s *worker.Spec) {
			prefill(s)
			s.BootstrapPort = 0
		})}},
		{name: "the port that Mooncake has where none is given", steps: []func(*testing.T, *Registrar, *memory){add(b, prefill), add(a, func(s *worker.Spec) {
			prefill(s)
			s.BootstrapPort, s.KVConnector = 0, mooncake
		})}, want: []string{a}},
		{name: "ranks of one engine", steps: []func(*testing.T, *Registrar, *memory){add(b, rank), add(a, rank)}},
		{name: "ranks of another engine", steps: []func(*testing.T, *Registrar, *memory){add(c, prefill), add(b, rank), add(a, rank)}, want: []string{a, b}},
		{name: "both share a server", steps: []func(*testing.T, *Registrar, *memory){add(b, shared), add(a, shared)}},
		{name: "one alone says so", steps: []func(*testing.T, *Registrar, *memory){add(b, shared), add(a, prefill)}, want: []string{a}},
		{name: "the earlier one goes", steps: []func(*testing.T, *Registrar, *memory){add(b, prefill), add(a, prefill), add(c, prefill), remove(b)}, want: []string{c}},
		{name: "one comes back as the latest", steps: []func(*testing.T, *Registrar, *memory){add(a, prefill), add(b, prefill), remove(a), add(a, prefill)}, want: []string{a}},
		{name: "another process was earlier", steps: []func(*testing.T, *Registrar, *memory){add(a, prefill), other(b, -time.Hour)}, want: []string{a}},
		{name: "at the same time the URL decides", steps: []func(*testing.T, *Registrar, *memory){add(b, prefill), other(a, -time.Second)}, want: []string{b}},
		{name: "another process was later and settles its own", steps: []func(*testing.T, *Registrar, *memory){add(a, prefill), other(b, time.Hour)}},
		{name: "the other process's is removed", steps: []func(*testing.T, *Registrar, *memory){add(a, prefill), other(b, -time.Hour), remove(b)}},
		{name: "a named one that is still to come", named: true, steps: []func(*testing.T, *Registrar, *memory){add(b, prefill)}, want: []string{b}},
		{name: "a named one that will not come", named: true, steps: []func(*testing.T, *Registrar, *memory){add(b, prefill), remove(named)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{lag: time.Millisecond}
				r, stop := running(t, &prober{goods: map[string]int{named: 1 << 30}}, m, func(c *Config) {
					if tt.named {
						c.Workers = []Candidate{{URL: named, Leg: worker.Prefill, BootstrapPort: 8998}}
					}
				})
				defer stop()
				for _, step := range tt.steps {
					step(t, r, m)
					pass(time.Second)
				}
				synctest.Wait()
				if diff := cmp.Diff(tt.want, m.conflicts()); diff != "" {
					t.Errorf("conflicts (-want +got):\n%s", diff)
				}
				puts := slices.Clone(m.specs)
				pass(time.Hour)
				if len(m.specs) != len(puts) {
					t.Error("it does not settle")
				}
			})
		})
	}
}
