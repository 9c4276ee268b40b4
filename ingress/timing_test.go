package ingress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/sim/simhttp"
	"smg/wire"
	"smg/worker"
)

var timingForm = regexp.MustCompile(`^(select);dur=(\d+(?:\.\d{1,3})?)(?:, (encode);dur=(\d+(?:\.\d{1,3})?))?(?:, (prefill);dur=(\d+(?:\.\d{1,3})?))?, (decode);dur=(\d+(?:\.\d{1,3})?)$`)

// steps are what the steps of a request took, in milliseconds.
type steps map[string]float64

func parseSteps(tb testing.TB, value string) steps {
	tb.Helper()
	m := timingForm.FindStringSubmatch(value)
	if m == nil {
		tb.Fatalf("Server-Timing is %q", value)
	}
	all := steps{}
	for i := 1; i < len(m); i += 2 {
		if m[i] == "" {
			continue
		}
		ms, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil {
			tb.Fatal(err)
		}
		all[m[i]] = ms
	}
	return all
}

// stepsOf is what an answer says.
func stepsOf(tb testing.TB, h http.Header) steps {
	tb.Helper()
	values := h.Values(timingHeader)
	if len(values) != 1 {
		tb.Fatalf("Server-Timing is %q, want one", values)
	}
	return parseSteps(tb, values[0])
}

func (s steps) names() string {
	var names []string
	for name := range s {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestTimingHeader(t *testing.T) {
	tests := []struct {
		name string
		run  func(x *timing)
		want string
	}{
		{"one worker", func(x *timing) { x.selected = x.next(34 * time.Microsecond) }, "select;dur=0.034, decode;dur=999.966"},
		{"prefill and decode", func(x *timing) {
			x.selected = x.next(2500 * time.Microsecond)
			x.prefillTook(x.next(502500*time.Microsecond + 999))
		}, "select;dur=2.5, prefill;dur=500, decode;dur=497.499"},
		{"all legs", func(x *timing) {
			x.selected = x.next(1 * time.Millisecond)
			x.encoded = x.next(11 * time.Millisecond)
			x.prefillTook(x.next(12 * time.Millisecond))
		}, "select;dur=1, encode;dur=10, prefill;dur=1, decode;dur=988"},
		{"nothing took any time", func(x *timing) {
			x.encoded = 0
			x.prefillTook(0)
			x.step = time.Second
		}, "select;dur=0, encode;dur=0, prefill;dur=0, decode;dur=0"},
		{"a clock that steps back", func(x *timing) { x.step = time.Hour }, "select;dur=0, decode;dur=0"},
		{"another attempt", func(x *timing) {
			x.encoded = 5
			x.prefillTook(5)
			x.begin(0)
		}, "select;dur=0, decode;dur=1000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var x timing
			x.begin(0)
			tt.run(&x)
			if got := x.header(time.Second); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Whatever the steps take, they are decimal milliseconds of the microseconds.
func TestTimingNumbers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		us := rnd.Int64N(1 << rnd.IntN(45))
		var x timing
		x.selected, x.encoded = time.Duration(us)*time.Microsecond, -1
		got := parseSteps(t, x.header(0))["select"]
		if want, err := strconv.ParseFloat(fmt.Sprintf("%d.%03d", us/1000, us%1000), 64); err != nil || got != want {
			t.Fatalf("%d µs are %v, want %v (%v)", us, got, want, err)
		}
	}
}

func TestServerTiming(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"Where is cheese made?"}],"max_tokens":5%s}`
	const media = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + image + `"}}]}],"max_tokens":5%s}`
	fleets := []struct {
		name  string
		fleet *disaggregated
		body  string
		want  string // names of the steps
		maybe string // another set, if prefill ends after decode's answer begins
	}{
		{"sglang", startPD(t, simhttp.SGLang), body, "decode prefill select", "decode select"},
		{"vllm", startPD(t, simhttp.VLLM), body, "decode prefill select", ""},
		{"vllm, several choices", startPD(t, simhttp.VLLM), strings.Replace(body, "{", `{"n":2,`, 1), "decode select", ""},
		{"vllm with encoders", startEPD(t), media, "decode encode prefill select", ""},
		{"vllm with idle encoders", startEPD(t), body, "decode prefill select", ""},
	}
	for _, f := range fleets {
		for _, stream := range []string{"", `,"stream":true`} {
			t.Run(f.name+stream, func(t *testing.T) {
				began := time.Now()
				status, header, answer := f.fleet.asks(t, chatPath, fmt.Sprintf(f.body, stream))
				took := float64(time.Since(began).Microseconds()) / 1000
				if status != http.StatusOK {
					t.Fatalf("status %d: %s", status, answer)
				}
				s := stepsOf(t, header)
				if got := s.names(); got != f.want && (f.maybe == "" || got != f.maybe) {
					t.Errorf("steps %q, want %q", got, f.want)
				}
				sum := s["select"] + s["encode"] + s["prefill"] + s["decode"]
				if f.name == "sglang" { // both at once
					sum = s["select"] + max(s["prefill"], s["decode"])
				}
				if sum > took {
					t.Errorf("%v ms of steps in %v ms: %v", sum, took, s)
				}
			})
		}
	}
	// Of legs that work at once, prefill is told when it is known.
	within(t, patience, "an answer that tells of prefill", func() bool {
		_, header, _ := fleets[0].fleet.asks(t, chatPath, fmt.Sprintf(body, ""))
		return stepsOf(t, header).names() == fleets[0].want
	})
}

// leap is a clock that leaps where a test says so.
type leap struct{ ahead atomic.Int64 }

func (l *leap) now() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) }
func (l *leap) hours(n int)    { l.ahead.Add(int64(time.Duration(n) * time.Hour)) }

// slowSelector takes hours for each selection.
type slowSelector struct {
	Selector
	clock *leap
	hours int
}

func (s *slowSelector) Select(ctx context.Context, ask *wire.Select) (wire.Pick, error) {
	s.clock.hours(s.hours)
	return s.Selector.Select(ctx, ask)
}

// Every step has the time that it took and no other's.
func TestServerTimingOfSteps(t *testing.T) {
	var clock leap
	const media = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + image + `"}}]}]}`
	g := start(t, nil, withConfig(func(c *Config) {
		c.Mode, c.RequestTimeout, c.BodyStall, c.WriteStall = EPD, 1000*time.Hour, 1000*time.Hour, 1000*time.Hour
	}), withDeps(func(d *Deps) { d.Now, d.Selector = clock.now, &slowSelector{d.Selector, &clock, 1} }))
	for leg, hours := range map[worker.Leg]int{worker.Encode: 10, worker.Prefill: 100, worker.Decode: 200} {
		url := engineAt(t, func(nc net.Conn, br *bufio.Reader) {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			clock.hours(hours)
			_, _ = io.WriteString(nc, jsonOK) // if the gateway has left, the test says so
		})
		g.selector.workers = append(g.selector.workers, &worker.Spec{ID: worker.IDOf(url), URL: url, Leg: leg, Runtime: worker.VLLM, Models: []worker.Model{{ID: "m"}}})
	}
	r := g.do(chat(media))
	if r.status != http.StatusOK {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	got := stepsOf(t, r.header)
	for name, ms := range got {
		got[name] = math.Floor(ms / 3.6e6)
	}
	if diff := cmp.Diff(steps{"select": 3, "encode": 10, "prefill": 100, "decode": 200}, got); diff != "" {
		t.Errorf("hours (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{
		"smg_pd_ttft_seconds": 310, "smg_pd_prefill_duration_seconds": 100, "smg_pd_kv_transfer_duration_seconds": 200,
	}, hoursOf(t, g)); diff != "" {
		t.Errorf("hours of the legs (-want +got):\n%s", diff)
	}
}

// hoursOf are the durations of legs of the one request that a gateway has answered.
func hoursOf(t *testing.T, g *gateway) map[string]float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			if !strings.HasPrefix(f.GetName(), "smg_pd_") || h == nil {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if got := strings.Join(labels, " "); got != "pd m vllm" || h.GetSampleCount() != 1 {
				t.Errorf("%s has %d samples of %s", f.GetName(), h.GetSampleCount(), got)
			}
			all[f.GetName()] = math.Floor(h.GetSampleSum() / 3600)
		}
	}
	return all
}

// Of several attempts the one that is answered counts, and what an engine says of its
// own steps stays.
func TestServerTimingOfAttempts(t *testing.T) {
	_, bad := answers(t, "HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno")
	_, good := answers(t, "HTTP/1.1 200 OK\r\nserver-timing: cache;dur=1\r\ncontent-length: 2\r\n\r\n{}")
	g := start(t, []string{bad, good}, withConfig(func(c *Config) { c.Retry.Attempts = 2 }))
	r := g.do(chat(chatBody))
	values := r.header.Values(timingHeader)
	if r.status != http.StatusOK || len(values) != 2 {
		t.Fatalf("status %d, Server-Timing %q; want 200 and two", r.status, values)
	}
	if values[0] != "cache;dur=1" {
		t.Errorf("the engine's became %q", values[0])
	}
	if diff := cmp.Diff("decode select", parseSteps(t, values[1]).names()); diff != "" {
		t.Error(diff)
	}
	refused := start(t, nil).do(chat(chatBody))
	if v := refused.header.Values(timingHeader); v != nil {
		t.Errorf("the gateway's own error has %q", v)
	}
}
