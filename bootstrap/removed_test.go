package bootstrap

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"smg/worker"
)

// Of a thousand workers that were registered and removed here, at once, by a drain, and
// by others, nothing is kept, nor of one whose removal nobody tells of.
func TestNothingIsKeptOfRemovedWorkers(t *testing.T) {
	const many = 1000
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lag: time.Millisecond}
		r, stop := running(t, &prober{found: Found{Models: []string{"m"}}}, m, func(c *Config) { c.Settle = time.Second })
		defer stop()
		ids := make([]worker.ID, many)
		for i := range ids {
			s := asked(t, fmt.Sprintf("http://w%d:1", i), nil)
			ids[i] = s.ID
			if err := r.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		kept := func() map[string]int {
			r.mu.Lock()
			defer r.mu.Unlock()
			return map[string]int{
				"jobs": len(r.jobs), "own": len(r.own), "known": len(r.known), "heard": len(r.heard), "gone": len(r.gone),
				"leaving": len(r.leaving), "failed": len(r.failed), "remarked": len(r.remarked),
			}
		}
		if k := kept(); k["own"] != many || k["known"] != many || k["heard"] != many || k["jobs"] != 0 {
			t.Fatalf("registered: %v", k)
		}
		for i, id := range ids {
			var err error
			switch i % 3 {
			case 0:
				err = r.Remove(t.Context(), id)
			case 1:
				err = r.Drain(t.Context(), id)
			default:
				err = m.Delete(t.Context(), id)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		for what, n := range kept() {
			if n != 0 {
				t.Errorf("%s: %d are kept", what, n)
			}
		}

		s := asked(t, "http://silent:1", nil)
		if err := r.Add(s); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		m.mu.Lock()
		m.hear = nil // it was told of the removal of before
		m.mu.Unlock()
		if err := r.Remove(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		if n := kept()["gone"]; n != 0 {
			t.Errorf("%d removals are waited for", n)
		}
	})
}
