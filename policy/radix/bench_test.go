package radix_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"smg/policy/radix"
)

// The default of --max-tree-size: a million blocks of 64 characters.
const fullBudget = 1 << 26

// promptChars is the length of what a full forest holds.
const promptChars = 1 << 15

// letters is random text of n characters.
func letters(r *rand.Rand, n int) string {
	b := make([]byte, n+8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64()&0x0f0f0f0f0f0f0f0f|0x6060606060606060)
	}
	return string(b[:n])
}

// full is a forest at its budget: in whole prompts of 32k characters, or in
// conversations of that length with a node for every 64 characters, a million in
// all. heads are what the prompts in it begin with.
func full(nodeChars int) (f *radix.Text, heads []string) {
	f = radix.NewText(fullBudget)
	r := rand.New(rand.NewPCG(1, 2))
	var p radix.Place
	for i := range fullBudget / promptChars {
		prompt := letters(r, promptChars)
		for n := promptChars; n > 0; n -= nodeChars { // the long ones first are quicker
			f.Match(&p, 0, prompt[:n])
			f.Insert(&p, id(i%16))
		}
		heads = append(heads, prompt)
	}
	return f, heads
}

// BenchmarkMatchInsert is what the policy asks of the tree for one request. Of each
// prompt nothing, the first half or all is known, the rest was never seen.
func BenchmarkMatchInsert(b *testing.B) {
	run := func(name string, chars int, known float64, forest func() (*radix.Text, []string)) {
		b.Run(fmt.Sprintf("%s/chars=%d/known=%g", name, chars, known), func(b *testing.B) {
			f, heads := forest()
			r := rand.New(rand.NewPCG(3, 4))
			ps := newPrompts(r, heads, min(int(known*float64(chars)), promptChars), chars)
			var p radix.Place
			var spent time.Duration // without making the prompts
			b.ReportAllocs()
			for b.Loop() {
				prompt := ps.next()
				began := time.Now()
				f.Match(&p, 0, prompt)
				f.Insert(&p, choose(r, &p))
				spent += time.Since(began)
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/op")
		})
	}
	for _, chars := range []int{1 << 10, 1 << 15, 1 << 19} {
		run("empty", chars, 0, func() (*radix.Text, []string) { return radix.NewText(fullBudget), nil })
		for _, known := range []float64{0, .5, 1} {
			run("long edges", chars, known, func() (*radix.Text, []string) { return full(promptChars) })
		}
	}
	for _, known := range []float64{0, .5, 1} {
		run("million nodes", 1<<15, known, func() (*radix.Text, []string) { return full(64) })
	}
}

// choose is a holder nearly always, as with a policy that follows affinity.
func choose(r *rand.Rand, p *radix.Place) [16]byte {
	if len(p.Holders) == 0 || r.IntN(100) == 0 {
		return id(r.IntN(16))
	}
	return p.Holders[r.IntN(len(p.Holders))].ID()
}

// prompts makes prompts that begin with one of some heads and go on as none before.
type prompts struct {
	rand  *rand.Rand
	heads []string
	known int
	buf   []byte
}

func newPrompts(r *rand.Rand, heads []string, known, chars int) prompts {
	return prompts{rand: r, heads: heads, known: known, buf: []byte(letters(r, chars))}
}

// next is valid until the one after it: a forest keeps nothing of its input.
func (ps *prompts) next() string {
	if ps.known > 0 {
		copy(ps.buf, ps.heads[ps.rand.IntN(len(ps.heads))][:ps.known])
	}
	if ps.known < len(ps.buf) {
		copy(ps.buf[ps.known:], letters(ps.rand, 16))
	}
	return unsafe.String(unsafe.SliceData(ps.buf), len(ps.buf))
}

// BenchmarkParallel is [BenchmarkMatchInsert] with all processors at one forest.
func BenchmarkParallel(b *testing.B) {
	f, heads := full(promptChars)
	var seed atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		r := rand.New(rand.NewPCG(seed.Add(1), 5))
		ps := newPrompts(r, heads, 1<<14, 1<<15)
		var p radix.Place
		for pb.Next() {
			f.Match(&p, 0, ps.next())
			f.Insert(&p, choose(r, &p))
		}
	})
}

// BenchmarkHolders is a match of what a whole fleet holds.
func BenchmarkHolders(b *testing.B) {
	for _, fleet := range []int{1, 256, 10_000} {
		b.Run(fmt.Sprintf("n=%d", fleet), func(b *testing.B) {
			f := radix.NewText(fullBudget)
			places := make([]radix.Place, fleet)
			for i := range places {
				f.Match(&places[i], 0, "system prompt")
			}
			for i := range places {
				f.Insert(&places[i], id(i))
			}
			var p radix.Place
			b.ReportAllocs()
			for b.Loop() {
				f.Match(&p, 0, "system prompt")
				f.Insert(&p, p.Holders[fleet/2].ID())
			}
		})
	}
}

// BenchmarkRemove is the removal of a worker that holds a million nodes.
func BenchmarkRemove(b *testing.B) {
	var spent time.Duration
	for b.Loop() {
		f, _ := full(64)
		before := f.Stats().Holds
		began := time.Now()
		f.Remove(id(3))
		spent += time.Since(began)
		b.ReportMetric(float64(before-f.Stats().Holds), "holds")
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/op")
}
