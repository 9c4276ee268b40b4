package bus_test

import (
	"errors"
	"sync"
	"testing"

	"smg/bus"
	"smg/bus/bustest"
)

func TestBucketChange(t *testing.T) {
	server := bustest.Server(t)
	a, _ := follow(t, bustest.Connect(t, server), "b")
	b, _ := follow(t, bustest.Connect(t, server), "b")
	a.awaitSync(t, 1)
	b.awaitSync(t, 1)
	errNo := errors.New("no")
	to := func(value string) func(*pair) (*pair, error) {
		return func(*pair) (*pair, error) { return &pair{"x", value}, nil }
	}
	if err := a.bucket.Change(t.Context(), "x", func(old *pair) (*pair, error) {
		if old != nil {
			t.Errorf("an empty bucket has %v", old)
		}
		return &pair{"x", "1"}, nil
	}); err != nil {
		t.Fatal(err)
	}
	// Somebody else writes between the look and the change: nothing of that is lost.
	asked := 0
	if err := b.bucket.Change(t.Context(), "x", func(old *pair) (*pair, error) {
		if asked++; asked == 1 {
			a.put(t, "x", "2")
		}
		return &pair{"x", old.value + "+"}, nil
	}); err != nil {
		t.Fatal(err)
	}
	a.await(t, map[string]string{"x": "2+"})
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
	if err := b.bucket.Change(t.Context(), "x", func(*pair) (*pair, error) {
		a.put(t, "x", "always")
		return &pair{"x", "never"}, nil
	}); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if err := b.bucket.Change(t.Context(), "x", func(*pair) (*pair, error) { return nil, errNo }); !errors.Is(err, errNo) {
		t.Errorf("got %v, want the change's own", err)
	}
	a.await(t, map[string]string{"x": "always"})
	if err := b.bucket.Change(t.Context(), "x", func(*pair) (*pair, error) { return nil, nil }); err != nil { //nolint:nilnil // deletes it
		t.Fatal(err)
	}
	a.await(t, map[string]string{})
	if err := b.bucket.Change(t.Context(), "x", func(*pair) (*pair, error) { return nil, nil }); err != nil { //nolint:nilnil // nothing is there
		t.Fatal(err)
	}
	if err := a.bucket.Change(t.Context(), "x", to("back")); err != nil { // after a deletion
		t.Fatal(err)
	}
	b.await(t, map[string]string{"x": "back"})
	var all sync.WaitGroup
	for _, w := range []*copyOf{a, b, a, b} {
		all.Go(func() {
			if err := w.bucket.Change(t.Context(), "x", func(old *pair) (*pair, error) { return &pair{"x", old.value + "!"}, nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	a.await(t, map[string]string{"x": "back!!!!"})
}

// What was deleted is told from what was never there.
func TestBucketDeleted(t *testing.T) {
	w, _ := follow(t, bustest.Connect(t, bustest.Server(t)), "b")
	w.awaitSync(t, 1)
	deleted := func(key string, want bool) {
		t.Helper()
		if got, err := w.bucket.Deleted(t.Context(), key); err != nil || got != want {
			t.Errorf("%s deleted: %v, want %v: %v", key, got, want, err)
		}
	}
	deleted("x", false)
	w.put(t, "x", "1")
	deleted("x", false)
	if err := w.bucket.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	deleted("x", true)
	deleted("y", false)
	w.put(t, "x", "2")
	deleted("x", false)
}

// A bucket that was removed is filled again with what others have made of it, not with
// what was put first.
func TestChangesAreFilledAgain(t *testing.T) {
	server := bustest.Server(t)
	owner, _ := follow(t, bustest.Connect(t, server), "b")
	owner.awaitSync(t, 1)
	owner.put(t, "x", "1")
	other := bus.NewBucket(bustest.Connect(t, server), pairs("b")) // which is not there to fill it
	if err := other.Change(t.Context(), "x", func(*pair) (*pair, error) { return &pair{"x", "2"}, nil }); err != nil {
		t.Fatal(err)
	}
	owner.await(t, map[string]string{"x": "2"})
	if err := jetStream(t, server).DeleteKeyValue(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	owner.put(t, "z", "1") // makes it again
	fresh, _ := follow(t, bustest.Connect(t, server), "b")
	fresh.await(t, map[string]string{"x": "2", "z": "1"})
}
