package e2e

import (
	"fmt"
	"strings"
	"testing"

	"smg/sim/simhttp"
)

// TestDisaggBootstrap holds item 10 of the conformance list: bootstrap ports.
func TestDisaggBootstrap(t *testing.T) {
	parallel(t)
	legs{kind: simhttp.SGLang, roles: roles{prefill: 2, decode: 1}}.rows(t,
		row{"10_port_asked_for", func(t *testing.T, f *legFleet) {
			const url = "http://127.0.0.1:1"
			for port, code := range map[string]int{"1": 202, "65535": 202, "null": 202, "0": 400, "65536": 400, "-1": 400, `"none"`: 422, "1.5": 422} {
				a := do(t, "POST", f.url+"/workers", fmt.Sprintf(`{"url":%q,"worker_type":"prefill","bootstrap_port":%s}`, url, port))
				if a.status != code {
					t.Errorf("bootstrap_port %s: status %d, want %d: %s", port, a.status, code, a.body)
				}
				if a.status == 202 {
					f.remove(url)
				}
			}
		}},
		row{"10_null_port", func(t *testing.T, f *legFleet) {
			// A port that nobody gives and the engine tells is sent.
			e := f.pd.Prefill[0]
			f.remove(e.URL)
			await(t, "the worker's end", func() bool { _, code := f.worker(e.URL); return code == 404 })
			f.add(e.URL, `,"worker_type":"prefill"`)
			f.usable(t)
			if w, _ := f.worker(e.URL); w.BootstrapPort != e.PeerPort || w.BootstrapSource != "engine" {
				t.Errorf("shown as %+v", w)
			}
			for range 2 {
				if a := f.asks(t, ""); a.status != 200 {
					t.Errorf("status %d: %s", a.status, a.body)
				}
			}
		}},
		row{"10_another_port_than_the_engines_is_shown", func(t *testing.T, f *legFleet) {
			first, second, other := f.pd.Prefill[0], f.pd.Prefill[1], port(t)
			f.remove(second.URL)
			await(t, "the worker's end", func() bool { _, code := f.worker(second.URL); return code == 404 })
			f.add(second.URL, fmt.Sprintf(`,"worker_type":"prefill","bootstrap_port":%d`, other))
			f.usable(t)
			want := fmt.Sprintf("the bootstrap port given for the worker is %d, its engine says %d", other, second.PeerPort)
			if w, _ := f.worker(second.URL); w.BootstrapSource != "spec" || len(w.Remarks) != 1 || w.Remarks[0] != want {
				t.Errorf("shown as %+v, want the remark %q", w, want)
			}
			if w, _ := f.worker(first.URL); len(w.Remarks) > 0 {
				t.Errorf("shown as %+v, want no remarks", w)
			}
		}},
		row{"10_conflict", func(t *testing.T, f *legFleet) {
			first, second := f.pd.Prefill[0], f.pd.Prefill[1]
			f.remove(second.URL)
			await(t, "the worker's end", func() bool { _, code := f.worker(second.URL); return code == 404 })
			f.add(second.URL, fmt.Sprintf(`,"worker_type":"prefill","bootstrap_port":%d`, first.PeerPort))
			await(t, "the conflict", func() bool {
				w, _ := f.worker(second.URL)
				return strings.HasPrefix(w.Conflict, "bootstrap_port_conflict: "+first.URL+" has")
			})
			for range 4 {
				if a := f.asks(t, ""); a.status != 200 {
					t.Errorf("status %d: %s", a.status, a.body)
				}
			}
			if got, err := second.Records(t.Context(), chatPath); err != nil || len(got) != 0 {
				t.Errorf("the second one got %d requests (%v)", len(got), err)
			}
		}},
	)
}

// TestBootstrapPortIsTaken has an engine come back where another one of the fleet is met.
func TestBootstrapPortIsTaken(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"10_after_a_restart":       func(t *testing.T) { portTaken(t) },
		"10_after_a_restart_split": func(t *testing.T) { portTaken(t, "--topology", "split") },
	})
}

func portTaken(t *testing.T, args ...string) {
	first, second, decode := startRole(t, "sglang", "prefill"), startRole(t, "sglang", "prefill"), startRole(t, "sglang", "decode")
	g := pdOf(t, []*restartable{first, second}, []*restartable{decode}, append(args, "--health-check-interval-secs", "1")...)
	taken := first.peer
	first.end()
	second.end()
	second.againAt(t, taken)
	await(t, "the conflict", func() bool {
		w, _ := g.worker(second.url)
		return w.BootstrapPort == taken && w.BootstrapSource == "engine" && strings.HasPrefix(w.Conflict, "bootstrap_port_conflict: "+first.url+" has")
	})
	first.again(t) // at another one
	await(t, "the conflict to end", func() bool {
		a, _ := g.worker(first.url)
		b, _ := g.worker(second.url)
		return a.Conflict == "" && b.Conflict == "" && a.Healthy && b.Healthy && a.BootstrapPort == first.peer
	})
	await(t, "answers of both", func() bool {
		askChat(t, g.url)
		return len(first.met(t)) > 0 && len(second.met(t)) > 0
	})
	for _, e := range []*restartable{first, second} {
		for _, p := range e.met(t) {
			if p != e.peer {
				t.Errorf("%s was to be met at %d, want %d", e.url, p, e.peer)
			}
		}
	}
	g.stop(0)
}
