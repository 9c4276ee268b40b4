package worker

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sorted is what Workers is to be: everybody, put in order anew.
func sorted(r *Registry) []*Worker {
	r.mu.Lock()
	all := make([]*Worker, 0, len(r.workers))
	for _, c := range r.workers {
		all = append(all, c.now)
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b *Worker) int { return a.Spec.Compare(b.Spec) })
	return all
}

// modelsOf is what Models is to be.
func modelsOf(all []*Worker) (ids []string) {
	for _, w := range all {
		for _, m := range w.Spec.Models {
			if !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	return ids
}

// Whatever comes, goes and changes, the list is that of now, and the generation tells
// when the models may be others.
func TestRosterIsThatOfNow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRegistry(NewFold(), 3)
		seen := map[uint64][]string{}
		for seq := range uint64(rapid.IntRange(1, 30).Draw(t, "steps")) {
			w := rapid.IntRange(1, 6).Draw(t, "worker")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				r.Remove(specAt(w).ID)
			case 1:
				r.Install(readyAt(specAt(w).ID, seq+1))
			default:
				r.Put(specAt(w, rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2).Draw(t, "models")...))
			}
			want := sorted(r)
			if !slices.Equal(r.Workers(), want) {
				t.Fatalf("%v, want %v", r.Workers(), want)
			}
			ids, generation := r.Models()
			if d := cmp.Diff(modelsOf(want), ids); d != "" {
				t.Fatalf("models (-want +got):\n%s", d)
			}
			if before, ok := seen[generation]; ok && !slices.Equal(before, ids) {
				t.Fatalf("generation %d has the models %v and %v", generation, before, ids)
			}
			seen[generation] = ids
		}
	})
}

// Lists are made while workers come and go, each in order and without gaps.
func TestRosterConcurrent(t *testing.T) {
	r, _, specs := fleet(8)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 500 {
				all := r.Workers()
				if !slices.IsSortedFunc(all, func(a, b *Worker) int { return a.Spec.Compare(b.Spec) }) || len(all) < 7 {
					t.Errorf("%d workers, or in no order", len(all))
					return
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 500 {
			r.Install(readyAt(specs[i%8].ID, uint64(i+2)))
			r.Remove(specs[0].ID)
			r.Put(specs[0])
		}
	})
	wg.Wait()
}

// BenchmarkRoster is the lists of 10,000 workers, and what they were before: sorted anew
// for everybody who asked.
func BenchmarkRoster(b *testing.B) {
	r, _, _ := fleet(10_000)
	b.Run("workers", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Workers()
		}
	})
	b.Run("models", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Models()
		}
	})
	b.Run("workers_sorted", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sorted(r)
		}
	})
	b.Run("models_sorted", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			modelsOf(sorted(r))
		}
	})
}
