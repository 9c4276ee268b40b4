package ingress

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"smg/worker"
)

func TestEngineIDs(t *testing.T) {
	w := &worker.Spec{ID: worker.ID{1}, BootstrapHost: "h", KVEngineID: "registered"}
	type step struct {
		epoch uint64
		says  map[int]string // nil: nobody answers
		wait  time.Duration
		want  string
		asked int // so far
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"each process is asked once", []step{{5, map[int]string{0: "a"}, 0, "a", 1}, {5, map[int]string{0: "b"}, 0, "a", 1}, {6, map[int]string{0: "b"}, 0, "b", 2}, {5, nil, 0, "b", 2}}},
		{"who does not answer is asked again later", []step{{5, nil, 0, "registered", 1}, {5, map[int]string{0: "a"}, time.Second, "registered", 1}, {5, map[int]string{0: "a"}, engineIDPause, "a", 2}}},
		{"one that names several", []step{{5, map[int]string{0: "a", 1: "b"}, 0, "registered", 1}}},
		{"an epoch that is not known", []step{{0, map[int]string{0: "a"}, 0, "registered", 0}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				var says map[int]string
				e := engineIDs{now: time.Now, ask: func(_ context.Context, url string) (map[int]string, error) {
					asked++
					if url != "http://h:8998" {
						t.Errorf("asked at %s", url)
					}
					if says == nil {
						return nil, errors.New("nobody there")
					}
					return says, nil
				}}
				for i, s := range tt.steps {
					time.Sleep(s.wait)
					says = s.says
					if got, ok := e.of(t.Context(), w, s.epoch); got != s.want || !ok || asked != s.asked {
						t.Errorf("step %d: %q after %d questions, want %q after %d", i, got, asked, s.want, s.asked)
					}
				}
			})
		})
	}
	t.Run("forgotten", func(t *testing.T) {
		id := "a"
		e := engineIDs{now: time.Now, ask: func(context.Context, string) (map[int]string, error) { return map[int]string{0: id}, nil }}
		e.of(t.Context(), w, 5)
		id = "b"
		e.forget(w.ID)
		if got, _ := e.of(t.Context(), w, 5); got != "b" {
			t.Errorf("got %q, want b", got)
		}
	})
	t.Run("a rank", func(t *testing.T) {
		e := engineIDs{now: time.Now, ask: func(context.Context, string) (map[int]string, error) {
			return map[int]string{0: "x_dp0", 1: "x_dp1"}, nil
		}}
		ranked := &worker.Spec{ID: worker.ID{1}, KVEngineID: "registered", DPSize: 2, DPRank: 1}
		if got, _ := e.of(t.Context(), ranked, 5); got != "x_dp1" {
			t.Errorf("got %q, want x_dp1", got)
		}
	})
	t.Run("many at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			e := engineIDs{now: time.Now, ask: func(context.Context, string) (map[int]string, error) {
				asked++ // of one goroutine, or the race detector says so
				time.Sleep(time.Millisecond)
				return map[int]string{0: "a"}, nil
			}}
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if got, _ := e.of(t.Context(), w, 5); got != "a" {
						t.Errorf("got %q, want a", got)
					}
				})
			}
			wg.Wait()
			if asked != 1 {
				t.Errorf("asked %d times, want once", asked)
			}
		})
	})
}

// TestEngineIDOfLabels: what a worker's labels say of its ranks holds, although a
// selector in another process does not tell of them.
func TestEngineIDOfLabels(t *testing.T) {
	g := start(t, []string{"http://127.0.0.1:1"})
	known := g.fleet.workers[0].Spec
	known.KVEngineID = "e"
	picked := &worker.Spec{ID: known.ID, URL: known.URL, KVEngineID: "e"}
	for label, want := range map[string]bool{"": true, "1": true, "4": false} {
		if known.Labels = nil; label != "" {
			known.Labels = map[string]string{"dp_size": label}
		}
		if id, ok := g.Server.mooncakeID(t.Context(), picked, 1); ok != want || ok && id != "e" {
			t.Errorf("dp_size %q: %q, %v", label, id, ok)
		}
	}
	known.KVEngineID = "another" // registered anew since
	if id, ok := g.Server.mooncakeID(t.Context(), picked, 1); !ok || id != "e" {
		t.Errorf("of another registration: %q, %v", id, ok)
	}
}
