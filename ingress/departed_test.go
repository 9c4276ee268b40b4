package ingress

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"smg/wire"
	"smg/worker"
)

func TestTargetsAreForgotten(t *testing.T) {
	_, stays := answers(t, jsonOK)
	_, goes := answers(t, jsonOK)
	g := start(t, []string{stays, goes})
	for range 4 {
		if r := g.do(chat(chatBody)); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	g.Server.forget()
	if n := size(&g.Server.targets); n != 2 {
		t.Fatalf("%d targets of two workers", n)
	}
	old, err := g.Server.target(&worker.Spec{URL: goes})
	if err != nil {
		t.Fatal(err)
	}
	all := g.fleet.workers
	g.fleet.workers = all[:1]
	g.Server.forget()
	if n := size(&g.Server.targets); n != 1 {
		t.Errorf("%d targets of one worker", n)
	}
	g.fleet.workers = all // it is back
	for range 4 {
		if r := g.do(chat(chatBody)); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if now, err := g.Server.target(&worker.Spec{URL: goes}); err != nil || now == old {
		t.Errorf("the old target is used again: %v", err)
	}
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// Of a thousand workers that have come, have failed, and are gone, nothing is kept; of
// those that stay, everything.
func TestNothingIsKeptOfWorkersThatAreGone(t *testing.T) {
	const many = 1000
	urls := make([]string, many)
	for i := range urls {
		urls[i] = fmt.Sprintf("http://127.0.0.9:%d", i+1) // nobody listens there
	}
	g := start(t, urls, withConfig(func(c *Config) { c.Multi, c.PD.MinTokens = true, true }), withDeps(func(d *Deps) {
		d.MooncakeEngines = func(context.Context, string) (map[int]string, error) { return map[int]string{0: "e"}, nil }
	}))
	s := g.Server
	kept := func() map[string]int {
		return map[string]int{
			"targets": size(&s.targets), "warned": size(&s.warned), "deaf": size(&s.deaf), "complaints": len(s.complaints.workers),
			"engine ids": len(s.engineIDs.known), "ranks": len(s.ranks.used),
		}
	}
	all := g.fleet.workers
	for _, w := range all {
		if r := g.do(chat(chatBody)); r.status != 500 { // in turn
			t.Fatalf("%s: %d %s", w.Spec.URL, r.status, r.body)
		}
		seen := *w
		seen.Record.Report = &worker.Report{PolledAt: time.Now(), Ranks: []worker.RankUse{{Rank: 0}}}
		s.ranks.choose(&seen, 1)
		prefill := *w.Spec
		prefill.KVEngineID, prefill.BootstrapHost = "e", "h"
		s.engineIDs.of(t.Context(), &prefill, 1)
		s.warnOnce(&call{pick: wire.Pick{Worker: w.Spec, Epoch: 1}}, "a test", "none")
		s.deaf.Store(w.Spec.ID, uint64(1))
	}
	for _, there := range []int{many, 1, 0} {
		g.fleet.workers = all[:there]
		s.forget()
		for what, n := range kept() {
			if n != there {
				t.Errorf("%s of %d workers: %d", what, there, n)
			}
		}
	}
}
