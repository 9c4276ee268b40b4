package kvindex

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTableProperty compares a table with a map. Keys crowd at both ends, where a
// search must stop before the first slot and before the last.
func TestTableProperty(t *testing.T) {
	keys := rapid.OneOf(
		rapid.Uint64Max(vacant-1),
		rapid.Uint64Max(40),
		rapid.Uint64Range(vacant-200, vacant-1),
		rapid.Uint64Range(1<<63, 1<<63+40),
	)
	rapid.Check(t, func(t *rapid.T) {
		var tab table[int]
		want := map[uint64]int{}
		value := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				for _, key := range rapid.SliceOfN(keys, 1, 60).Draw(t, "keys") {
					value++
					at, found := tab.put(key)
					if old, there := want[key]; found != there || *at != old {
						t.Fatalf("put(%#x) finds %d, %t; want %d, %t", key, *at, found, old, there)
					}
					*at, want[key] = value, value
				}
			},
			"take": func(t *rapid.T) {
				for _, key := range rapid.SliceOfN(keys, 1, 60).Draw(t, "keys") {
					got, found := tab.take(key)
					if old, there := want[key]; found != there || got != old {
						t.Fatalf("take(%#x) = %d, %t; want %d, %t", key, got, found, old, there)
					}
					delete(want, key)
				}
				tab.fit()
			},
			"take most": func(t *rapid.T) {
				for key := range want {
					if len(want) < 3 {
						break
					}
					tab.take(key)
					delete(want, key)
				}
				if rapid.Bool().Draw(t, "fit") {
					tab.fit()
				}
			},
			"": func(t *rapid.T) {
				checkTable(t, &tab)
				if tab.n != len(want) {
					t.Fatalf("%d keys, want %d", tab.n, len(want))
				}
				for key, value := range want {
					if at := tab.find(key); at == nil || *at != value {
						t.Fatalf("key %#x is lost", key)
					}
				}
				if key := keys.Draw(t, "key"); tab.find(key) != nil && want[key] == 0 {
					t.Fatalf("key %#x was never put", key)
				}
			},
		})
	})
}

func TestTableCrowdedAtTheEnd(t *testing.T) {
	var tab table[int]
	for i := range 1000 { // all with the last home
		at, _ := tab.put(vacant - 1 - uint64(i))
		*at = i
	}
	checkTable(t, &tab)
	for i := range 1000 {
		if at := tab.find(vacant - 1 - uint64(i)); at == nil || *at != i {
			t.Fatalf("key %d is lost", i)
		}
	}
	if tab.find(vacant-1001) != nil {
		t.Error("a key that was never put")
	}
	if n := len(tab.slots); n > 4000 {
		t.Errorf("%d slots for 1000 keys", n)
	}
}

func TestTableWalk(t *testing.T) {
	var tab table[int]
	want := []uint64{0, 1, 1 << 40, 1 << 63, vacant - 2, vacant - 1}
	for _, key := range want {
		tab.put(key)
	}
	var got []uint64
	var room [2]slot[int]
	for from := uint64(0); ; {
		some := tab.walk(from, room[:0])
		if len(some) == 0 {
			break
		}
		for _, s := range some {
			got = append(got, s.key)
			if s.key == 1<<40 {
				for i := range 100 { // it grows while it is walked
					tab.put(2 + uint64(i))
				}
			}
		}
		from = some[len(some)-1].key + 1
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("walk (-want +got):\n%s", diff)
	}
}

func TestTableGivesMemoryBack(t *testing.T) {
	var tab table[int]
	for i := range 10_000 {
		tab.put(spread(uint64(i)))
	}
	full := len(tab.slots)
	if per := float64(full) / 10_000; per > 1.5 {
		t.Errorf("%.2f slots for a key", per)
	}
	for i := range 9_000 {
		tab.take(spread(uint64(i)))
	}
	tab.fit()
	if len(tab.slots) > full/4 {
		t.Errorf("%d slots of %d for a tenth of the keys", len(tab.slots), full)
	}
	for i := range 10_000 {
		tab.take(spread(uint64(i)))
	}
	tab.fit()
	if tab.slots != nil {
		t.Errorf("%d slots for nothing", len(tab.slots))
	}
}

func TestSpread(t *testing.T) {
	xs := []uint64{0, 1, 2, math.MaxUint64, math.MaxUint64 - 1, 1 << 63}
	seen := map[uint64]bool{}
	for _, x := range xs {
		seen[spread(x)] = true
	}
	if len(seen) != len(xs) || seen[vacant] {
		t.Errorf("spread keys of %v: %v", xs, seen)
	}
	// The one number that would be a vacant key. Undo the steps of spread.
	x := uint64(vacant)
	x ^= x>>31 ^ x>>62
	x *= inverse(0x94d049bb133111eb)
	x ^= x>>27 ^ x>>54
	x *= inverse(0xbf58476d1ce4e5b9)
	x ^= x>>30 ^ x>>60
	if got := spread(x); got != vacant-1 {
		t.Errorf("spread(%#x) = %#x, want the last key", x, got)
	}
}

// inverse is the number whose product with odd a is 1.
func inverse(a uint64) uint64 {
	x := a
	for range 6 {
		x *= 2 - a*x
	}
	return x
}
