package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"smg/sim/simhttp"
	"smg/sim/simtest"
	"smg/sim/simzmq"
)

// publishing is an engine that publishes its KV-cache events.
type publishing struct {
	*simtest.Engine
	events, replay string
}

// blocksOfKV is what the cache of an engine holds, and fills how many prompts fill it,
// whatever else is there.
const (
	blocksOfKV = 128
	fills      = blocksOfKV/4 + 1
)

// publish starts engines that publish.
func publish(t *testing.T, kind simhttp.Kind, n int) (all []publishing) {
	t.Helper()
	cfg := simtest.Config()
	cfg.Kind, cfg.KVEvents = kind, true
	cfg.Core.KVBlocks, cfg.Core.BlockSize, cfg.Core.ContextLength = blocksOfKV, 16, 16*16
	for _, e := range simtest.StartN(t, n, cfg) {
		var lns [2]net.Listener
		for i := range lns {
			var err error
			if lns[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
		}
		p := simzmq.New(e.Server, lns[0], lns[1])
		ctx, stop := context.WithCancel(context.Background())
		over := make(chan error, 1)
		go func() { over <- p.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-over; err != nil {
				t.Error(err)
			}
		})
		all = append(all, publishing{e, "tcp://" + lns[0].Addr().String(), "tcp://" + lns[1].Addr().String()})
	}
	return all
}

// tokenPrompt is a prompt of four blocks as token ids, another one for each n.
func tokenPrompt(n int) string {
	var b strings.Builder
	for i := range 64 {
		fmt.Fprintf(&b, ",%d", 1000+n*64+i)
	}
	return "[" + b.String()[1:] + "]"
}

// computes has an engine, or a gateway, compute a prompt.
func computes(t *testing.T, url string, n int) {
	t.Helper()
	body := fmt.Sprintf(`{"model":"sim","prompt":%s,"max_tokens":1}`, tokenPrompt(n))
	if a := do(t, http.MethodPost, url+"/v1/completions", body); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

// sends has the gateway compute a prompt, and is who got it and why.
func (g *gateway) sends(t *testing.T, n int) (worker, branch string) {
	t.Helper()
	computes(t, g.url, n)
	all, _ := g.decidedLately(t, "?limit=1")
	if len(all) != 1 || all[0].Worker == nil {
		t.Fatalf("decisions %+v", all)
	}
	return all[0].Worker.URL, all[0].Branch
}

// knows waits until the gateway has heard what an engine did up to now, by prompts that
// the engine gets behind the gateway's back.
func (g *gateway) knows(t *testing.T, e publishing, mark *int) {
	t.Helper()
	await(t, "the events of "+e.URL, func() bool {
		*mark++
		computes(t, e.URL, *mark)
		worker, branch := g.sends(t, *mark)
		return worker == e.URL && branch == "event_hit"
	})
}

// follows has prompts evicted, and stored elsewhere, which only engines can tell.
func follows(kind simhttp.Kind, labels func(publishing) string) func(t *testing.T, topology ...string) {
	return func(t *testing.T, topology ...string) {
		engines := publish(t, kind, 2)
		g := inFront(t, append(topology, "--policy", "cache_aware", "--worker-startup-check-interval", "1")...)
		for _, e := range engines {
			if a := do(t, http.MethodPost, g.url+"/workers", fmt.Sprintf(`{"url":%q,"labels":{%s}}`, e.URL, labels(e))); a.status != http.StatusAccepted {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		for _, e := range engines {
			await(t, "the worker", func() bool { w, _ := g.worker(e.URL); return w.Healthy && w.Job == nil })
		}
		told := labels(engines[0]) != ""
		mark := 1000
		if told {
			await(t, "the subscriptions", func() bool { return g.subscribed(t) == 2 })
		}
		const prompt = 1
		first, branch := g.sends(t, prompt)
		holder, other := engines[0], engines[1]
		if first == other.URL {
			holder, other = other, holder
		}
		if branch != "expected_wait_fallback" {
			t.Errorf("the first prompt is decided by %s", branch)
		}
		if told {
			g.knows(t, holder, &mark)
			computes(t, holder.URL, prompt) // as the latest again
			g.knows(t, holder, &mark)
		}
		wants := func(when string, e publishing, branch string) {
			t.Helper()
			if w, b := g.sends(t, prompt); w != e.URL || b != branch {
				t.Errorf("%s: sent to %s by %s, want %s by %s", when, w, b, e.URL, branch)
			}
		}
		if told {
			wants("stored", holder, "event_hit")
		} else {
			wants("stored", holder, "tree_match")
		}

		// The holder's cache is filled with something else, and the other one computes it.
		for i := range fills {
			computes(t, holder.URL, 100+i)
		}
		computes(t, other.URL, prompt)
		if !told {
			wants("evicted, as the tree sees it", holder, "tree_match")
			return
		}
		g.knows(t, holder, &mark)
		g.knows(t, other, &mark)
		wants("evicted here and stored there", other, "event_hit")

		// And nobody has it any more.
		for i := range fills {
			computes(t, other.URL, 200+i)
		}
		g.knows(t, other, &mark)
		if w, b := g.sends(t, prompt); b != "expected_wait_fallback" {
			t.Errorf("evicted everywhere: sent to %s by %s", w, b)
		}
	}
}

// subscribed is how many subscriptions are open, over all selectors.
func (g *gateway) subscribed(t *testing.T) float64 {
	t.Helper()
	return total(t, g.metrics, "smg_kv_events_connected")
}

// TestPoliciesKVEvents shows what engines over HTTP tell of their KV caches at work, and
// what the tree makes of the same.
func TestPoliciesKVEvents(t *testing.T) {
	both := func(e publishing) string {
		return fmt.Sprintf(`"kv_events_endpoint":%q,"kv_events_replay_endpoint":%q`, e.events, e.replay)
	}
	live := func(e publishing) string { return fmt.Sprintf(`"kv_events_endpoint":%q`, e.events) }
	none := func(publishing) string { return "" }
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"CA-19_evictions_are_followed": follows(simhttp.SGLang, both),
		"KI-11_events_of_vllm":         follows(simhttp.VLLM, live),
		"CA-19_the_tree_misses_them":   follows(simhttp.SGLang, none),
	})
}
