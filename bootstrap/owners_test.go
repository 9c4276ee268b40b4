package bootstrap

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"smg/worker"
)

// TestOwnersAgainstModel compares the look at all workers with one at each pair.
func TestOwnersAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 200 {
		r := &Registrar{own: map[worker.ID]*worker.Spec{}, heard: map[worker.ID]*worker.Spec{}, jobs: map[worker.ID]*job{}}
		for i := range 12 {
			s := asked(t, fmt.Sprintf("http://w%d:1", i), func(s *worker.Spec) {
				s.BootstrapHost, s.BootstrapPort = "p", uint16(rnd.IntN(4))
				if rank := rnd.IntN(4); rank < 2 {
					s.BaseURL, s.DPSize, s.DPRank = "http://base", 2, rank
				}
				s.RegisteredAt = time.Unix(int64(rnd.IntN(6)), 0)
				if rnd.IntN(3) == 0 {
					s.Labels = map[string]string{sharedLabel: "true"}
				}
			})
			switch rnd.IntN(3) {
			case 0:
				r.own[s.ID] = s
			case 1:
				r.heard[s.ID] = s
			default:
				r.jobs[s.ID] = &job{asked: s}
			}
		}
		all := r.owners()
		for _, s := range r.own {
			want := r.conflict(s)
			if got := all.conflict(s); got != want {
				t.Fatalf("%s: %q, want %q", s.URL, got, want)
			}
			if want != "" {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("there was no conflict")
	}
}

// BenchmarkOwners is one look of a gateway whose 10,000 prefill workers all have
// bootstrap addresses.
func BenchmarkOwners(b *testing.B) {
	r := &Registrar{own: map[worker.ID]*worker.Spec{}}
	for i := range 10_000 {
		s := &worker.Spec{ID: worker.IDOf(fmt.Sprint(i)), BootstrapHost: fmt.Sprint("p", i), BootstrapPort: 8998}
		r.own[s.ID] = s
	}
	for b.Loop() {
		all := r.owners()
		for _, s := range r.own {
			all.conflict(s)
		}
	}
}
