package bus_test

import (
	"fmt"
	"testing"
	"time"

	"smg/bus"
	"smg/bus/bustest"
)

// messages is how many values and marks a bucket has.
func messages(t *testing.T, c *bus.Conn, bucket string) uint64 {
	t.Helper()
	s, err := c.JetStream().Stream(t.Context(), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// Of a thousand keys that came and went no marks are left but the youngest, and what is
// there stays.
func TestOldMarksAreSwept(t *testing.T) {
	const keys = 1000
	server := bustest.Server(t)
	c := bustest.Connect(t, server)
	w, _ := follow(t, c, "b")
	w.awaitSync(t, 1)
	come := func(key string) {
		t.Helper()
		w.put(t, key, "1")
	}
	goes := func(key string) {
		t.Helper()
		if err := w.bucket.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	come("stays")
	for i := range keys {
		come(fmt.Sprint(i))
		goes(fmt.Sprint(i))
	}
	bustest.Await(t, "all marks", func() bool { return w.bucket.Marks() == keys })
	if n := messages(t, c, "b"); n != keys+1 {
		t.Fatalf("the bucket has %d messages, want a value and %d marks that are young", n, keys)
	}
	w.bucket.MarksFor(0)
	bustest.Await(t, "few marks", func() bool { // each deletion takes more than it brings
		goes("0")
		return messages(t, c, "b") < 20
	})
	other, _ := follow(t, bustest.Connect(t, server), "b")
	other.awaitSync(t, 1)
	other.await(t, map[string]string{"stays": "1"})
}

// A key that was put again is not swept with the mark of before.
func TestSweepSparesWhatIsPutAgain(t *testing.T) {
	server := bustest.Server(t)
	w, stop := follow(t, bustest.Connect(t, server), "b")
	w.awaitSync(t, 1)
	w.put(t, "x", "1")
	if err := w.bucket.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	bustest.Await(t, "the mark", func() bool { return w.bucket.Marks() == 1 })
	stop() // so that it does not hear
	w.put(t, "x", "2")
	w.bucket.MarksFor(-time.Hour)
	if err := w.bucket.Delete(t.Context(), "y"); err != nil {
		t.Fatal(err)
	}
	if n := w.bucket.Marks(); n != 0 {
		t.Errorf("%d marks are left", n)
	}
	other, _ := follow(t, bustest.Connect(t, server), "b")
	other.awaitSync(t, 1)
	other.await(t, map[string]string{"x": "2"})
}
