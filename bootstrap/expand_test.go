package bootstrap

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// TestExpansion registers engines where each of their ranks is a worker.
func TestExpansion(t *testing.T) {
	const url = "http://h:1"
	two := map[string]string{sizeLabel: "2"}
	tests := []struct {
		name  string
		off   bool // --dp-aware is
		url   string
		found Found
		label string // dp_size as asked for
		want  []string
	}{
		{"two ranks", false, url, Found{Runtime: worker.SGLang, Labels: two}, "", []string{url + "@0", url + "@1"}},
		{"one rank", false, url, Found{Runtime: worker.SGLang, Labels: map[string]string{sizeLabel: "1"}}, "", []string{url + "@0"}},
		{"not asked for", true, url, Found{Runtime: worker.SGLang, Labels: two}, "", []string{url}},
		{"an engine that does not say", false, url, Found{Runtime: worker.VLLM}, "", []string{url}},
		{"a label says", false, url, Found{Runtime: worker.VLLM}, "2", []string{url + "@0", url + "@1"}},
		{"one rank alone", true, url + "@1", Found{Runtime: worker.SGLang, Labels: two}, "", []string{url + "@1"}},
		{"a rank that there is not", true, url + "@2", Found{Runtime: worker.SGLang, Labels: two}, "", nil},
		{"too many", false, url, Found{Runtime: worker.SGLang, Labels: map[string]string{sizeLabel: "1000000"}}, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, m := &prober{found: tt.found}, &memory{lag: time.Millisecond}
				r, stop := running(t, p, m, func(c *Config) { c.DPAware = !tt.off })
				defer stop()
				add(t, r, tt.url, func(s *worker.Spec) {
					s.Leg, s.BootstrapPort = worker.Prefill, 9001
					if tt.label != "" {
						s.Labels = map[string]string{sizeLabel: tt.label}
					}
				})
				pass(time.Minute)
				if diff := cmp.Diff(tt.want, m.urls()); diff != "" {
					t.Fatalf("stored (-want +got):\n%s", diff)
				}
				for _, s := range m.now {
					if s.Base() != url || s.Conflict != "" || s.BootstrapPort != 9001 || s.BootstrapHost != "h" {
						t.Errorf("stored as %+v", s)
					}
				}
				if len(p.asked[url]) == 0 || len(p.asked) != 1 {
					t.Errorf("asked %v, want the engine's own URL alone", p.asked)
				}
			})
		})
	}
}

// TestRanksGoTogether adds an engine again, and removes it.
func TestRanksGoTogether(t *testing.T) {
	const url = "http://h:1"
	synctest.Test(t, func(t *testing.T) {
		p := &prober{found: Found{Runtime: worker.SGLang, Labels: map[string]string{sizeLabel: "12"}}}
		m := &memory{lag: time.Millisecond}
		r, stop := running(t, p, m, func(c *Config) { c.DPAware = true })
		defer stop()
		add(t, r, url, nil)
		pass(time.Second)
		ids := map[int]*worker.Spec{}
		for _, s := range m.now {
			ids[s.DPRank] = s
		}
		if len(ids) != 12 || ids[2].Compare(ids[10]) >= 0 || ids[10].Compare(ids[2]) <= 0 || ids[3].DPSize != 12 {
			t.Errorf("%d ranks, in a wrong order: %v", len(ids), m.urls())
		}
		for _, again := range []string{url, url + "@0"} {
			if err := r.Add(asked(t, again, nil)); !errors.Is(err, ErrRegistered) {
				t.Errorf("%s: %v, want %v", again, err, ErrRegistered)
			}
		}
		if err := r.Remove(t.Context(), worker.IDOf(url+"@3")); err != nil || len(m.urls()) != 11 {
			t.Errorf("%v, and %d are left", err, len(m.urls()))
		}
		pass(time.Second)
		if err := r.Remove(t.Context(), worker.IDOf(url)); err != nil || len(m.urls()) != 0 {
			t.Errorf("%v, and %d are left", err, len(m.urls()))
		}
		if err := r.Remove(t.Context(), worker.IDOf(url)); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v, want %v", err, ErrUnknown)
		}
	})
}

// TestRanksAreAskedAnew has the process behind ranks change.
func TestRanksAreAskedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m := &prober{found: Found{Runtime: worker.SGLang, Labels: map[string]string{sizeLabel: "2"}}}, &memory{lag: time.Millisecond}
		r, stop := running(t, p, m, func(c *Config) { c.DPAware = true })
		defer stop()
		add(t, r, "http://h:1", nil)
		pass(time.Second)
		id := worker.IDOf("http://h:1@1")
		p.becomes(Found{Runtime: worker.SGLang, Models: []string{"new"}, Labels: map[string]string{sizeLabel: "2"}}, nil)
		r.Process(id, 1, worker.Process{})
		r.Process(id, 2, worker.Process{})
		pass(time.Second)
		if s := m.now[id]; s == nil || s.ModelID() != "new" || s.DPRank != 1 || s.URL != "http://h:1@1" || len(m.now) != 2 {
			t.Errorf("stored as %+v, with %d others", s, len(m.now)-1)
		}
	})
}
