package legs

import (
	"fmt"
	"testing"
	"time"

	"smg/worker"
)

// Of a thousand workers that have come, were probed and polled, and were removed,
// nothing is kept once they have been shown as gone for long enough.
func TestNothingIsKeptOfRemovedWorkers(t *testing.T) {
	const many = 1000
	inTime(t, nil, func(t *testing.T, s *site) {
		specs := make([]*worker.Spec, many)
		for i := range specs {
			url := fmt.Sprintf("http://w%d:1", i)
			specs[i] = &worker.Spec{ID: worker.IDOf(url), URL: url, Models: []worker.Model{{ID: fmt.Sprint("m", i%10)}}, RegisteredAt: time.Now()}
		}
		s.come(specs...)
		if n := len(s.registry.Workers()); n != many || len(s.keepers) != many {
			t.Fatalf("%d workers, %d kept", n, len(s.keepers))
		}
		if _, err := s.pick(1, "m1"); err != nil {
			t.Fatal(err)
		}
		for _, spec := range specs {
			s.remove(spec.ID)
		}
		series := func() (n int) { // of workers and of models
			families, err := s.reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					for _, l := range m.GetLabel() {
						if l.GetName() == "worker" || l.GetName() == "model" {
							n++
							break
						}
					}
				}
			}
			return n
		}
		if n := series(); n < many {
			t.Errorf("%d series, want those of workers that have just gone", n)
		}
		s.pass(goneFor + time.Minute)
		s.mu.Lock()
		kept := map[string]int{
			"keepers": len(s.keepers), "agenda": len(s.agenda.kept), "gone": len(s.gone), "news": len(s.news),
			"workers": len(s.registry.Workers()), "rhythms": len(s.rhythms),
		}
		s.mu.Unlock()
		for what, n := range kept {
			if n != 0 {
				t.Errorf("%s: %d are kept", what, n)
			}
		}
		if n := series(); n != 0 {
			t.Errorf("%d series of workers that are gone", n)
		}
		if ids, _ := s.registry.Models(); len(ids) != 0 {
			t.Errorf("models %v", ids)
		}
	})
}
