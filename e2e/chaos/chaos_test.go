package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the test's program be the real one too: the site starts it as NATS
// servers and as the keeper of a namespace.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	goleak.VerifyTestMain(m)
}

// TestChaos makes a few faults. `make chaos` makes many.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	programs := t.TempDir()
	build := exec.Command("go", "build", "-o", programs, "smg/cmd/smg-ingress", "smg/cmd/smg-selector", "smg/cmd/smg-sim")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	var stdout, stderr bytes.Buffer
	// Other tests run beside it, so that it is patient.
	args := []string{"-programs", programs, "-only", "kill-ingress,kill-selector,kill-engine,stop-selector,kill-nats,partition", "-faults", "6", "-slow", "6"}
	if err := run(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s%s", err, &stderr, &stdout)
	}
	for _, want := range []string{"seed 1, 6 rounds", "| kill-engine ", "0 for no such reason"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &stdout)
		}
	}
}

// TestChaosOfLegs is a tenth of the run. `make chaos CHAOS="-site legs"` is all of it.
func TestChaosOfLegs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	programs := t.TempDir()
	build := exec.Command("go", "build", "-o", programs, "smg/cmd/smg", "smg/cmd/smg-ingress", "smg/cmd/smg-selector", "smg/cmd/smg-sim")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	for _, c := range []struct{ engine, topology string }{{"vllm", "single"}, {"sglang", "split"}} {
		t.Run(c.engine+"_"+c.topology, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := []string{"-programs", programs, "-site", "legs", "-requests", "1000", "-engine", c.engine, "-topology", c.topology}
			if err := run(t.Context(), args, &stdout, &stderr); err != nil {
				t.Fatalf("%v\n%s%s", err, &stderr, &stdout)
			}
			for _, want := range []string{"seed 1, 1000 requests", "-engine of the decode leg", "-engine of the prefill leg", "| whole | "} {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("the report lacks %q:\n%s", want, &stdout)
				}
			}
		})
	}
}

func TestAllowed(t *testing.T) {
	for code, want := range map[string]bool{
		"no_available_workers": true, "request_timeout": true, "prefill_request_failed": true, "encode_upstream_error": true, "decode_read_failed": true,
		"": false, "internal_error": false, "model_not_found": false, "decode_bad_request": false, "prefill_not_found": false, "worker_overload_protection_shed": false,
	} {
		if got := allowed(code); got != want {
			t.Errorf("%q is allowed: %v, want %v", code, got, want)
		}
	}
}

// TestReadText has streams that end well, and not.
func TestReadText(t *testing.T) {
	const begin = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for _, tt := range []struct{ name, body, text, want string }{
		{"whole", begin + begin + "data: [DONE]\n\n", "aa", ""},
		{"cut", begin, "a", "no end"},
		{"failed", begin + "data: {\"error\":{}}\n\n", "a", `{"error"`},
		{"no JSON", "data: {\n\n", "", "event"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := readText(strings.NewReader(tt.body))
			if text != tt.text || (err != nil) != (tt.want != "") || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got %q, %v, want %q, %q", text, err, tt.text, tt.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown fault", []string{"-only", "kill-all"}, `no fault is called "kill-all"; there are kill-ingress`},
		{"no faults", []string{"-faults", "0"}, "-faults 0: at least 1"},
		{"too fast", []string{"-slow", "0.5"}, "-slow 0.5: at least 1"},
		{"no time", []string{"-gone", "0s"}, "-gone 0s: it has to be positive"},
		{"unknown site", []string{"-site", "moon"}, `-site "moon": it is fleet or legs`},
		{"no requests", []string{"-requests", "0"}, "-requests 0: at least 1"},
		{"no programs", nil, "make build"},
		{"arguments", []string{"now"}, `"now": nothing but flags is taken`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(append([]string{"-programs", t.TempDir()}, tt.args...), io.Discard)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// laidOut is a site that does not run, on one host.
func laidOut(t *testing.T) *site {
	t.Helper()
	h := &host{bus: loopback, data: loopback}
	s := &site{options: &options{gone: time.Minute, slow: 1}, net: &network{near: h, far: h}, dir: t.TempDir(), http: http.DefaultClient}
	if err := s.layOut(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlan(t *testing.T) {
	s := laidOut(t)
	s.options.faults = 40
	plans := map[string]bool{}
	for seed := range uint64(5) {
		s.options.seed = seed
		plan, err := newTrial(s.options, s, io.Discard).plan()
		if err != nil {
			t.Fatal(err)
		}
		again, err := newTrial(s.options, s, io.Discard).plan()
		if err != nil {
			t.Fatal(err)
		}
		once, text := map[kind]int{}, ""
		for n, incidents := range plan {
			text += names(incidents) + "\n"
			if got := names(again[n]); got != names(incidents) {
				t.Errorf("seed %d, round %d: %s, and then %s", seed, n, names(incidents), got)
			}
			switch {
			case n < int(kinds)-1: // this site has no partition
				once[incidents[0].kind]++
			case len(incidents) == 2 && incidents[0].hits(incidents[1]):
				t.Errorf("seed %d, round %d: %s have a victim in common", seed, n, names(incidents))
			}
		}
		for k := range kinds {
			if want := 1; k != partition && once[k] != want {
				t.Errorf("seed %d: %s comes %d times in the first rounds", seed, k, once[k])
			}
		}
		plans[text] = true
	}
	if len(plans) != 5 {
		t.Errorf("5 seeds have %d plans", len(plans))
	}
}

// TestExplain has calls that failed beside faults.
func TestExplain(t *testing.T) {
	s := laidOut(t)
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	trial := &runTrial{rounds: []round{
		{incidents: []*incident{{kind: killEngine, victims: s.engines[4:], from: at(10), to: at(20)}}},
		{incidents: []*incident{{kind: killIngress, victims: s.ingresses[:1], from: at(30), to: at(40)}}},
		{incidents: []*incident{{kind: killSelector, victims: s.selectors[:1], from: at(50), to: at(60)}}},
	}}
	for _, tt := range []struct {
		name         string
		ingress      int
		worker       string
		begun        bool
		began, ended int
		want         verdict
	}{
		{"the engine of a stream", 0, s.engines[4].worker(), true, 5, 11, deadEngine},
		{"another engine", 0, s.engines[3].worker(), true, 5, 11, unexplained},
		{"no answer yet", 0, s.engines[4].worker(), false, 5, 11, unexplained},
		{"before", 0, s.engines[4].worker(), true, 5, 9, unexplained},
		{"after", 0, s.engines[4].worker(), true, 21, 22, unexplained},
		{"the ingress", 0, "", false, 29, 30, deadIngress},
		{"the other ingress", 1, "", false, 29, 30, unexplained},
		{"a selector", 0, "", false, 51, 52, unexplained},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &call{ingress: s.ingresses[tt.ingress], worker: tt.worker, begun: tt.begun, began: at(tt.began), ended: at(tt.ended)}
			if got := trial.explain(c); got != tt.want {
				t.Errorf("verdict %d, want %d", got, tt.want)
			}
		})
	}
}

func TestPinsMoved(t *testing.T) {
	before := pins{1: "a", 2: "b", 3: "c"}
	hit := func(worker string) bool { return worker == "b" }
	if err := before.moved(pins{1: "a", 2: "c", 3: "c"}, hit); err != nil {
		t.Error(err)
	}
	if err := before.moved(pins{1: "b", 2: "b", 3: "c"}, hit); err == nil || !strings.Contains(err.Error(), "key 1 was pinned to a, and went to b") {
		t.Errorf("got %v", err)
	}
}

// TestAgree has pages and ledgers that say one thing, and then not.
func TestAgree(t *testing.T) {
	for _, tt := range []struct {
		name    string
		liar    string // whose page has this instead
		metric  string
		value   int
		ledger  int
		want    string
		notIdle bool
	}{
		{name: "all agree", ledger: 2, notIdle: true},
		{name: "at rest"},
		{name: "a selector has lost one", ledger: 2, notIdle: true, liar: "selector-prefill-1", metric: counted, value: 1, want: "selector-prefill-1 counts 1"},
		{name: "an ingress has one too many", ledger: 2, notIdle: true, liar: "ingress-1", metric: own, value: 2, want: "the ingresses count 3"},
		{name: "a lease has leaked", liar: "selector-prefill-0", metric: counted, value: 1, want: "selector-prefill-0 counts 1"},
		{name: "another health", liar: "selector-prefill-1", metric: health, value: 0, want: "smg_worker_health: selector-prefill-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := laidOut(t)
			s.engines = s.engines[:1]
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"in_flight":%d}`, tt.ledger)
			}))
			t.Cleanup(engine.Close)
			s.http = engine.Client()
			s.engines[0].url = engine.URL
			for _, m := range append(s.ingresses[:2:2], s.selectors...) {
				values := map[string]int{own: tt.ledger / 2}
				if m.leg != "" {
					values = map[string]int{counted: tt.ledger, health: 1}
				}
				if m.name == tt.liar {
					values[tt.metric] = tt.value
				}
				page := ""
				for name, v := range values {
					page += fmt.Sprintf("# TYPE %s gauge\n%s{worker=%q} %d\n", name, name, engine.URL, v)
				}
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) }))
				t.Cleanup(server.Close)
				m.metrics = server.URL
			}
			err := s.agree(t.Context())
			if got := fmt.Sprint(err); (err != nil) != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err := s.idle(t.Context()); (err != nil) != tt.notIdle {
				t.Errorf("idle says %v", err)
			}
		})
	}
}

// TestReadEvents has streams that end well, and not.
func TestReadEvents(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"whole", "data: {\"a\":1}\n\ndata: [DONE]\n\n", ""},
		{"cut", "data: {\"a\":1}\n\n", "the stream ended after 1 events without its end"},
		{"failed", "data: {\"a\":1}\n\ndata: {\"error\":{}}\n\ndata: [DONE]\n\n", `after 1 events: {"error"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := readEvents(&http.Response{Body: io.NopCloser(strings.NewReader(tt.body))})
			if (err != nil) != (tt.want != "") || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestSameAnswer has a question answered in two ways.
func TestSameAnswer(t *testing.T) {
	l := &load{texts: map[int]string{}}
	if err := errors.Join(l.same(1, "yes"), l.same(2, "no"), l.same(1, "yes")); err != nil {
		t.Error(err)
	}
	if l.same(1, "no") == nil {
		t.Error("another answer to the same question is none")
	}
}
