package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"smg/sim/simctl"
)

func inTurn(t *testing.T, w *watched) { even(t, w.reachedBy("regular"), len(w.engines)) }

func alwaysTheFirst(t *testing.T, w *watched) {
	if by := w.reachedBy("regular"); len(by) != 1 {
		t.Errorf("requests went to %v, want one worker", by)
	}
	if n := w.count(`level=WARN msg="passthrough sends every request to the first available worker`); n != 1 {
		t.Errorf("%d lines say that the other workers get nothing, want one", n)
	}
}

// document is a text of a few hundred characters that begins like no other.
func document(name string) string {
	return name + ": " + strings.Repeat("what "+name+" says of the matter at hand. ", 10)
}

// whoHasThePrompt asks about the same texts again and again: those who have them
// answer, and their caches say that they have. Partitions share nothing.
func whoHasThePrompt(t *testing.T, w *watched) {
	matches := w.branches("cache_aware")["tree_match"]
	home := map[string]string{}
	for i, c := range []struct{ text, salt, want string }{
		{"Aristotle", "", "expected_wait_fallback"},
		{"Aristotle", "", "tree_match"},
		{"Boethius", "", "expected_wait_fallback"},
		{"Aristotle", "", "tree_match"},
		{"Boethius", "", "tree_match"},
		{"Aristotle", "mine", "expected_wait_fallback"},
		{"Aristotle", "mine", "tree_match"},
		{"Aristotle", "yours", "expected_wait_fallback"},
		{"Aristotle", "mine", "tree_match"},
		{"Aristotle", "", "tree_match"},
		{"Aristotle", "yours", "tree_match"},
	} {
		fields := ""
		if c.salt != "" {
			fields = fmt.Sprintf(`,"cache_salt":%q`, c.salt)
		}
		by, body := w.asks(fmt.Sprintf("prompt-%d", i), chatOf(document(c.text), fields))
		d := w.decided("regular", "cache-aware selection", 1)[0]
		if d.branch != c.want || d.worker != by {
			t.Errorf("prompt %d (%s, salt %q): %s chose %s, want %s to choose %s", i, c.text, c.salt, d.branch, d.worker, c.want, by)
		}
		if c.want != "tree_match" {
			home[c.text+c.salt] = by
			continue
		}
		matches++
		if by != home[c.text+c.salt] {
			t.Errorf("prompt %d (%s, salt %q) went to %s, want %s", i, c.text, c.salt, by, home[c.text+c.salt])
		}
		if strings.Contains(body, `"cached_tokens":0`) || !strings.Contains(body, `"cached_tokens":`) {
			t.Errorf("prompt %d (%s, salt %q): the engine has not had it: %s", i, c.text, c.salt, body)
		}
	}
	if got := w.branches("cache_aware")["tree_match"]; got != matches {
		t.Errorf("%d matches are counted, want %d", got, matches)
	}
}

// sameHeads has prompts that begin alike go to one worker, whatever follows.
func sameHeads(t *testing.T, w *watched) {
	used := map[string]bool{}
	for head := range 16 {
		first := ""
		for tail := range 3 {
			text := fmt.Sprintf("%02d is the head of a text, which is longer than what is hashed of it; tail %d", head, tail)
			by, _ := w.asks(fmt.Sprintf("head-%d-%d", head, tail), chatOf(text, ""))
			if first == "" {
				first = by
			}
			d := w.decided("regular", "prefix-hash selection", 1)[0]
			if by != first || d.worker != by || d.branch != "ring_hit" {
				t.Errorf("head %d, tail %d: %s chose %s, and %s answered; want %s", head, tail, d.branch, d.worker, by, first)
			}
		}
		used[first] = true
	}
	if len(used) < 2 {
		t.Error("all heads went to one worker")
	}
}

// sameKeys has requests of a key go to one worker, and those for a worker to that one.
func sameKeys(t *testing.T, w *watched) {
	used := map[string]bool{}
	for key := range 16 {
		r := chatOf("Who is it?", "").with("X-SMG-Routing-Key", fmt.Sprintf("key-%d", key))
		first, _ := w.asks(fmt.Sprintf("key-%d", key), r)
		if again, _ := w.asks(fmt.Sprintf("key-%d-again", key), r); again != first {
			t.Errorf("key %d went to %s, then to %s", key, first, again)
		}
		used[first] = true
	}
	if len(used) < 2 {
		t.Error("all keys went to one worker")
	}
	for i, url := range w.engines {
		if by, _ := w.asks(fmt.Sprintf("target-%d", i), chatOf("Who is it?", "").with("X-SMG-Target-Worker", strconv.Itoa(i))); by != url {
			t.Errorf("target %d is %s, want %s", i, by, url)
		}
	}
}

// failover takes the worker of a key away, and gives it back.
func failover(t *testing.T, w *watched) {
	asked := 0
	ask := func() string {
		t.Helper()
		asked++
		by, _ := w.asks(fmt.Sprintf("pinned-%d", asked), chatOf(fmt.Sprintf("Turn %d.", asked), "").with("X-SMG-Routing-Key", "pinned"))
		return by
	}
	stays := func(want, when string) {
		t.Helper()
		for range 4 {
			if by := ask(); by != want {
				t.Errorf("%s the key went to %s, want %s", when, by, want)
			}
		}
	}
	first := ask()
	stays(first, "at first")
	i := slices.Index(w.engines, first)
	if i < 0 {
		t.Fatalf("%s is no worker", first)
	}
	engine, healthy := w.workers["regular"][i], fmt.Sprintf(`{worker=%q}`, first)
	await(t, "nobody to be connected any more", func() bool {
		if err := engine.SetFaults(t.Context(), simctl.Faults{Record: true, Refuse: true}); err != nil {
			t.Fatal(err)
		}
		l, err := engine.Ledger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l.Connections == 0
	})
	second := ask()
	if second == first {
		t.Fatalf("%s answers and is not there", first)
	}
	stays(second, "while its worker fails")
	await(t, "the worker to be lost", func() bool { return gauges(t, w.metrics, "smg_worker_health")[healthy] == 0 })
	stays(second, "once its worker is lost")
	w.rules(t)
	await(t, "the worker to be back", func() bool { return gauges(t, w.metrics, "smg_worker_health")[healthy] == 1 })
	await(t, "the key to be back", func() bool { return ask() == first })
	stays(first, "once its worker is back")
	if b := w.branches("manual"); b["occupied_miss"] != 1 {
		t.Errorf("branches %v, want one occupied_miss", b)
	}
}

// shortAndLong has prompts of different lengths go to different prefill workers.
func shortAndLong(t *testing.T, w *watched) {
	by := map[string][]string{}
	for i, text := range []string{"short", "long", "long", "short", "short", "long"} {
		n := map[string]int{"short": 10, "long": 3000}[text]
		id := fmt.Sprintf("%s-%d", text, i)
		w.asks(id, chatOf(strings.Repeat("x ", n), ""))
		d := w.decided("prefill", "bucket selection", 1)[0]
		if at := w.reached("prefill")[id]; d.worker != at || d.branch != "range" {
			t.Errorf("prompt %s: %s chose %s, and %s got it", id, d.branch, d.worker, at)
		}
		by[text] = append(by[text], d.worker)
	}
	short, long := slices.Compact(by["short"]), slices.Compact(by["long"])
	if len(short) != 1 || len(long) != 1 || short[0] == long[0] {
		t.Errorf("short prompts went to %v, long ones to %v", short, long)
	}
}
