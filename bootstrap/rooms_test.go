package bootstrap

import (
	"encoding/json"
	"math"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

func quote(dst []byte, s string) []byte { return strconv.AppendQuote(dst, s) }

func TestRoomsInFlightDiffer(t *testing.T) {
	draws := []int64{5, 5, -1, 5, math.MaxInt64, 0}
	r := NewRooms(func() int64 { d := draws[0]; draws = draws[1:]; return d })
	if diff := cmp.Diff([]int64{5, math.MaxInt64}, r.Draw(2)); diff != "" {
		t.Errorf("rooms (-want +got):\n%s", diff)
	}
	if r.Release([]int64{5}); r.Len() != 1 {
		t.Errorf("%d rooms in flight, want 1", r.Len())
	}
	if diff := cmp.Diff([]int64{0}, r.Draw(1)); diff != "" {
		t.Errorf("rooms (-want +got):\n%s", diff)
	}
}

// TestField holds the reports of the field that concern rooms.
func TestField(t *testing.T) {
	t.Run("PD-03_rooms_fit_a_signed_integer", func(t *testing.T) {
		r := NewRooms(nil)
		seen := map[int64]bool{}
		for range 10_000 {
			b := New(&worker.Spec{BootstrapHost: "h", BootstrapPort: 9001}, r, 0)
			_, _, room := b.Values(quote)
			n, err := strconv.ParseInt(string(room), 10, 64)
			if err != nil || n < 0 || seen[n] {
				t.Fatalf("room %s: %v, or drawn before", room, err)
			}
			seen[n] = true
		}
	})
}

func TestValues(t *testing.T) {
	tests := []struct {
		name string
		b    Bootstrap
		want string
	}{
		{"one prompt", Bootstrap{Host: "h", Port: 9001, Rooms: []int64{7}}, `["h",9001,7]`},
		{"no port", Bootstrap{Host: "[::1]", Rooms: []int64{7}}, `["[::1]",null,7]`},
		{"a batch", Bootstrap{Host: "h", Port: 1, Rooms: []int64{7, 9007199254740993}, Batch: true}, `[["h","h"],[1,1],[7,9007199254740993]]`},
		{"a batch of one without a port", Bootstrap{Host: "h", Rooms: []int64{7}, Batch: true}, `[["h"],[null],[7]]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host, port, room := tt.b.Values(quote)
			got, err := json.Marshal([]json.RawMessage{host, port, room})
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRoomsFromManyGoroutines(t *testing.T) {
	r := NewRooms(nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 100 {
				r.Release(r.Draw(3))
			}
		})
	}
	wg.Wait()
	if r.Len() != 0 {
		t.Errorf("%d rooms left", r.Len())
	}
}
