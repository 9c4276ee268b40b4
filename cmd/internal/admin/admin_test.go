package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"smg/cmd/internal/flags"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a gateway that gives one answer a route, each the next of its list, the
// last one again and again. asked are the requests with their bodies.
type stub struct {
	*httptest.Server
	answers map[string][]string // "METHOD /path" → "status body"
	asked   []string
	bearer  string
}

func newStub(t *testing.T, answers map[string][]string) *stub {
	s := &stub{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		route := r.Method + " " + r.URL.EscapedPath()
		if r.URL.RawQuery != "" {
			route += "?" + r.URL.RawQuery
		}
		s.asked = append(s.asked, strings.TrimSpace(route+" "+string(body)))
		s.bearer = r.Header.Get("Authorization")
		list := s.answers[route]
		if len(list) == 0 {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return
		}
		if len(list) > 1 {
			s.answers[route] = list[1:]
		}
		var status int
		if _, err := fmt.Sscan(list[0], &status); err != nil {
			t.Error(err)
		}
		_, text, _ := strings.Cut(list[0], " ")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // a client that has left needs no error
	}))
	t.Cleanup(s.Close)
	return s
}

// run is a command's standard output, standard error and exit code.
func run(people bool, env map[string]string, args ...string) (out, report string, code int) {
	var o, e strings.Builder
	p := program{out: &o, people: people, env: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}}
	code = flags.Report(&e, p.run(context.Background(), args[0], args[1:]))
	return o.String(), e.String(), code
}

const (
	two = `200 {"workers":[{"id":"i1","url":"http://w1:8000","model_id":"llama","worker_type":"prefill","status":"ready","circuit_breaker":"open","load":3},` +
		`{"id":"i2","url":"http://w2:8000","worker_type":"prefill","status":"not_ready","load":0,"conflict":"port\ttaken"}],"total":2}`
	none  = `200 {"workers":[],"total":0,"stats":{}}`
	state = `200 {"status":"ready","bus_connected":true,"healthy_workers":1,"total_workers":2,"legs":[` +
		`{"leg":"prefill","policy":"random","protocols":["sglang"],"degraded":false,"leases":3,"healthy_workers":1,"total_workers":2,"selectors":[{"id":"1","local":true,"excluded":false},{"id":"2","local":false,"excluded":true}]},` +
		`{"leg":"decode","degraded":true,"leases":0,"waiting_requests":7,"healthy_workers":0,"total_workers":0,"selectors":[{"id":"3"}]},` +
		`{"leg":"encode","degraded":false,"leases":0,"healthy_workers":0,"total_workers":0,"selectors":[]}]}`
	accepted = `202 {"status":"accepted","worker_id":"i3","url":"http://w3:8000","location":"/workers/i3","message":"soon"}`
)

// TestOutput holds what is printed of answers.
func TestOutput(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers map[string][]string
		args    string
		people  bool
		want    string
		asked   []string
	}{
		{
			name: "list, for people", answers: map[string][]string{"GET /workers": {two}}, args: "workers", people: true,
			want: `
URL              LEG       MODEL   STATUS                   IN FLIGHT   ID
http://w1:8000   prefill   llama   ready, breaker open      3           i1
http://w2:8000   prefill   -       not_ready (port taken)   0           i2
2 workers, 1 ready
`,
		},
		{
			name: "list, piped", answers: map[string][]string{"GET /workers?model=a%26b": {two}}, args: "workers ls --model a&b",
			want: `
URL	LEG	MODEL	STATUS	IN FLIGHT	ID
http://w1:8000	prefill	llama	ready, breaker open	3	i1
http://w2:8000	prefill	-	not_ready (port taken)	0	i2
`,
		},
		{name: "nobody, for people", answers: map[string][]string{"GET /workers": {none}}, args: "workers list", people: true, want: "\nno workers are registered; smg workers add URL registers one\n"},
		{name: "nobody, piped", answers: map[string][]string{"GET /workers": {none}}, args: "workers list", want: "\nURL\tLEG\tMODEL\tSTATUS\tIN FLIGHT\tID\n"},
		{name: "list, JSON", answers: map[string][]string{"GET /workers": {none}}, args: "workers --json", people: true, want: "\n" + none[4:] + "\n"},
		{
			name: "add", answers: map[string][]string{"POST /workers": {accepted}}, args: "workers add http://w3:8000 --leg prefill --label zone=a --label=tier=x=y --bootstrap_port 8998 --model m",
			want: "\naccepted   http://w3:8000   i3\nsoon\n",
			asked: []string{
				`POST /workers {"url":"http://w3:8000","worker_type":"prefill","model_id":"m","labels":{"tier":"x=y","zone":"a"},"bootstrap_port":8998}`,
			},
		},
		{
			name: "add and wait",
			answers: map[string][]string{"POST /workers": {accepted}, "GET /workers/i3": {
				`200 {"id":"i3","status":"pending","job_status":{"message":"refused"}}`, `200 {"id":"i3","status":"not_ready"}`, `200 {"id":"i3","status":"ready"}`,
			}},
			args: "workers add --wait-secs 60 http://w3:8000", want: "\nready   http://w3:8000   i3\n",
			asked: []string{`POST /workers {"url":"http://w3:8000","worker_type":"regular"}`, "GET /workers/i3", "GET /workers/i3", "GET /workers/i3"},
		},
		{
			name:    "remove by id and by URL",
			answers: map[string][]string{"DELETE /workers/i1": {accepted}, "DELETE /workers/http:%2F%2Fw2:8000": {accepted}},
			args:    "workers rm i1 http://w2:8000", want: "\nremoved   i1\nremoved   http://w2:8000\n",
			asked: []string{"DELETE /workers/i1", "DELETE /workers/http:%2F%2Fw2:8000"},
		},
		{
			name: "status, piped", answers: map[string][]string{"GET /workers": {none}, "GET /status": {state}}, args: "status",
			want: `
GATEWAY	STATUS	WORKERS READY	BUS
URL	ready	1 of 2	connected

LEG	POLICY	PROTOCOL	SELECTORS	WORKERS READY	IN FLIGHT	WAITING	SELECTIONS
prefill	random	sglang	2 (1 not answering)	1 of 2	3	0	by selectors
decode	-	-	1	0 of 0	0	7	DEGRADED, the last one was made without a selector
encode	-	-	0	0 of 0	0	0	DEGRADED, there is no selector

URL	LEG	MODEL	STATUS	IN FLIGHT
`,
			asked: []string{"GET /status", "GET /workers"},
		},
		{
			name: "status without NATS, for people", people: true,
			answers: map[string][]string{"GET /workers": {two}, "GET /status": {`200 {"status":"draining","bus_connected":false,"legs":[]}`}}, args: "status",
			want: `
GATEWAY                  STATUS     WORKERS READY   BUS
URL   draining   0 of 0          not connected to NATS

LEG   POLICY   PROTOCOL   SELECTORS   WORKERS READY   IN FLIGHT   WAITING   SELECTIONS

URL              LEG       MODEL   STATUS                   IN FLIGHT
http://w1:8000   prefill   llama   ready, breaker open      3
http://w2:8000   prefill   -       not_ready (port taken)   0
2 workers, 1 ready
`,
		},
		{
			name: "status, JSON", answers: map[string][]string{"GET /workers": {none}, "GET /status": {`200 {"status":"ready","legs":[]}`}}, args: "status --json",
			want: "\n" + `{"legs":[],"status":"ready","workers":[]}` + "\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStub(t, tt.answers)
			out, report, code := run(tt.people, nil, append(strings.Fields(tt.args), "--gateway", s.URL+"/")...)
			if code != 0 || report != "" {
				t.Fatalf("exit %d: %s", code, report)
			}
			got := strings.ReplaceAll(out, s.URL, "URL")
			if diff := cmp.Diff(tt.want, "\n"+got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.asked, s.asked); tt.asked != nil && diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFaults holds what is said when it does not work, and the exit code.
func TestFaults(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + gone.Addr().String()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	const unknown = `404 {"error":"no worker has the id i1","code":"WORKER_NOT_FOUND"}`
	for _, tt := range []struct {
		name    string
		answers map[string][]string
		args    string
		at      string // "": the stub
		code    int
		want    []string
	}{
		{"nobody there", nil, "status", nobody, 1, []string{"error: no gateway listens there", "--gateway " + nobody, "hint: start one", "30000", "8080"}},
		{"no such host", nil, "workers", "no-such-host.invalid", 1, []string{"--gateway http://no-such-host.invalid", "hint: "}},
		{"the page of metrics", nil, "workers", "", 1, []string{"GET /workers: 404", "no gateway", "not that of metrics"}},
		{"a gateway of an earlier version", map[string][]string{"GET /workers": {none}}, "status", "", 1, []string{"GET /status: 404", "earlier version"}},
		{"a web page", map[string][]string{"GET /workers": {"200 <html>"}}, "workers", "", 1, []string{"no JSON", "no gateway"}},
		{"JSON of another kind", map[string][]string{"GET /workers": {`200 [1]`}}, "workers", "", 1, []string{"no gateway"}},
		{"moved", map[string][]string{"GET /workers": {"302 "}}, "workers", "", 1, []string{"302"}},
		{"key wanted", map[string][]string{"GET /workers": {"401 "}}, "workers", "", 1, []string{"GET /workers: 401", "hint: give --api-key, or set SMG_API_KEY"}},
		{"no gateway behind a balancer", map[string][]string{"GET /workers": {"503 no healthy upstream"}}, "workers", "", 1, []string{"503", "no healthy upstream"}},
		{"registered already", map[string][]string{"POST /workers": {`409 {"error":"worker http://w is registered already","code":"WORKER_ALREADY_EXISTS"}`}}, "workers add http://w", "", 1, []string{"error: worker http://w is registered already", "POST /workers: 409 WORKER_ALREADY_EXISTS", "hint: smg workers rm"}},
		{"a bad address", map[string][]string{"POST /workers": {`400 {"error":"no scheme","code":"BAD_REQUEST"}`}}, "workers add w", "", 1, []string{"error: no scheme", "400 BAD_REQUEST"}},
		{"a bad leg", map[string][]string{"POST /workers": {"422 worker_type \"x\" must be one of"}}, "workers add http://w --leg x", "", 1, []string{`error: worker_type "x" must be`, "POST /workers: 422"}},
		{"an envelope", map[string][]string{"GET /workers": {`500 {"error":{"message":"a fault of the gateway","code":"internal_error"}}`}}, "workers", "", 1, []string{"error: a fault of the gateway", "GET /workers: 500"}},
		{"unknown worker, and one that is known", map[string][]string{"DELETE /workers/i1": {unknown}, "DELETE /workers/i2": {accepted}}, "workers rm i1 i2", "", 1, []string{"no worker has the id i1"}},
		{"its registration ends", map[string][]string{"POST /workers": {accepted}, "GET /workers/i3": {`200 {"status":"pending"}`, unknown}}, "workers add http://w --wait-secs 60", "", 1, []string{"its registration has ended", "log of the gateway"}},
		{"not ready in time", map[string][]string{"POST /workers": {accepted}, "GET /workers/i3": {`200 {"status":"pending","job_status":{"message":"connection refused"}}`}}, "workers add http://w --wait-secs 1", "", 1, []string{"not ready within 1s: connection refused", "smg workers rm i3"}},
		{"no argument", nil, "workers rm", "", 2, []string{"an argument is missing", "by its id or its URL"}},
		{"two arguments", nil, "workers add http://a http://b", "", 2, []string{"unexpected argument", "http://b"}},
		{"no such command", nil, "workers purge", "", 2, []string{"purge", "use list, add or rm"}},
		{"status of something", nil, "status it", "", 2, []string{"unexpected argument"}},
		{"unknown flag", nil, "status --model m", "", 2, []string{"unknown flag", "--model"}},
		{"no value", nil, "workers list --model", "", 2, []string{"a value is missing"}},
		{"not a number", nil, "status --timeout-secs soon", "", 2, []string{"timeout-secs"}},
		{"no time", nil, "status --timeout-secs 0", "", 2, []string{"--timeout-secs 0"}},
		{"no port", nil, "workers add http://w --bootstrap-port 70000", "", 2, []string{"--bootstrap-port 70000"}},
		{"no label", nil, "workers add http://w --label zone", "", 2, []string{"write --label zone=a"}},
		{"not an address", nil, "status", "nats://user:secret@n:4222", 2, []string{"not the address of a gateway"}},
		{"a secret in the address", nil, "status", "http://user:secret@n:30000", 2, []string{"not the address of a gateway"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStub(t, tt.answers)
			at := tt.at
			if at == "" {
				at = s.URL
			}
			_, report, code := run(true, nil, append(strings.Fields(tt.args), "--url="+at)...)
			if tt.name == "no value" { // the last word must stay the last
				_, report, code = run(true, nil, strings.Fields(tt.args)...)
			}
			if code != tt.code || !strings.HasPrefix(report, "error: ") || strings.Contains(report, "secret") {
				t.Errorf("exit %d, want %d:\n%s", code, tt.code, report)
			}
			for _, w := range tt.want {
				if !strings.Contains(report, w) {
					t.Errorf("it does not say %q:\n%s", w, report)
				}
			}
		})
	}
}

// A gateway that takes its time is not waited for longer than was said.
func TestTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, report, code := run(true, nil, "status", "--timeout-secs", "1", "--gateway", l.Addr().String())
	if code != 1 || !strings.Contains(report, "no answer within 1s") || !strings.Contains(report, "--timeout-secs") {
		t.Errorf("exit %d: %s", code, report)
	}
}

func TestKey(t *testing.T) {
	s := newStub(t, map[string][]string{"GET /workers": {none}})
	for _, tt := range []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"none", nil, nil, ""},
		{"variable", map[string]string{"SMG_API_KEY": "a"}, nil, "Bearer a"},
		{"flag before variable", map[string]string{"SMG_API_KEY": "a"}, []string{"--api-key", "-b"}, "Bearer -b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, report, code := run(true, tt.env, append([]string{"workers", "--gateway", s.URL}, tt.args...)...); code != 0 || s.bearer != tt.want {
				t.Errorf("exit %d, sent %q, want %q: %s", code, s.bearer, tt.want, report)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, command := range []string{"status", "workers", "workers list", "workers add", "workers rm"} {
		t.Run(command, func(t *testing.T) {
			out, report, code := run(true, nil, append(strings.Fields(command), "-h")...)
			if code != 0 || report != "" || !strings.Contains(out, "Usage: smg "+command) || !strings.Contains(out, "--gateway") {
				t.Errorf("exit %d\n%s%s", code, out, report)
			}
		})
	}
}
