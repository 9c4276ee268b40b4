package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// journal notes what happens, in order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) note(e string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

func TestStagesStopInReverseOrder(t *testing.T) {
	var j journal
	running := make(chan string, 3) // one for each stage
	stages := func(names ...string) (all []Stage) {
		for _, n := range names {
			all = append(all, Stage{n, func(ctx context.Context) error {
				running <- n
				<-ctx.Done()
				j.note(n)
				return nil
			}})
		}
		return all
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 3 {
			<-running
		}
		cancel()
	}()
	if err := RunStages(ctx, stages("bus", "selector", "API")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"API", "selector", "bus"}, j.events); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
}

func TestAStageThatFailsEndsTheOthers(t *testing.T) {
	boom := errors.New("boom")
	var j journal
	err := RunStages(t.Context(), []Stage{
		{"below", func(ctx context.Context) error { <-ctx.Done(); j.note("below"); return nil }},
		{"broken", func(context.Context) error { return boom }},
		{"above", func(ctx context.Context) error { <-ctx.Done(); j.note("above"); return nil }},
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want %v", err, boom)
	}
	if want := []string{"above", "below"}; !slices.Equal(j.events, want) {
		t.Errorf("stopped %v, want %v", j.events, want)
	}
}
