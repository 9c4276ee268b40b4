package radix_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/policy/radix"
)

// The model is the definition taken literally: a node is the text that leads to it,
// a tenant's hold on it a stamp. Everything is found by looking at everything.
type model struct {
	weight     int // units of a symbol
	budget     int
	clock      int
	leaves     int // times that a hold became a leaf
	nodes      map[spot]map[int]*modelHold
	registered map[int]bool
}

type spot struct {
	namespace uint64
	path      string // symbols
}

type modelHold struct{ stamp, leafSince int }

type modelReceipt struct {
	tenant int
	at     spot
	above  int // symbols held before
	stamp  int
}

func (m *model) find(ns uint64, path string) (matched int, deepest spot) {
	for s := range m.nodes {
		if s.namespace == ns {
			matched = max(matched, commonSymbols(s.path, path))
		}
	}
	if matched == 0 {
		return 0, spot{}
	}
	for s := range m.nodes {
		if s.namespace == ns && commonSymbols(s.path, path) == matched && (deepest.path == "" || len(s.path) < len(deepest.path)) {
			deepest = s
		}
	}
	return matched, deepest
}

func commonSymbols(a, b string) int {
	x, y := []rune(a), []rune(b)
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

func (m *model) insert(ns uint64, path string, tenant int) modelReceipt {
	symbols := utf8.RuneCountInString(path)
	if symbols == 0 || symbols*m.weight > m.budget {
		return modelReceipt{}
	}
	matched, deepest := m.find(ns, path)
	if knot := (spot{ns, string([]rune(path)[:matched])}); matched > 0 && knot != deepest {
		m.nodes[knot] = map[int]*modelHold{}
		for t, h := range m.nodes[deepest] {
			m.nodes[knot][t] = &modelHold{stamp: h.stamp}
		}
	}
	at := spot{ns, path}
	if m.nodes[at] == nil {
		m.nodes[at] = map[int]*modelHold{}
	}
	m.clock++
	r := modelReceipt{tenant: tenant, at: at, stamp: m.clock}
	for s := range m.nodes {
		if s.namespace != ns || !strings.HasPrefix(path, s.path) {
			continue
		}
		if m.nodes[s][tenant] == nil {
			m.nodes[s][tenant] = &modelHold{}
		} else {
			r.above = max(r.above, utf8.RuneCountInString(s.path))
		}
	}
	m.nodes[at][tenant].stamp = m.clock
	m.settle()
	m.evict(m.budget)
	return r
}

func (m *model) leaf(s spot, tenant int) bool {
	for below, holds := range m.nodes {
		if below.namespace == s.namespace && below.path != s.path && strings.HasPrefix(below.path, s.path) && holds[tenant] != nil {
			return false
		}
	}
	return true
}

// settle removes nodes without holders and notes new leaves, after each step.
func (m *model) settle() {
	maps.DeleteFunc(m.nodes, func(_ spot, holds map[int]*modelHold) bool { return len(holds) == 0 })
	for s, holds := range m.nodes {
		for t, h := range holds {
			if !m.leaf(s, t) {
				h.leafSince = 0
			} else if h.leafSince == 0 {
				m.leaves++
				h.leafSince = m.leaves
			}
		}
	}
}

func (m *model) sizes() map[int]int {
	sizes := map[int]int{}
	for t := range m.registered {
		sizes[t] = 0
	}
	for s, holds := range m.nodes {
		for t := range holds {
			sizes[t] += m.units(s)
		}
	}
	return sizes
}

// units are those from the node above.
func (m *model) units(s spot) int {
	above := 0
	for a := range m.nodes {
		if a.namespace == s.namespace && a.path != s.path && strings.HasPrefix(s.path, a.path) {
			above = max(above, utf8.RuneCountInString(a.path))
		}
	}
	return (utf8.RuneCountInString(s.path) - above) * m.weight
}

func (m *model) total() int {
	sum := 0
	for _, size := range m.sizes() {
		sum += size
	}
	return sum
}

func (m *model) evict(budget int) {
	for m.total() > budget {
		var at spot
		var tenant int
		var oldest *modelHold
		for s, holds := range m.nodes {
			for t, h := range holds {
				// Never stamped: who became a leaf last goes first.
				if m.leaf(s, t) && (oldest == nil || h.stamp < oldest.stamp || h.stamp == oldest.stamp && h.leafSince > oldest.leafSince) {
					at, tenant, oldest = s, t, h
				}
			}
		}
		delete(m.nodes[at], tenant)
		m.settle()
	}
}

func (m *model) remove(tenant int) {
	delete(m.registered, tenant)
	for _, holds := range m.nodes {
		delete(holds, tenant)
	}
	m.settle()
}

func (m *model) undo(r modelReceipt) {
	for path := r.at.path; utf8.RuneCountInString(path) > r.above; {
		s := spot{r.at.namespace, path}
		h := m.nodes[s][r.tenant]
		if h == nil && path == r.at.path {
			return
		}
		if h != nil {
			if !m.leaf(s, r.tenant) || h.stamp != r.stamp && (path == r.at.path || h.stamp != 0) {
				return
			}
			delete(m.nodes[s], r.tenant)
			m.settle()
		}
		_, last := utf8.DecodeLastRuneInString(path)
		path = path[:len(path)-last]
	}
}

// machine runs the same on a forest and on the model.
type machine struct {
	model  model
	forest *radix.Forest
	match  func(p *radix.Place, ns uint64, path string)
	spell  func(path string) string // as Node.Path

	open []pending
	done []receipts
}

type pending struct {
	place radix.Place
	ns    uint64
	path  string
}

type receipts struct {
	got  radix.Receipt
	want modelReceipt
}

var (
	drawPath      = rapid.StringOfN(rapid.RuneFrom([]rune("abé你好😀")), 0, 7, -1)
	drawTenant    = rapid.IntRange(0, 4)
	drawNamespace = rapid.Uint64Range(0, 1)
)

func (m *machine) Match(t *rapid.T) {
	p := pending{ns: drawNamespace.Draw(t, "namespace"), path: drawPath.Draw(t, "path")}
	m.match(&p.place, p.ns, p.path)
	m.open = append(m.open, p)
	matched, deepest := m.model.find(p.ns, p.path)
	want := slices.Sorted(maps.Keys(m.model.nodes[deepest]))
	var got []int
	for _, h := range p.place.Holders {
		got = append(got, tenantOf(h.ID()))
	}
	slices.Sort(got)
	if p.place.Matched != matched*m.model.weight || p.place.Input != utf8.RuneCountInString(p.path)*m.model.weight {
		t.Fatalf("%q matched %d of %d, want %d symbols", p.path, p.place.Matched, p.place.Input, matched)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("holders of %q (-want +got):\n%s", p.path, diff)
	}
}

func (m *machine) Insert(t *rapid.T) {
	if len(m.open) == 0 {
		m.Match(t)
	}
	i := rapid.IntRange(0, len(m.open)-1).Draw(t, "place")
	p := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	tenant := drawTenant.Draw(t, "tenant")
	m.done = append(m.done, receipts{
		got:  m.forest.Insert(&p.place, id(tenant)),
		want: m.model.insert(p.ns, p.path, tenant),
	})
}

func (m *machine) MatchAndInsert(t *rapid.T) {
	m.open = nil
	m.Insert(t)
}

func (m *machine) Undo(t *rapid.T) {
	if len(m.done) == 0 {
		t.Skip("nothing inserted")
	}
	r := m.done[rapid.IntRange(0, len(m.done)-1).Draw(t, "receipt")]
	m.forest.Undo(r.got)
	m.model.undo(r.want)
}

func (m *machine) Register(t *rapid.T) {
	tenant := drawTenant.Draw(t, "tenant")
	m.forest.Register(id(tenant))
	m.model.registered[tenant] = true
}

func (m *machine) Remove(t *rapid.T) {
	tenant := drawTenant.Draw(t, "tenant")
	m.forest.Remove(id(tenant))
	m.model.remove(tenant)
}

func (m *machine) Evict(t *rapid.T) {
	budget := rapid.IntRange(0, m.model.budget).Draw(t, "budget")
	m.forest.Evict(budget)
	m.model.evict(budget)
}

func (m *machine) check(t *rapid.T) {
	if err := m.forest.Check(); err != nil {
		t.Fatal(err)
	}
	var want []radix.Node
	stats := radix.Stats{Tenants: len(m.model.sizes()), Units: m.model.total(), Nodes: len(m.model.nodes)}
	namespaces := map[uint64]bool{}
	for s, holds := range m.model.nodes {
		n := radix.Node{Namespace: s.namespace, Path: m.spell(s.path), Units: m.model.units(s)}
		for tenant := range holds {
			n.Holders = append(n.Holders, id(tenant))
		}
		want = append(want, n)
		stats.Holds += len(holds)
		namespaces[s.namespace] = true
	}
	stats.Namespaces = len(namespaces)
	if diff := gocmp.Diff(sorted(want), sorted(m.forest.Nodes())); diff != "" {
		t.Fatalf("nodes (-want +got):\n%s", diff)
	}
	got := m.forest.Stats()
	got.Bytes = 0
	if diff := gocmp.Diff(stats, got); diff != "" {
		t.Fatalf("stats (-want +got):\n%s", diff)
	}
	sizes := m.model.sizes()
	for tenant := range 5 {
		want, known := sizes[tenant]
		if got, ok := m.forest.Size(id(tenant)); got != want || ok != known {
			t.Fatalf("tenant %d holds %d, %v; want %d, %v", tenant, got, ok, want, known)
		}
	}
}

// sorted brings nodes and their holders in an order.
func sorted(nodes []radix.Node) []radix.Node {
	for _, n := range nodes {
		slices.SortFunc(n.Holders, func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) })
	}
	slices.SortFunc(nodes, func(a, b radix.Node) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Path, b.Path))
	})
	return nodes
}

// id is the id of the n-th test tenant.
func id(n int) [16]byte { return [16]byte{'t', byte(n >> 8), byte(n)} }

func tenantOf(id [16]byte) int { return int(id[1])<<8 | int(id[2]) }

func TestModel(t *testing.T) {
	run := func(weight int, build func(budget int) machine) func(t *rapid.T) {
		return func(t *rapid.T) {
			budget := rapid.SampledFrom([]int{6, 15, 40, 1000}).Draw(t, "budget") * weight
			m := build(budget)
			m.model = model{weight: weight, budget: budget, nodes: map[spot]map[int]*modelHold{}, registered: map[int]bool{}}
			t.Repeat(map[string]func(*rapid.T){
				"Match": m.Match, "Insert": m.Insert, "MatchAndInsert": m.MatchAndInsert, "Again": m.MatchAndInsert,
				"Undo": m.Undo, "Register": m.Register, "Remove": m.Remove, "Evict": m.Evict, "": m.check,
			})
		}
	}
	t.Run("text", func(t *testing.T) {
		rapid.Check(t, run(1, func(budget int) machine {
			f := radix.NewText(budget)
			return machine{forest: &f.Forest, match: f.Match, spell: func(path string) string { return path }}
		}))
	})
	for _, page := range []int{1, 4} {
		t.Run(fmt.Sprintf("pages of %d tokens", page), func(t *testing.T) {
			rapid.Check(t, run(page, func(budget int) machine {
				f := radix.NewTokens(page, budget)
				return machine{
					forest: &f.Forest,
					match:  func(p *radix.Place, ns uint64, path string) { f.Match(p, ns, pagesOf(path, page)) },
					spell:  func(path string) string { return spell(pagesOf(path, page)) },
				}
			}))
		})
	}
}

// pagesOf makes a page of each symbol; the first tokens of all pages are alike.
func pagesOf(path string, page int) []uint32 {
	var tokens []uint32
	for _, symbol := range path {
		for range page - 1 {
			tokens = append(tokens, 7)
		}
		tokens = append(tokens, uint32(symbol))
	}
	return tokens
}

func spell(tokens []uint32) string {
	var b []byte
	for _, t := range tokens {
		b = binary.NativeEndian.AppendUint32(b, t)
	}
	return string(b)
}
