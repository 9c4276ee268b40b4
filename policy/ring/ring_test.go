package ring_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/policy/ring"
)

func workerURLs(n int) []string {
	urls := make([]string, n)
	for i := range urls {
		urls[i] = fmt.Sprintf("http://w%d:8000", i+1)
	}
	return urls
}

func anybody(int) bool { return true }

// owner is the URL that a key lies on.
func owner(r *ring.Ring, urls []string, key string) string {
	return urls[r.First(ring.Position([]byte(key)), anybody)]
}

func TestPosition(t *testing.T) {
	tests := []struct {
		name string
		want uint64
	}{
		{"http://w1:8000#0", 0x05893f24461a2751},
		{"user-123", 0x54b3e313138adb57},
	}
	for _, tt := range tests {
		if got := ring.Position([]byte(tt.name)); got != tt.want {
			t.Errorf("Position(%q) = %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

func TestPolicies(t *testing.T) {
	t.Run("CH-4 verified owners", verifiedOwners)
	t.Run("CH-9 only the keys of a lost worker move", lostWorker)
	t.Run("CH-15 one by one equals at once", oneByOne)
	t.Run("CH-16 the order of the URLs does not matter", anyOrder)
}

func verifiedOwners(t *testing.T) {
	urls := workerURLs(3)
	r := ring.New(urls)
	tests := []struct {
		key  string
		want []string // owner, and the next if it is down
	}{
		{"user-123", []string{"http://w3:8000", "http://w1:8000"}},
		{"user-0", []string{"http://w2:8000", "http://w1:8000"}},
		{"user-1", []string{"http://w3:8000", "http://w2:8000"}},
		{"user-2", []string{"http://w2:8000", "http://w3:8000"}},
		{"user-3", []string{"http://w3:8000", "http://w1:8000"}},
		{"session-abc-123", []string{"http://w1:8000", "http://w2:8000"}},
		{"conv", []string{"http://w2:8000", "http://w3:8000"}},
		{"a", []string{"http://w2:8000", "http://w1:8000"}},
		{"clé-café", []string{"http://w2:8000", "http://w1:8000"}},
	}
	for _, tt := range tests {
		position := ring.Position([]byte(tt.key))
		first := r.First(position, anybody)
		second := r.First(position, func(owner int) bool { return owner != first })
		if diff := gocmp.Diff(tt.want, []string{urls[first], urls[second]}); diff != "" {
			t.Errorf("owners of %q (-want +got):\n%s", tt.key, diff)
		}
	}

	four := workerURLs(4)
	r4 := r.Update(four)
	split, moved := map[string]int{}, map[string]int{}
	for i := range 10_000 {
		key := fmt.Sprintf("user-%d", i)
		before, after := owner(r, urls, key), owner(r4, four, key)
		split[before]++
		if before != after {
			moved[after]++
		}
	}
	if diff := gocmp.Diff(map[string]int{"http://w1:8000": 3362, "http://w2:8000": 3082, "http://w3:8000": 3556}, split); diff != "" {
		t.Errorf("split of 10,000 keys (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(map[string]int{"http://w4:8000": 2735}, moved); diff != "" {
		t.Errorf("keys moved by a fourth worker (-want +got):\n%s", diff)
	}
}

func lostWorker(t *testing.T) {
	urls := workerURLs(4)
	r := ring.New(urls)
	const lost = 2
	for i := range 100 {
		position := ring.Position(fmt.Appendf(nil, "key-%d", i))
		before := r.First(position, anybody)
		after := r.First(position, func(owner int) bool { return owner != lost })
		if before != lost && after != before {
			t.Errorf("key %d moved from %d to %d, although only %d is down", i, before, after, lost)
		}
		if after == lost {
			t.Errorf("key %d is still on the lost worker", i)
		}
	}
}

func oneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := workerURLs(8)
		var have []string
		r := ring.New(nil)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			u := rapid.SampledFrom(all).Draw(t, "url")
			if i := slices.Index(have, u); i >= 0 {
				have = slices.Delete(slices.Clone(have), i, i+1)
			} else {
				at := rapid.IntRange(0, len(have)).Draw(t, "at")
				have = slices.Insert(slices.Clone(have), at, u)
			}
			r = r.Update(have)
			sameRing(t, r, ring.New(have), have)
		}
	})
}

func sameRing(t *rapid.T, got, want *ring.Ring, urls []string) {
	t.Helper()
	if got.Len() != want.Len() {
		t.Fatalf("Len = %d, want %d", got.Len(), want.Len())
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		position, down := rnd.Uint64(), rnd.IntN(max(1, len(urls)))
		up := func(owner int) bool { return owner != down }
		if g, w := got.First(position, up), want.First(position, up); g != w {
			t.Fatalf("owner of %d with %d of %v down: %d, want %d", position, down, urls, g, w)
		}
	}
}

func anyOrder(t *testing.T) {
	urls := workerURLs(6)
	r := ring.New(urls)
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 5 {
		shuffled := slices.Clone(urls)
		rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		s := ring.New(shuffled)
		for i := range 200 {
			key := fmt.Sprintf("key-%d", i)
			if a, b := owner(r, urls, key), owner(s, shuffled, key); a != b {
				t.Fatalf("%q lies on %s or on %s, depending on the order of URLs", key, a, b)
			}
		}
	}
}

// naive is a ring as the specification words it.
type naive []naivePoint

type naivePoint struct {
	position uint64
	url      string
	owner    int
}

func newNaive(urls []string) naive {
	var n naive
	for i, u := range urls {
		if slices.Index(urls, u) != i {
			continue
		}
		for v := range 150 {
			n = append(n, naivePoint{ring.Position(fmt.Appendf(nil, "%s#%d", u, v)), u, i})
		}
	}
	slices.SortFunc(n, func(a, b naivePoint) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.url, b.url))
	})
	return n
}

// first is the owner that accept takes, and those that were asked, in order.
func (n naive) first(position uint64, accept func(int) bool) (owner int, asked []int) {
	start := max(0, slices.IndexFunc(n, func(p naivePoint) bool { return p.position >= position }))
	for i := range n {
		p := n[(start+i)%len(n)]
		if slices.Contains(asked, p.owner) {
			continue
		}
		asked = append(asked, p.owner)
		if accept(p.owner) {
			return p.owner, asked
		}
	}
	return -1, asked
}

// TestModel compares walks with the naive ring's, the order of the questions
// included: each owner is asked once, and nobody is asked after one accepted.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		urls := rapid.SliceOfN(rapid.StringMatching(`http://[a-d][0-9]?:[0-9]{1,2}(@[0-3])?`), 0, 24).Draw(t, "urls")
		r := ring.New(urls).Update(urls)
		model := newNaive(urls)
		for range 20 {
			position := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom(edges(model))).Draw(t, "position")
			up := rapid.SliceOfN(rapid.Bool(), len(urls), len(urls)).Draw(t, "up")
			want, wantAsked := model.first(position, func(owner int) bool { return up[owner] })
			var asked []int
			got := r.First(position, func(owner int) bool { asked = append(asked, owner); return up[owner] })
			if got != want {
				t.Fatalf("First(%#x) = %d, want %d", position, got, want)
			}
			if diff := gocmp.Diff(wantAsked, asked); diff != "" {
				t.Fatalf("asked (-want +got):\n%s", diff)
			}
		}
	})
}

// edges are positions on, before and behind points, and the ends of the circle.
func edges(n naive) []uint64 {
	at := []uint64{0, 1, 1<<64 - 1}
	for i, p := range n {
		if i%40 == 0 || i == len(n)-1 {
			at = append(at, p.position-1, p.position, p.position+1)
		}
	}
	return at
}

// TestLarge covers the sizes at which sorting, walking and remembering who was
// asked go other ways.
func TestLarge(t *testing.T) {
	urls := workerURLs(400)
	r, model := ring.New(urls), newNaive(urls)
	rnd := rand.New(rand.NewPCG(5, 6))
	for i := range 200 {
		position, chosen := rnd.Uint64(), rnd.IntN(len(urls))
		accept := func(owner int) bool { return owner == chosen }
		want, wantAsked := model.first(position, accept)
		var asked []int
		got := r.First(position, func(owner int) bool { asked = append(asked, owner); return accept(owner) })
		if got != want || !slices.Equal(asked, wantAsked) {
			t.Fatalf("walk %d: got %d after asking %v, want %d after %v", i, got, asked, want, wantAsked)
		}
	}
	asked := 0
	if got := r.First(0, func(int) bool { asked++; return false }); got != -1 || asked != len(urls) {
		t.Errorf("nobody accepts: got %d after %d questions, want -1 after %d", got, asked, len(urls))
	}

	huge := ring.New(workerURLs(16_400)) // more than the walk has room for on its stack
	asked = 0
	if got := huge.First(0, func(int) bool { asked++; return false }); got != -1 || asked != huge.Len() {
		t.Errorf("nobody of %d accepts: got %d after %d questions", huge.Len(), got, asked)
	}
}

func TestEmpty(t *testing.T) {
	if got := ring.New(nil).First(1, anybody); got != -1 {
		t.Errorf("First on an empty ring = %d, want -1", got)
	}
}

func TestFirstAllocatesNothing(t *testing.T) {
	r := ring.New(workerURLs(64))
	position := uint64(0)
	for _, last := range []int{0, 63} {
		if got := testing.AllocsPerRun(100, func() {
			position += 0x9e3779b97f4a7c15
			r.First(position, func(owner int) bool { return last == 0 || owner == last })
		}); got != 0 {
			t.Errorf("%v allocations", got)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int{4, 256, 10_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			urls := workerURLs(n)
			b.ReportAllocs()
			for b.Loop() {
				ring.New(urls)
			}
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{4, 256, 10_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			urls := workerURLs(n + 1)
			r := ring.New(urls[:n])
			b.ReportAllocs()
			for b.Loop() {
				r.Update(urls)
			}
		})
	}
}

func BenchmarkFirst(b *testing.B) {
	for _, n := range []int{4, 256, 10_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			r := ring.New(workerURLs(n))
			position := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				position += 0x9e3779b97f4a7c15
				r.First(position, anybody)
			}
		})
	}
}
