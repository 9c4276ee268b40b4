package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

// TestWorkerThatComesLater has a gateway started before its worker.
func TestWorkerThatComesLater(t *testing.T) {
	parallel(t)
	at := port(t)
	worker := fmt.Sprintf("http://127.0.0.1:%d", at)
	g := launch(t, []string{worker}, "--worker-startup-check-interval", "1", "--shutdown-grace-period-secs", "0")
	g.says("level=WARN msg=.worker is not answering. worker=" + worker + " reason=.*connection refused")
	if s := status(t, g.url+"/health"); s != http.StatusOK {
		t.Errorf("health %d: a gateway without workers is healthy", s)
	}
	if a := do(t, http.MethodGet, g.url+"/readiness", ""); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "insufficient healthy workers") {
		t.Errorf("readiness %d %s", a.status, a.body)
	}
	if a := do(t, http.MethodGet, g.url+"/v1/models", ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("models %d %s", a.status, a.body)
	}
	// Until the selector's first beat, a moment after the start, nobody can be asked.
	await(t, "a selector", func() bool {
		return do(t, http.MethodPost, g.url+"/v1/chat/completions", chat).status != http.StatusServiceUnavailable
	})
	wantProblem(t, do(t, http.MethodPost, g.url+"/v1/chat/completions", chat), http.StatusNotFound, "model_not_found")
	wantProblem(t, do(t, http.MethodPost, g.url+"/generate", `{"text":"Hello"}`), http.StatusNotFound, "model_not_found")

	start(t, "smg-sim", "--port", strconv.Itoa(at), "--time-scale", "0")
	g.says("^ready +1 of 1 worker, took ")
	if by := askChat(t, g.url); by != worker {
		t.Errorf("answered by %s", by)
	}
	if n := g.count("is not answering"); n != 1 {
		t.Errorf("%d lines about a worker that does not answer, want one", n)
	}
	g.stop(0)
}

// wantProblem wants an error of the gateway.
func wantProblem(t *testing.T, a answer, status int, code string) {
	t.Helper()
	if a.status != status || a.header.Get("X-Smg-Error-Code") != code || !strings.Contains(a.body, `"code":"`+code+`"`) {
		t.Errorf("status %d, code %q, want %d, %q: %s", a.status, a.header.Get("X-Smg-Error-Code"), status, code, a.body)
	}
}

// TestWorkerIsAskedAgainAndSaidOnce counts the questions to a worker that is not
// well, against the lines about it.
func TestWorkerIsAskedAgainAndSaidOnce(t *testing.T) {
	parallel(t)
	e := simtest.Start(t, simtest.Config())
	if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: "/health"}, Status: http.StatusServiceUnavailable}); err != nil {
		t.Fatal(err)
	}
	g := launch(t, []string{e.URL}, "--worker-startup-check-interval", "1", "--shutdown-grace-period-secs", "0")
	await(t, "three questions", func() bool {
		asked, err := e.Records(t.Context(), "/health")
		if err != nil {
			t.Fatal(err)
		}
		return len(asked) >= 3
	})
	g.says(`is not answering" .*/health: answered 503 Service Unavailable`)
	if n := g.count("is not answering"); n != 1 {
		t.Errorf("%d lines about three questions that failed alike, want one", n)
	}
	g.stop(0)
}

// TestWorkerThatFailsItsProbes is known, and not ready: that is another error than
// that of a model nobody serves.
func TestWorkerThatFailsItsProbes(t *testing.T) {
	parallel(t)
	e := simtest.Start(t, simtest.Config())
	g := launched(t, []string{e.URL}, "--health-check-interval-secs", "1", "--health-failure-threshold", "1", "--health-success-threshold", "1",
		"--shutdown-grace-period-secs", "0")
	if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: "/health"}, Status: http.StatusServiceUnavailable}); err != nil {
		t.Fatal(err)
	}
	await(t, "readiness to be lost", func() bool { return status(t, g.url+"/readiness") == http.StatusServiceUnavailable })
	wantProblem(t, do(t, http.MethodPost, g.url+"/v1/chat/completions", chat), http.StatusServiceUnavailable, "no_available_workers")
	if s := status(t, g.url+"/v1/models"); s != http.StatusOK {
		t.Errorf("models %d: the worker is known", s)
	}
	if err := e.SetFaults(t.Context(), simctl.Faults{}); err != nil {
		t.Fatal(err)
	}
	await(t, "readiness to be back", func() bool { return status(t, g.url+"/readiness") == http.StatusOK })
	askChat(t, g.url)
	g.stop(0)
}

// TestSlowClient has a client that does not take its stream. Others are served
// meanwhile, and when it leaves the engine's work ends.
func TestSlowClient(t *testing.T) {
	parallel(t)
	cfg := simtest.Config()
	cfg.Core.ContextLength = 1 << 20 // room for an answer that no socket's buffers hold
	cfg.Core.KVBlocks = cfg.Core.ContextLength / cfg.Core.BlockSize
	engines := simtest.StartN(t, 1, cfg)
	g := launched(t, urls(engines), "--shutdown-grace-period-secs", "0")
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	body := chatStream(500_000)
	if _, err := fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: smg\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 200" {
		t.Fatalf("%q %v", head, err)
	}
	for range 20 {
		askChat(t, g.url)
	}
	if n := total(t, g.metrics, "smg_worker_requests_active"); n != 1 {
		t.Errorf("%v requests active, want the slow one", n)
	}
	c.Close()
	await(t, "the slow request to end", func() bool { return total(t, g.metrics, "smg_worker_requests_active") == 0 })
	if _, err := engines[0].WaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
	g.stop(0)
}

// TestConsistentHashing holds requests of a key to one worker.
func TestConsistentHashing(t *testing.T) {
	parallel(t)
	engines := simtest.StartN(t, 3, simtest.Config())
	g := launched(t, urls(engines), "--policy", "consistent_hashing", "--disable-retries", "--shutdown-grace-period-secs", "0")
	used := map[string]bool{}
	for key := range 24 {
		header := []string{"X-SMG-Routing-Key", fmt.Sprintf("session-%d", key)}
		by := askChat(t, g.url, header...)
		used[by] = true
		for range 3 {
			if again := askChat(t, g.url, header...); again != by {
				t.Errorf("%s went to %s, then to %s", header[1], by, again)
			}
		}
	}
	if len(used) != 3 {
		t.Errorf("24 keys went to %d workers of 3", len(used))
	}
	for i, e := range engines {
		if by := askChat(t, g.url, "X-SMG-Target-Worker", strconv.Itoa(i)); by != e.URL {
			t.Errorf("target %d is %s, want %s", i, by, e.URL)
		}
	}
	for _, bad := range []string{"3", "9", "abc", "-1"} {
		wantProblem(t, do(t, http.MethodPost, g.url+"/v1/chat/completions", chat, "X-SMG-Target-Worker", bad), http.StatusServiceUnavailable, "no_available_workers")
	}
	branches := gauges(t, g.metrics, "smg_consistent_hashing_policy_branch_total")
	for branch, want := range map[string]float64{"routing_key_hit": 96, "target_worker_hit": 3, "target_worker_miss": 4} {
		if got := branches[`{branch="`+branch+`"}`]; got != want {
			t.Errorf("%v decisions are %s, want %v", got, branch, want)
		}
	}
	g.stop(0)
}

// TestPagesOfMetrics holds what a gateway exports after some traffic to its
// documentation.
func TestPagesOfMetrics(t *testing.T) {
	parallel(t)
	g := oneEngine(t, "--shutdown-grace-period-secs", "0")
	askChat(t, g.url)
	seen := g.documented()
	for _, name := range []string{"smg_worker_requests_active", "smg_worker_selection_total", "smg_selector_requests_active", "go_goroutines", "process_open_fds"} {
		if seen[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	g.stop(0)
}

// documented holds what a gateway exports now to its documentation, and returns the
// types of the metrics.
func (g *gateway) documented() (seen map[string]string) {
	g.t.Helper()
	seen = map[string]string{}
	for line := range strings.Lines(get(g.t, g.metrics)) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" {
			seen[f[2]] = f[3]
		}
	}
	page := read(g.t, "../docs/metrics.md")
	for name, kind := range seen {
		row := regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`[^|]* \\| " + kind + " \\|")
		if strings.HasPrefix(name, "smg_") && !row.MatchString(page) {
			g.t.Errorf("docs/metrics.md has no %s %s", kind, name)
		}
	}
	return seen
}
