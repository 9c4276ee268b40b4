package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// receiver is a collector of traces that keeps what it gets.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	addr string

	mu       sync.Mutex
	spans    []*otlp.Span
	services []string // that sent them
}

func (r *receiver) Export(_ context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, from := range q.GetResourceSpans() {
		for _, a := range from.GetResource().GetAttributes() {
			if name := a.GetValue().GetStringValue(); a.GetKey() == "service.name" && !slices.Contains(r.services, name) {
				r.services = append(r.services, name)
			}
		}
		for _, scope := range from.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, srv := &receiver{addr: l.Addr().String()}, grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, r)
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// traced is a span in the words of a test.
type traced struct {
	what   string // its name, and of a leg which, of which attempt, and at whom
	status string // of the answer
	failed bool
	parent string // "" for none here
}

// trace is what is known of one trace: its spans in the order of their begin, and their
// ids by what they are.
func (r *receiver) trace(id string) (all []traced, ids map[string][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var spans []*otlp.Span
	names := map[string]string{}
	for _, s := range r.spans {
		if hex.EncodeToString(s.GetTraceId()) == id {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(a, b *otlp.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	ids = map[string][]string{}
	for _, s := range spans {
		said := map[string]string{}
		for _, a := range s.GetAttributes() {
			v := a.GetValue()
			said[a.GetKey()] = v.GetStringValue()
			if said[a.GetKey()] == "" {
				said[a.GetKey()] = fmt.Sprint(v.GetIntValue())
			}
		}
		t := traced{what: s.GetName(), status: said["http.response.status_code"], failed: s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR}
		if t.what == "leg" {
			t.what += " " + said["smg.leg"] + " " + said["smg.attempt"] + " " + said["smg.worker"]
		}
		own := hex.EncodeToString(s.GetSpanId())
		names[own], ids[t.what] = t.what, append(ids[t.what], own)
		if t.parent = hex.EncodeToString(s.GetParentSpanId()); names[t.parent] != "" {
			t.parent = names[t.parent]
		}
		all = append(all, t)
	}
	return all, ids
}

const clientSpan = "00f067aa0ba902b7"

// tracedID is the id of a trace, and its parent's field as a client sends it.
func tracedID(n int, sampled string) (id, field string) {
	id = fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04d", n)
	return id, "00-" + id + "-" + clientSpan + "-" + sampled
}

// parentsAt are the parents that an engine was told of, in the order of its requests.
func parentsAt(t *testing.T, e *simtest.Engine, path string) (all []string) {
	t.Helper()
	records, err := e.Records(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		all = append(all, strings.Join(r.Header.Values("Traceparent"), ","))
	}
	return all
}

// TestGatewayTraces has a collector see one span of each request, and one of each call
// of a worker, wherever selection runs.
func TestGatewayTraces(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"29_spans_of_attempts":    attemptsTraced,
		"29_spans_of_legs_sglang": func(t *testing.T, topology ...string) { legsTraced(t, simhttp.SGLang, topology...) },
		"29_spans_of_legs_vllm":   func(t *testing.T, topology ...string) { legsTraced(t, simhttp.VLLM, topology...) },
	})
}

// attemptsTraced: a request that is tried again is one span, with one for each try.
func attemptsTraced(t *testing.T, topology ...string) {
	rec := startReceiver(t)
	e := simtest.Start(t, simtest.Config())
	rules := []simctl.Rule{{Match: simctl.Match{Path: chatPath, First: 1}, Status: http.StatusInternalServerError}}
	if err := e.SetFaults(t.Context(), simctl.Faults{Record: true, Rules: rules}); err != nil {
		t.Fatal(err)
	}
	g := launched(t, []string{e.URL}, append(topology, "--enable-trace", "--otlp-traces-endpoint", rec.addr, "--shutdown-grace-period-secs", "0")...)
	ask := func(body, field string, want int) {
		t.Helper()
		if a := do(t, http.MethodPost, g.url+chatPath, body, "Traceparent", field); a.status != want {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
	}
	tried, field := tracedID(1, "01")
	ask(chat, field, http.StatusOK)
	unsampled, field := tracedID(2, "00")
	ask(chat, field, http.StatusOK)
	refused, field := tracedID(3, "01")
	ask(`{"model":"nobody","messages":[{"role":"user","content":"a"}]}`, field, http.StatusNotFound)
	do(t, http.MethodGet, g.url+"/health", "", "Traceparent", field) // probes are no requests
	g.signal(syscall.SIGTERM)
	g.ends(0) // all is sent by then

	first, second := "leg regular 1 "+e.URL, "leg regular 2 "+e.URL
	got, ids := rec.trace(tried)
	if diff := cmp.Diff([]traced{
		{what: "request", status: "200", parent: clientSpan},
		{what: first, status: "500", failed: true, parent: "request"},
		{what: second, status: "200", parent: "request"},
	}, got, cmp.AllowUnexported(traced{})); diff != "" {
		t.Errorf("a request that was tried twice (-want +got):\n%s", diff)
	}
	told := parentsAt(t, e, chatPath)
	want := []string{"00-" + tried + "-" + strings.Join(ids[first], "") + "-01", "00-" + tried + "-" + strings.Join(ids[second], "") + "-01"}
	if len(told) != 3 || !slices.Equal(told[:2], want) || !strings.HasPrefix(told[2], "00-"+unsampled+"-") || !strings.HasSuffix(told[2], "-00") || strings.Contains(told[2], clientSpan) {
		t.Errorf("the engine was told of the parents %q, want %q and one of the trace that is not sampled", told, want)
	}
	if got, _ := rec.trace(unsampled); len(got) > 0 {
		t.Errorf("a trace that is not sampled was sent: %v", got)
	}
	got, _ = rec.trace(refused)
	if diff := cmp.Diff([]traced{{what: "request", status: "404", parent: clientSpan}}, got, cmp.AllowUnexported(traced{})); diff != "" {
		t.Errorf("a request that was refused (-want +got):\n%s", diff)
	}
	if !slices.Equal(rec.services, []string{"smg"}) {
		t.Errorf("sent by %q", rec.services)
	}
}

// legsTraced: prefill and decode have a span each, under the request's.
func legsTraced(t *testing.T, kind simhttp.Kind, topology ...string) {
	rec := startReceiver(t)
	cfg := simtest.Config()
	cfg.Kind = kind
	pd := simtest.StartPD(t, 1, 1, cfg)
	g := inFront(t, append(topology, "--pd-disaggregation", "--enable-trace", "--otlp-traces-endpoint", rec.addr)...)
	prefill, decode := pd.Prefill[0], pd.Decode[0]
	extra := ""
	if kind == simhttp.SGLang {
		extra = fmt.Sprintf(`,"bootstrap_port":%d`, prefill.PeerPort)
	}
	g.add(prefill.URL, `,"worker_type":"prefill"`+extra)
	g.add(decode.URL, `,"worker_type":"decode"`)
	await(t, "both legs", func() bool { return status(t, g.url+"/readiness") == http.StatusOK })
	for _, e := range pd.All() {
		if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
			t.Fatal(err)
		}
	}
	id, field := tracedID(1, "01")
	for _, body := range []string{chat, strings.Replace(chat, "{", `{"stream":true,`, 1)} {
		if a := do(t, http.MethodPost, g.url+chatPath, body, "Traceparent", field); a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
	}
	g.signal(syscall.SIGTERM)
	g.ends(0)

	got, ids := rec.trace(id)
	request := traced{what: "request", status: "200", parent: clientSpan}
	legs := []traced{
		{what: "leg prefill 1 " + prefill.URL, status: "200", parent: "request"},
		{what: "leg decode 1 " + decode.URL, status: "200", parent: "request"},
	}
	if len(got) != 6 {
		t.Fatalf("two requests of two legs are %d spans: %+v", len(got), got)
	}
	for _, two := range [][]traced{got[:3], got[3:]} {
		slices.SortFunc(two[1:], func(a, b traced) int { return strings.Compare(b.what, a.what) }) // they begin at once
		if diff := cmp.Diff(append([]traced{request}, legs...), two, cmp.AllowUnexported(traced{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for what, e := range map[string]*simtest.Engine{legs[0].what: prefill, legs[1].what: decode} {
		var want []string
		for _, span := range ids[what] {
			want = append(want, "00-"+id+"-"+span+"-01")
		}
		if told := parentsAt(t, e, chatPath); !slices.Equal(told, want) {
			t.Errorf("%s was told of the parents %q, want %q", what, told, want)
		}
	}
}
