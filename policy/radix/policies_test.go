package radix_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"smg/policy/radix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// roomy is a budget that no test reaches by chance.
const roomy = 1 << 30

// TestPolicies runs the numbered cases of the specification.
func TestPolicies(t *testing.T) {
	cases := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"TR-1 holders of the deepest node", deepestHolders},
		{"TR-2 a shared beginning is a node", sharedBeginning},
		{"TR-3 partial edge", partialEdge},
		{"TR-4 prefix and extension", prefixAndExtension},
		{"TR-5 multi-byte characters", multiByte},
		{"TR-6 a registered tenant has size 0", registered},
		{"TR-7 one pass equals two", onePass},
		{"TR-8 the same insert counts once", countsOnce},
		{"TR-9 sizes equal a full walk", fullWalk},
		{"TR-10 eviction", eviction},
		{"TR-11 removal", removal},
		{"TR-12 pages of tokens", pagesOfTokens},
		{"TR-13 concurrent splits", concurrentSplits},
		{"CA-30 budget", budget},
	}
	for _, tt := range cases {
		t.Run(tt.name, tt.run)
	}
}

// put inserts text for a tenant in namespace 0.
func put(f *radix.Text, text string, tenant int) radix.Receipt {
	var p radix.Place
	f.Match(&p, 0, text)
	return f.Insert(&p, id(tenant))
}

// found is what a match says.
type found struct {
	Matched, Input int
	Holders        []int
}

func look(f *radix.Text, text string) found {
	var p radix.Place
	f.Match(&p, 0, text)
	return foundOf(&p)
}

func foundOf(p *radix.Place) found {
	out := found{Matched: p.Matched, Input: p.Input}
	for _, h := range p.Holders {
		out.Holders = append(out.Holders, tenantOf(h.ID()))
	}
	slices.Sort(out.Holders)
	return out
}

// sizes are the units of tenants 1 and so on, -1 for those that are none.
func sizes(f *radix.Forest, upTo int) []int {
	var out []int
	for tenant := 1; tenant <= upTo; tenant++ {
		size, ok := f.Size(id(tenant))
		if !ok {
			size = -1
		}
		out = append(out, size)
	}
	return out
}

// drawn lists the nodes by path, each with its holders.
func drawn(f *radix.Forest) []string {
	var out []string
	for _, n := range sorted(f.Nodes()) {
		line := n.Path + ":"
		for _, h := range n.Holders {
			line += fmt.Sprintf(" %d", tenantOf(h))
		}
		out = append(out, line)
	}
	return out
}

func want[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func sound(t *testing.T, f *radix.Forest) {
	t.Helper()
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

func deepestHolders(t *testing.T) {
	f := radix.NewText(roomy)
	put(f, "hello world", 1)
	put(f, "hello world", 2)
	put(f, "hello", 3)
	want(t, "match of hello world", found{11, 11, []int{1, 2}}, look(f, "hello world"))
	want(t, "match of hello", found{5, 5, []int{1, 2, 3}}, look(f, "hello"))
	want(t, "match of zzz", found{0, 3, nil}, look(f, "zzz"))
	sound(t, &f.Forest)
}

func sharedBeginning(t *testing.T) {
	f := radix.NewText(roomy)
	put(f, "apple", 1)
	put(f, "apricot", 1)
	want(t, "nodes", []string{"ap: 1", "apple: 1", "apricot: 1"}, drawn(&f.Forest))
	want(t, "sizes", []int{10}, sizes(&f.Forest, 1))
	sound(t, &f.Forest)
}

func partialEdge(t *testing.T) {
	f := radix.NewText(roomy)
	put(f, "abcdef", 1)
	want(t, "match", found{3, 6, []int{1}}, look(f, "abcxyz"))
	put(f, "abcxyz", 2)
	want(t, "nodes", []string{"abc: 1 2", "abcdef: 1", "abcxyz: 2"}, drawn(&f.Forest))
	want(t, "sizes", []int{6, 6}, sizes(&f.Forest, 2))
	sound(t, &f.Forest)
}

func prefixAndExtension(t *testing.T) {
	tests := []struct {
		name   string
		second string
		nodes  []string
		sizes  []int
	}{
		{"prefix", "hel", []string{"hel: 1 2", "hello: 1"}, []int{5, 3}},
		{"extension", "hello!", []string{"hello: 1 2", "hello!: 2"}, []int{5, 6}},
		{"the same", "hello", []string{"hello: 1 2"}, []int{5, 5}},
		{"divergence", "help!", []string{"hel: 1 2", "hello: 1", "help!: 2"}, []int{5, 5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := radix.NewText(roomy)
			put(f, "hello", 1)
			put(f, tt.second, 2)
			want(t, "nodes", tt.nodes, drawn(&f.Forest))
			want(t, "sizes", tt.sizes, sizes(&f.Forest, 2))
			want(t, "total", tt.sizes[0]+tt.sizes[1], f.Stats().Units)
			for _, text := range []string{"hello", tt.second} {
				if got := look(f, text); got.Matched != got.Input {
					t.Errorf("%q is lost: %+v", text, got)
				}
			}
			sound(t, &f.Forest)
		})
	}
	t.Run("the example of section 7.4", func(t *testing.T) {
		f := radix.NewText(roomy)
		var totals []int
		for _, in := range []struct {
			text   string
			tenant int
		}{{"hello", 1}, {"hello", 2}, {"help!", 1}} {
			put(f, in.text, in.tenant)
			totals = append(totals, f.Stats().Units)
		}
		want(t, "totals", []int{5, 10, 12}, totals)
	})
}

func multiByte(t *testing.T) {
	tests := []struct {
		name         string
		first, query string
		want         found
	}{
		{"characters, not bytes", "你好世界", "你好吗", found{2, 3, []int{1}}},
		{"the same first byte", "你好", "世界", found{0, 2, nil}},
		{"emoji", "😀😁", "😀😂", found{1, 2, []int{1}}},
		{"between scalar values of a cluster", "e\u0301a", "e\u0302a", found{1, 3, []int{1}}},
		{"joined emoji", "👩\u200d🚀", "👩\u200d🎓", found{2, 3, []int{1}}},
		{"ASCII beside it", "caf\u00e9", "cafe", found{3, 4, []int{1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := radix.NewText(roomy)
			put(f, tt.first, 1)
			want(t, "match", tt.want, look(f, tt.query))
			put(f, tt.query, 2)
			for _, n := range f.Nodes() {
				if !utf8.ValidString(n.Path) {
					t.Errorf("a node ends within a character: %q", n.Path)
				}
			}
			want(t, "sizes", []int{utf8.RuneCountInString(tt.first), utf8.RuneCountInString(tt.query)}, sizes(&f.Forest, 2))
			want(t, "match of the first", utf8.RuneCountInString(tt.first), look(f, tt.first).Matched)
			want(t, "match of the query", utf8.RuneCountInString(tt.query), look(f, tt.query).Matched)
			sound(t, &f.Forest)
		})
	}
}

func registered(t *testing.T) {
	f := radix.NewText(roomy)
	f.Register(id(1))
	f.Register(id(1))
	want(t, "sizes", []int{0, -1}, sizes(&f.Forest, 2))
	want(t, "stats", radix.Stats{Tenants: 1}, f.Stats())
	want(t, "match", found{0, 5, nil}, look(f, "hello"))
	want(t, "match of nothing", found{0, 0, nil}, look(f, ""))
	put(f, "hello", 1)
	put(f, "hello", 2)
	want(t, "match of nothing", found{0, 0, nil}, look(f, ""))
	f.Evict(0)
	want(t, "sizes once evicted", []int{0, -1}, sizes(&f.Forest, 2))
	sound(t, &f.Forest)
}

func onePass(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	once, twice := radix.NewText(200), radix.NewText(200)
	for range 500 {
		text := strings.Repeat("ab", r.IntN(3)) + fmt.Sprint(r.IntN(200))
		tenant := r.IntN(4) + 1
		var p radix.Place
		once.Match(&p, 0, text)
		first := foundOf(&p)
		want(t, "match", look(twice, text), first)
		if r.IntN(4) == 0 { // no worker was chosen
			p.Release()
			continue
		}
		once.Insert(&p, id(tenant))
		want(t, "the place after the insert", first, foundOf(&p))
		put(twice, text, tenant)
	}
	want(t, "nodes", drawn(&twice.Forest), drawn(&once.Forest))
	want(t, "sizes", sizes(&twice.Forest, 4), sizes(&once.Forest, 4))
	sound(t, &once.Forest)

	before := once.Stats()
	var p radix.Place
	once.Match(&p, 0, "never seen")
	p.Release()
	want(t, "nothing inserted", true, once.Insert(&p, id(1)).Empty())
	want(t, "stats when nobody was chosen", before, once.Stats())
}

func countsOnce(t *testing.T) {
	f := radix.NewText(roomy)
	for range 3 {
		put(f, "hello world", 1)
	}
	want(t, "sizes", []int{11}, sizes(&f.Forest, 1))
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { put(f, "hello there", 2) })
	}
	wg.Wait()
	want(t, "sizes", []int{11, 11}, sizes(&f.Forest, 2))
	want(t, "nodes", []string{"hello : 1 2", "hello there: 2", "hello world: 1"}, drawn(&f.Forest))
	sound(t, &f.Forest)
}

// fullWalk is about accounting and so runs everything at once, over and over.
func fullWalk(t *testing.T) {
	const goroutines, rounds = 6, 400
	f := radix.NewText(600)
	tokens := radix.NewTokens(2, 600)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 9))
			var p, q radix.Place
			var receipts, tokenReceipts []radix.Receipt
			for range rounds {
				text := []rune(strings.Repeat("ab你", 8))[:r.IntN(20)]
				for i := range text {
					if r.IntN(12) == 0 {
						text[i] = 'x'
					}
				}
				ns := r.Uint64N(2)
				f.Match(&p, ns, string(text))
				tokens.Match(&q, ns, pagesOf(string(text), 1))
				if p.Matched > p.Input || q.Matched > q.Input {
					t.Errorf("matched %d of %d and %d of %d", p.Matched, p.Input, q.Matched, q.Input)
				}
				tenant := id(r.IntN(5))
				receipts = append(receipts, f.Insert(&p, tenant))
				tokenReceipts = append(tokenReceipts, tokens.Insert(&q, tenant))
				i := r.IntN(len(receipts))
				switch r.IntN(12) {
				case 0, 1, 2:
					f.Undo(receipts[i])
					tokens.Undo(tokenReceipts[i])
				case 3:
					f.Remove(tenant)
					tokens.Remove(tenant)
				case 4:
					f.Register(tenant)
				case 5:
					f.Evict(r.IntN(600))
					tokens.Evict(r.IntN(600))
				case 6:
					sound(t, &f.Forest)
					sound(t, &tokens.Forest)
				}
			}
		})
	}
	wg.Wait()
	sound(t, &f.Forest)
	sound(t, &tokens.Forest)
	if f.Stats().Units == 0 || f.Stats().Units > 600 || tokens.Stats().Units > 600 {
		t.Errorf("left: %+v and %+v", f.Stats(), tokens.Stats())
	}
	f.Evict(0)
	tokens.Evict(0)
	want(t, "tokens once evicted", radix.Stats{}, tokens.Stats())
}

func eviction(t *testing.T) {
	fill := func() *radix.Text {
		f := radix.NewText(roomy)
		put(f, "hello", 1) // the oldest
		put(f, "hello world", 2)
		put(f, "hello there", 1)
		put(f, "hi", 3)
		return f
	}
	tests := []struct {
		name   string
		budget int
		want   []string
	}{
		{"under budget", 24, []string{"h: 1 2 3", "hello: 1 2", "hello : 1 2", "hello there: 1", "hello world: 2", "hi: 3"}},
		// 1 used "hello" first of all, but holds more below it: " world" is the
		// oldest leaf, and then all that is left of 2's path.
		{"the oldest leaf", 23, []string{"h: 1 2 3", "hello: 1 2", "hello : 1 2", "hello there: 1", "hi: 3"}},
		{"shared nodes survive for whoever needs them", 13, []string{"h: 1 3", "hello: 1", "hello : 1", "hello there: 1", "hi: 3"}},
		{"the next oldest", 2, []string{"h: 3", "hi: 3"}},
		{"nothing", 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := fill()
			f.Evict(tt.budget)
			want(t, "nodes", tt.want, drawn(&f.Forest))
			if got := f.Stats().Units; got > tt.budget {
				t.Errorf("%d units for a budget of %d", got, tt.budget)
			}
			sound(t, &f.Forest)
		})
	}
	t.Run("use makes young", func(t *testing.T) {
		f := fill()
		put(f, "hello world", 2)
		f.Evict(23)
		want(t, "match of the oldest leaf", found{6, 11, []int{1, 2}}, look(f, "hello there"))
	})
	t.Run("across namespaces", func(t *testing.T) {
		f := radix.NewText(roomy)
		var p radix.Place
		for ns := range uint64(3) {
			f.Match(&p, ns, "hello")
			f.Insert(&p, id(1))
		}
		f.Evict(9)
		got := f.Stats()
		want(t, "namespaces", 1, got.Namespaces)
		f.Match(&p, 2, "hello")
		want(t, "match in the youngest", found{5, 5, []int{1}}, foundOf(&p))
	})
}

func removal(t *testing.T) {
	f := radix.NewText(roomy)
	f.Register(id(1))
	put(f, "shared beginning, own end", 1)
	put(f, "shared beginning, other end", 2)
	put(f, "alone", 1)
	put(f, "alone too", 1)
	f.Remove(id(1))
	want(t, "nodes", []string{"shared beginning, o: 2", "shared beginning, other end: 2"}, drawn(&f.Forest))
	want(t, "sizes", []int{-1, 27}, sizes(&f.Forest, 2))
	want(t, "match", found{0, 5, nil}, look(f, "alone"))
	sound(t, &f.Forest)
	f.Remove(id(1))
	f.Remove(id(7))
	f.Remove(id(2))
	want(t, "stats", radix.Stats{}, f.Stats())
	sound(t, &f.Forest)
}

func pagesOfTokens(t *testing.T) {
	sequence := func(n int, last ...uint32) []uint32 {
		var out []uint32
		for i := range n {
			out = append(out, uint32(i)*0x9e3779b9)
		}
		return append(out, last...)
	}
	put := func(f *radix.Tokens, tokens []uint32, tenant int) {
		var p radix.Place
		f.Match(&p, 0, tokens)
		f.Insert(&p, id(tenant))
	}
	look := func(f *radix.Tokens, tokens []uint32) found {
		var p radix.Place
		f.Match(&p, 0, tokens)
		return foundOf(&p)
	}
	for _, tt := range []struct{ tokens, stored int }{{0, 0}, {15, 0}, {16, 16}, {31, 16}, {32, 32}} {
		f := radix.NewTokens(16, roomy)
		put(f, sequence(tt.tokens), 1)
		want(t, fmt.Sprintf("of %d tokens are stored", tt.tokens), tt.stored, f.Stats().Units)
		want(t, "match", found{tt.stored, tt.tokens, []int{1}[:min(1, tt.stored)]}, nonNil(look(f, sequence(tt.tokens))))
		sound(t, &f.Forest)
	}
	t.Run("equal in 20 tokens", func(t *testing.T) {
		f := radix.NewTokens(16, roomy)
		put(f, sequence(20, make([]uint32, 20)...), 1)
		want(t, "match", found{16, 48, []int{1}}, look(f, sequence(20, slices.Repeat([]uint32{5}, 28)...)))
	})
	t.Run("page sizes", func(t *testing.T) {
		for _, page := range []int{1, 4, 16, 64, 128} {
			f := radix.NewTokens(page, roomy)
			tokens := sequence(1000)
			put(f, tokens, 1)
			want(t, "match", found{1000 / page * page, 1000, []int{1}}, look(f, tokens))
			put(f, append(sequence(500), sequence(500)...), 2)
			want(t, "match of another", found{500 / page * page, 501, []int{1, 2}}, look(f, sequence(500, 7)))
			sound(t, &f.Forest)
		}
	})
	t.Run("extreme ids", func(t *testing.T) {
		f := radix.NewTokens(4, roomy)
		extreme := []uint32{0, 0, 0, 0, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1}
		put(f, extreme, 1)
		want(t, "match", found{8, 8, []int{1}}, look(f, extreme))
		want(t, "match of zeros", found{4, 8, []int{1}}, look(f, make([]uint32, 8)))
	})
	t.Run("the caller's tokens are not kept", func(t *testing.T) {
		f := radix.NewTokens(4, roomy)
		tokens := sequence(8)
		put(f, tokens, 1)
		tokens[0] = 99
		want(t, "match", found{8, 8, []int{1}}, look(f, sequence(8)))
	})
}

// nonNil tells a match without holders from nil.
func nonNil(f found) found {
	if f.Holders == nil {
		f.Holders = []int{}
	}
	return f
}

func concurrentSplits(t *testing.T) {
	const longest = 300
	f := radix.NewText(roomy)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			for range 300 {
				n := r.IntN(longest) + 1
				text := strings.Repeat("a", n) + "b"
				put(f, text, g)
				if got := look(f, text); got.Matched != n+1 || !slices.Contains(got.Holders, g) {
					t.Errorf("%d characters that were just inserted: %+v", n+1, got)
				}
				// All that anybody inserts is a's and one b.
				if got := look(f, strings.Repeat("a", n)+"c"+strings.Repeat("a", 9)); got.Matched > n {
					t.Errorf("%d characters can match: %+v", n, got)
				}
			}
		})
	}
	wg.Wait()
	sound(t, &f.Forest)
}

func budget(t *testing.T) {
	t.Run("at the insert", func(t *testing.T) {
		f := radix.NewText(10)
		put(f, "12345678", 1)
		put(f, "abcdef", 2)
		want(t, "nodes", []string{"abcdef: 2"}, drawn(&f.Forest))
		want(t, "units", 6, f.Stats().Units)
	})
	t.Run("by a pass", func(t *testing.T) {
		f := radix.NewText(roomy)
		put(f, "12345678", 1)
		put(f, "abcdef", 2)
		f.Evict(10)
		want(t, "nodes", []string{"abcdef: 2"}, drawn(&f.Forest))
	})
}
