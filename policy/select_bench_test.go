package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// BenchmarkSelect is one selection at the selector: the policy looked up, its
// choice over a pool of n workers that report their load, the count, and the end of
// the call as it comes in a batch of the lease stream. Prompts have 1,000 characters
// or 256 tokens, of which a half is shared by all.
func BenchmarkSelect(b *testing.B) {
	for _, kind := range selections() {
		for _, n := range []int{4, 64, 256, 10_000} {
			b.Run(fmt.Sprintf("%s/n=%d", kind.name, n), func(b *testing.B) { benchmarkSelect(b, kind, n) })
		}
	}
}

// selection is a policy and what it reads.
type selection struct {
	name   string
	policy string
	change func(*policy.Config)
	fill   func(req *policy.Request, i int)
}

func selections() []selection {
	keys := make([]worker.Key, 1024)
	for i := range keys {
		keys[i] = worker.HashKey(fmt.Sprintf("user-%d", i))
	}
	keyed := func(req *policy.Request, i int) {
		req.Keys.Header, req.Keys.Pinned = keys[i%len(keys)], keys[i%len(keys)]
	}
	texts, ids := make([]string, 1024), make([][]uint32, 1024)
	for i := range texts {
		texts[i] = strings.Repeat("a shared system prompt, ", 21)[:500] + strings.Repeat(fmt.Sprintf("question %d? ", i), 50)[:500]
		ids[i] = append(counting(1, 128), counting(uint32(1000*i+1000), 128)...)
	}
	texted := func(req *policy.Request, i int) { req.Text, req.Chars = texts[i%len(texts)], 1000 }
	tokened := func(req *policy.Request, i int) { req.TokenIDs, req.Tokens = ids[i%len(ids)], 256 }
	all := make([]selection, 0, 16)
	for _, name := range policy.Names() {
		switch name {
		case policy.ConsistentHashing, policy.Manual:
			all = append(all, selection{name, name, nil, keyed})
		case policy.PrefixHash:
			all = append(all, selection{name + "_text", name, nil, texted}, selection{name + "_tokens", name, nil, tokened})
		case policy.CacheAware:
			roomy := func(c *policy.Config) { c.CacheAware.MaxTreeSize = 1 << 26 }
			all = append(all, selection{name + "_text", name, roomy, texted}, selection{name + "_tokens", name, roomy, tokened})
		case policy.PowerOfTwo:
			for _, metric := range policy.LoadMetrics() {
				all = append(all, selection{name + "_" + metric, name, func(c *policy.Config) { c.PowerOfTwo.Metric = metric }, texted})
			}
		default:
			all = append(all, selection{name, name, nil, texted})
		}
	}
	return all
}

func benchmarkSelect(b *testing.B, kind selection, n int) {
	leg := worker.Regular
	if kind.policy == policy.Bucket {
		leg = worker.Prefill
	}
	f := policytest.NewLegFleet(b, leg, n)
	f.ReportAll(func(i int) worker.Report {
		return worker.Report{Waiting: int64(i % 7), Queued: int64(100 * (i % 11)), Throughput: 1000, KVUsage: float64(i%10) / 20}
	})
	cfg := policy.DefaultConfig()
	cfg.Policy = kind.policy
	if kind.change != nil {
		kind.change(&cfg)
	}
	book, err := policy.NewBook(cfg, policy.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	req := &policy.Request{Ask: f.Ask(), Seen: new(policy.Shortlist)} // as selectors have it
	ends := worker.Batch{Ingress: "bench", Incarnation: req.Ask.Lease.Incarnation, Leg: leg}
	ends.Entries = make([]worker.Entry, 0, worker.BatchEntries)
	var events []worker.Event
	choose := func() {
		pool := f.Registry.Pool(leg, policytest.Model)
		_, p := book.For(pool.Model())
		req.Ask.Lease.Plan++
		req.Ask.Now = req.Ask.Now.Add(time.Microsecond)
		kind.fill(req, int(req.Ask.Lease.Plan))
		if _, err := p.Pick(req, pool); err != nil {
			b.Fatal(err)
		}
		ends.Entries = append(ends.Entries, worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: req.Ask.Lease}, Outcome: worker.Success})
		if len(ends.Entries) == worker.BatchEntries {
			ends.Seq++
			events = f.Fold.Apply(&ends, req.Ask.Now, events[:0])
			ends.Entries = ends.Entries[:0]
		}
	}
	for range 2048 { // rings and trees are made, memory is reused from now on
		choose()
	}
	b.ReportAllocs()
	for b.Loop() {
		choose()
	}
	if active := f.Active(); max(active[0], active[n-1]) > worker.BatchEntries {
		b.Errorf("calls are not ended: %d and more in flight", active[0])
	}
}

// BenchmarkPrompt is one selection of cache_aware over 16 workers for prompts of
// which the first half is known: it is matched, and the whole is noted.
func BenchmarkPrompt(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10, 512 << 10} {
		half := min(size, 256<<10) / 2 // no more is looked at
		shared := strings.Repeat("the same for all ", half/17+1)[:half]
		fresh := make([]string, 256)
		for i := range fresh {
			fresh[i] = shared + strings.Repeat(fmt.Sprintf("%016x", i), half/16+1)[:half]
		}
		ids := make([][]uint32, len(fresh))
		for i := range ids {
			ids[i] = append(counting(1, half/4), counting(uint32(1<<20*(i+1)), half/4)...)
		}
		for _, kind := range []string{"text", "tokens"} {
			b.Run(fmt.Sprintf("%s/chars=%dk", kind, size>>10), func(b *testing.B) {
				fill := func(req *policy.Request, i int) { req.Text, req.Chars = fresh[i%len(fresh)], int64(size) }
				if kind == "tokens" {
					fill = func(req *policy.Request, i int) { req.TokenIDs, req.Tokens = ids[i%len(ids)], int64(size/4) }
				}
				benchmarkSelect(b, selection{kind, policy.CacheAware, func(c *policy.Config) { c.CacheAware.MaxTreeSize = 1 << 26 }, fill}, 16)
			})
		}
	}
}
