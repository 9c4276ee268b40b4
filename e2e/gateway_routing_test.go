package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

func TestGatewayRouting(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"25_target_worker":  targetWorker,
		"27_routing_tokens": routingTokens,
	})
}

// targetWorker: an index counts those that can be chosen, in the order in which they came.
func targetWorker(t *testing.T, topology ...string) {
	engines := simtest.StartN(t, 3, simtest.Config())
	g := launched(t, urls(engines), append(topology, "--policy", "consistent_hashing", "--disable-retries", "--shutdown-grace-period-secs", "0",
		"--health-check-interval-secs", "1", "--health-failure-threshold", "1")...)
	at := func(index string) answer {
		return do(t, http.MethodPost, g.url+chatPath, chat, "X-SMG-Target-Worker", index)
	}
	are := func(when string, want []*simtest.Engine) {
		t.Helper()
		for i, e := range want {
			if a := at(strconv.Itoa(i)); a.header.Get("X-Smg-Routed-Worker-Id") != e.URL || a.status != http.StatusOK {
				t.Errorf("%s, index %d: %d of %s, want %s", when, i, a.status, a.header.Get("X-Smg-Routed-Worker-Id"), e.URL)
			}
		}
		for _, none := range []string{strconv.Itoa(len(want)), "9", "abc", "-1"} {
			wantProblem(t, at(none), http.StatusServiceUnavailable, "no_available_workers")
		}
	}
	are("at first", engines)
	if err := engines[0].SetFaults(t.Context(), simctl.Faults{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	await(t, "the first to be lost", func() bool { return at("0").header.Get("X-Smg-Routed-Worker-Id") == engines[1].URL })
	are("once the first has died", engines[1:])
	g.stop(0)
}

// routingTokens has a header say what a prompt's tokens are, and has headers that say
// nothing of the kind leave it to the prompt.
func routingTokens(t *testing.T, topology ...string) {
	engines := simtest.StartN(t, 3, simtest.Config())
	g := launched(t, urls(engines), append(topology, "--policy", "prefix_hash", "--prefix-token-count", "3", "--shutdown-grace-period-secs", "0")...)
	by := func(path, body string, header ...string) string {
		t.Helper()
		a := do(t, http.MethodPost, g.url+path, body, header...)
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return a.header.Get("X-Smg-Routed-Worker-Id")
	}
	home := by("/generate", `{"input_ids":[1,2,3,4],"sampling_params":{"max_new_tokens":1}}`)
	body, other := "", home
	for i := 0; other == home; i++ { // a prompt that another worker gets by its text
		if i == 100 {
			t.Fatal("one worker gets everything")
		}
		body = strings.Replace(chat, "Hello", fmt.Sprintf("%d is what I ask about", i), 1)
		other = by(chatPath, body)
	}
	// All of them would be 1, 2, 3 and so on to who reads them leniently.
	ids := func(n int) string { return "1,2,3" + strings.Repeat(",4", n-3) }
	bytes := func(n int) string { return "1,2,3," + strings.Repeat("0", n-7) + "4" }
	for _, c := range []struct{ name, tokens, want string }{
		{"ids", "1,2,3", home},
		{"more ids", "1,2,3,9", home},
		{"512 ids", ids(512), home},
		{"4096 bytes", bytes(4096), home},
		{"513 ids", ids(513), other},
		{"4097 bytes", bytes(4097), other},
		{"blanks", "1, 2, 3", other},
		{"a sign", "+1,2,3", other},
		{"an empty item", "1,,2,3", other},
		{"an empty item at the end", "1,2,3,", other},
		{"an empty item at the start", ",1,2,3", other},
		{"a number of 33 bits", "1,2,3,4294967296", other},
		{"nothing", "", other},
	} {
		if got := by(chatPath, body, "X-SMG-Routing-Tokens", c.tokens); got != c.want {
			t.Errorf("%s: it went to %s, want %s", c.name, got, c.want)
		}
	}
	g.stop(0)
}
