package radix_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"smg/policy/radix"
)

// A name W-n is of a weakness of the original that the test fails on.

// TestAllHoldersAreReturned is W-8: with more than 8 holders the original left some
// out, so that the least loaded one could be missing.
func TestAllHoldersAreReturned(t *testing.T) {
	f := radix.NewText(roomy)
	const fleet = 10_000
	places := make([]radix.Place, fleet)
	for i := range places {
		f.Match(&places[i], 0, "system prompt")
	}
	for i := range places {
		f.Insert(&places[i], id(i))
	}
	put(f, "system, exit", 3)
	got := look(f, "system prompt of somebody else")
	if got.Matched != 13 || len(got.Holders) != fleet {
		t.Fatalf("matched %d, %d holders", got.Matched, len(got.Holders))
	}
	for i, tenant := range got.Holders {
		if tenant != i {
			t.Fatalf("holder %d is %d", i, tenant)
		}
	}
	for tenant := range fleet {
		f.Remove(id(tenant))
	}
	want(t, "stats", radix.Stats{}, f.Stats())
}

// TestBudgetHoldsAtEveryInsert is W-9: the original looked every two minutes.
func TestBudgetHoldsAtEveryInsert(t *testing.T) {
	const budget = 1000
	f := radix.NewText(budget)
	var last string
	for i := range 2000 {
		last = fmt.Sprintf("%c%s %d", 'a'+i%7, strings.Repeat("x", i%90), i)
		put(f, last, i%5)
		if got := f.Stats().Units; got > budget {
			t.Fatalf("%d units after insert %d", got, i)
		}
	}
	sound(t, &f.Forest)

	want(t, "match of the last", len(last), look(f, last).Matched)
	before := f.Stats()
	want(t, "what does not fit is not inserted", true, put(f, strings.Repeat("long", budget), 1).Empty())
	want(t, "stats after what does not fit", before, f.Stats())
}

// TestMemoryIsBounded is W-9 too: the original counted characters alone, so that
// many small nodes took any amount of memory.
func TestMemoryIsBounded(t *testing.T) {
	const budget = 1 << 16
	f := radix.NewText(budget)
	for i := range 40_000 {
		put(f, string(rune('一'+i%20_000))+string(rune('a'+i/20_000)), i%2)
	}
	got := f.Stats()
	if got.Units > budget/2 || got.Units < 1000 || got.Bytes > 16*budget+1<<20 {
		t.Errorf("%+v", got)
	}
	sound(t, &f.Forest)
}

// TestMemoryIsGivenBack is the rest of W-9: what is counted is what is there, and an
// empty forest costs nothing.
func TestMemoryIsGivenBack(t *testing.T) {
	const nodes = 60_000
	before := heap()
	f := radix.NewText(roomy)
	for i := range nodes {
		put(f, fmt.Sprintf("%016x%s", uint64(i)*0x9e3779b97f4a7c15, strings.Repeat("t", 100)), i%3)
	}
	built, counted := heap()-before, f.Stats().Bytes
	if built > counted*5/4 || built < counted*3/5 {
		t.Errorf("%d bytes of memory, counted %d", built, counted)
	}
	for tenant := range 3 {
		f.Remove(id(tenant))
	}
	if left := heap() - before; left > built/20 {
		t.Errorf("%d bytes of %d are kept by an empty forest", left, built)
	}
	runtime.KeepAlive(f)
}

// TestSplitEdgesDoNotPinEachOther: a short node must not keep a long prompt in
// memory.
func TestSplitEdgesDoNotPinEachOther(t *testing.T) {
	const chars, most = 1 << 23, 1 << 17
	long := strings.Repeat("long one", chars/8)
	tests := []struct {
		name string
		keep string // of the long prompt
	}{
		{"the upper part", long[:1<<16]},
		{"halves of halves", long[:1<<16]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := heap()
			f := radix.NewText(roomy)
			put(f, long, 1)
			if tt.name == "halves of halves" {
				for n := chars / 8 * 7; n > len(tt.keep); n = n / 8 * 7 {
					put(f, long[:n], 1)
				}
			}
			put(f, tt.keep, 2)
			if counted, there := f.Stats().Bytes, heap()-before; counted < chars || there < chars || there > 2*chars {
				t.Errorf("%d bytes with the long prompt, counted %d", there, counted)
			}
			f.Remove(id(1))
			want(t, "match", len(tt.keep), look(f, long).Matched)
			if counted, there := f.Stats().Bytes, heap()-before; counted > most+1000 || there > most+100_000 {
				t.Errorf("%d bytes without it, counted %d", there, counted)
			}
			sound(t, &f.Forest)
		})
	}
}

// heap is the bytes of memory in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one finalised
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestUndo is W-19: the original kept what it recorded for requests that failed.
func TestUndo(t *testing.T) {
	tests := []struct {
		name  string
		since func(f *radix.Text) // after the insert
		want  []string
	}{
		{"nothing since", func(*radix.Text) {}, []string{"hello: 1"}},
		{"another tenant went the same way", func(f *radix.Text) { put(f, "hello world", 2) }, []string{"hello: 1 2", "hello world: 2"}},
		{"the same tenant used it", func(f *radix.Text) { put(f, "hello world", 1) }, []string{"hello: 1", "hello world: 1"}},
		{"the same tenant went on", func(f *radix.Text) { put(f, "hello world!", 1) }, []string{"hello: 1", "hello world: 1", "hello world!: 1"}},
		{"the same tenant branched off", func(f *radix.Text) { put(f, "hello woods", 1) }, []string{"hello: 1", "hello wo: 1", "hello woods: 1"}},
		{"the same tenant used a part", func(f *radix.Text) { put(f, "hello w", 1) }, []string{"hello: 1", "hello w: 1"}},
		{"another tenant split it", func(f *radix.Text) { put(f, "hello w", 2) }, []string{"hello: 1 2", "hello w: 2"}},
		{"it was evicted", func(f *radix.Text) { f.Evict(0) }, nil},
		{"it was evicted and inserted anew", func(f *radix.Text) { f.Evict(0); put(f, "hello world", 1) }, []string{"hello world: 1"}},
		{"its number is another node's", func(f *radix.Text) { f.Evict(0); put(f, "a", 1); put(f, "b", 1) }, []string{"a: 1", "b: 1"}},
		{"its tenant is gone", func(f *radix.Text) { f.Remove(id(1)) }, nil},
		{"its tenant is another", func(f *radix.Text) { f.Remove(id(1)); put(f, "hello world", 2) }, []string{"hello world: 2"}},
		{"its tenant came back", func(f *radix.Text) { f.Remove(id(1)); put(f, "hello world", 1) }, []string{"hello world: 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := radix.NewText(roomy)
			put(f, "hello", 1)
			r := put(f, "hello world", 1)
			tt.since(f)
			f.Undo(r)
			want(t, "nodes", tt.want, drawn(&f.Forest))
			f.Undo(r)
			want(t, "nodes after a second undo", tt.want, drawn(&f.Forest))
			sound(t, &f.Forest)
		})
	}
	t.Run("a spill gives all of the path back", func(t *testing.T) {
		f := radix.NewText(roomy)
		put(f, "a", 1)
		put(f, "abc", 1)
		f.Undo(put(f, "abcd", 2))
		want(t, "nodes", []string{"a: 1", "abc: 1"}, drawn(&f.Forest))
		want(t, "sizes", []int{3, -1}, sizes(&f.Forest, 2))
	})
	t.Run("what was held before stays", func(t *testing.T) {
		f := radix.NewText(roomy)
		put(f, "ab", 2)
		put(f, "abc", 1)
		r := put(f, "abd", 1)
		put(f, "ab", 2)
		f.Evict(f.Stats().Units - 1) // the c
		f.Undo(r)
		want(t, "nodes", []string{"ab: 1 2"}, drawn(&f.Forest))
	})
	t.Run("nothing new, nothing taken", func(t *testing.T) {
		f := radix.NewText(roomy)
		put(f, "abc", 1)
		r := put(f, "abc", 1)
		want(t, "nothing to undo", true, r.Empty())
		f.Undo(r)
		want(t, "nodes", []string{"abc: 1"}, drawn(&f.Forest))
	})
	t.Run("with a forest that gave its memory back", func(t *testing.T) {
		f := radix.NewText(roomy)
		var last radix.Receipt
		for i := range 10_000 {
			last = put(f, fmt.Sprintf("%d.", i), 1)
		}
		f.Register(id(1))
		f.Evict(0)
		f.Undo(last)
		var p radix.Place
		f.Match(&p, 0, "10.")
		put(f, "10.11", 1)
		f.Insert(&p, id(1))
		want(t, "nodes", []string{"10.: 1", "10.11: 1"}, drawn(&f.Forest))
	})
}

func TestNamespacesNeverMatch(t *testing.T) {
	f := radix.NewText(roomy)
	var p radix.Place
	for ns := range uint64(3) {
		f.Match(&p, ns<<60, "hello")
		want(t, "match in a new namespace", found{0, 5, nil}, foundOf(&p))
		f.Insert(&p, id(int(ns)+1))
		f.Match(&p, ns<<60, "hello")
		want(t, "match in the same", found{5, 5, []int{int(ns) + 1}}, foundOf(&p))
	}
	want(t, "namespaces", 3, f.Stats().Namespaces)
	want(t, "sizes", []int{5, 5, 5}, sizes(&f.Forest, 3))
	f.Remove(id(2))
	want(t, "namespaces after a removal", 2, f.Stats().Namespaces)
	sound(t, &f.Forest)
}

// TestPlaceOutlivesChanges: whatever happens between match and insert, the insert is
// that of its own text.
func TestPlaceOutlivesChanges(t *testing.T) {
	tests := []struct {
		name    string
		between func(f *radix.Text)
		want    []string
	}{
		{"nothing", func(*radix.Text) {}, []string{"abcdef: 1", "abcdefgh: 1", "abcdefxyz: 2"}},
		{"split above", func(f *radix.Text) { put(f, "abq", 3) }, []string{"ab: 1 2 3", "abcdef: 1 2", "abcdefgh: 1", "abcdefxyz: 2", "abq: 3"}},
		{"split at the place", func(f *radix.Text) { put(f, "abcdefq", 3) }, []string{"abcdef: 1 2 3", "abcdefgh: 1", "abcdefq: 3", "abcdefxyz: 2"}},
		{"split below", func(f *radix.Text) { put(f, "abcdefgq", 3) }, []string{"abcdef: 1 2 3", "abcdefg: 1 3", "abcdefgh: 1", "abcdefgq: 3", "abcdefxyz: 2"}},
		{"grown", func(f *radix.Text) { put(f, "abcdefxyq", 3) }, []string{"abcdef: 1 2 3", "abcdefgh: 1", "abcdefxy: 2 3", "abcdefxyq: 3", "abcdefxyz: 2"}},
		{"evicted", func(f *radix.Text) { f.Evict(0) }, []string{"abcdefxyz: 2"}},
		{"evicted and another in its place", func(f *radix.Text) { f.Evict(0); put(f, "0123456789", 3) }, []string{"0123456789: 3", "abcdefxyz: 2"}},
		{"evicted and the same again", func(f *radix.Text) { f.Evict(0); put(f, "abcdefgh", 3) }, []string{"abcdef: 2 3", "abcdefgh: 3", "abcdefxyz: 2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := radix.NewText(roomy)
			put(f, "abcdefgh", 1)
			var p radix.Place
			f.Match(&p, 0, "abcdefxyz")
			tt.between(f)
			f.Insert(&p, id(2))
			if tt.name == "nothing" {
				tt.want[0] = "abcdef: 1 2"
			}
			want(t, "nodes", tt.want, drawn(&f.Forest))
			sound(t, &f.Forest)
		})
	}
}

// TestMatchCostsNothingPerTenant is the tree's part of W-18.
func TestMatchCostsNothingPerTenant(t *testing.T) {
	f := radix.NewText(roomy)
	for tenant := range 10_000 {
		f.Register(id(tenant))
	}
	put(f, "hello", 1)
	var p radix.Place
	if allocs := testing.AllocsPerRun(10, func() {
		f.Match(&p, 0, "hello, world")
		p.Release()
	}); allocs != 0 {
		t.Errorf("a match allocates %g times", allocs)
	}
	want(t, "match", found{5, 12, []int{1}}, look(f, "hello, world"))
}

func TestTenantIndices(t *testing.T) {
	f := radix.NewText(roomy)
	for tenant := range 4 {
		put(f, "hello", tenant)
	}
	f.Remove(id(1))
	put(f, "hello", 5)
	var p radix.Place
	f.Match(&p, 0, "hello")
	got := map[int]int{}
	for _, h := range p.Holders {
		got[h.Index()] = tenantOf(h.ID())
	}
	want(t, "tenants by index", map[int]int{0: 0, 1: 5, 2: 2, 3: 3}, got)
}
