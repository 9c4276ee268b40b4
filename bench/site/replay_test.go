package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/bench/study/mooncake"
)

// TestBodies: both forms of a prompt have as many tokens as the trace says, and no
// others than the study has.
func TestBodies(t *testing.T) {
	trace := []mooncake.Line{{Input: 600, Output: 7, Blocks: []uint64{1, 2}}, {Input: 1, Output: 1, Blocks: []uint64{1}}}
	for i, l := range trace {
		var asText struct {
			Prompt string
			Max    int `json:"max_tokens"`
			Stream bool
		}
		if err := json.Unmarshal(bodies(trace, text)[i], &asText); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSpace(string(l.Text(nil, 1<<20)))
		if asText.Prompt != want || asText.Max != l.Output || !asText.Stream {
			t.Errorf("line %d as text: max_tokens %d, stream %t, prompt (-want +got):\n%s", i, asText.Max, asText.Stream, cmp.Diff(want, asText.Prompt))
		}
		var asTokens struct{ Prompt []uint32 }
		if err := json.Unmarshal(bodies(trace, tokens)[i], &asTokens); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l.Tokens(nil), asTokens.Prompt); diff != "" {
			t.Errorf("line %d as tokens (-want +got):\n%s", i, diff)
		}
	}
}

// TestShots: requests keep their moments, in real time, and go to all targets, the
// same ones for the same seed.
func TestShots(t *testing.T) {
	o := parsed(t, "-time-scale", "0.5")
	w := worked(t, o)
	targets := []string{"a", "b"}
	to := func(seed uint64) (all string) {
		for i, s := range w.shots(o, targets, seed) {
			if want := w.Requests[i].At / 2; s.at != want {
				t.Errorf("shot %d is sent at %v, want %v", i, s.at, want)
			}
			all += s.url
		}
		return all
	}
	first := to(1)
	if !strings.Contains(first, "a") || !strings.Contains(first, "b") || first != to(1) || first == to(2) {
		t.Errorf("targets are %s, again %s, with another seed %s", first, to(1), to(2))
	}
}

const (
	answered = "data: {\"choices\":[{\"text\":\"a\"}],\"usage\":null}\n\n"
	counted  = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
	ended    = "data: [DONE]\n\n"
)

func TestReplay(t *testing.T) {
	type result struct {
		cached   int
		worker   string
		degraded bool
	}
	whole := answered + answered + counted + ended
	for _, tt := range []struct {
		name   string
		status int
		header string // X-Smg-Degraded
		body   string
		want   result
		err    error
	}{
		{name: "whole", body: whole, want: result{cached: 4, worker: "w"}},
		{name: "degraded", header: "timeout", body: whole, want: result{cached: 4, worker: "w", degraded: true}},
		{name: "refused", status: http.StatusServiceUnavailable, body: "{}", want: result{worker: "w"}, err: errStatus},
		{name: "cut", body: answered, want: result{worker: "w"}, err: errBroken},
		{name: "empty", want: result{worker: "w"}, err: errBroken},
		{name: "error", body: answered + "data: {\"error\":{}}\n\n", want: result{worker: "w"}, err: errEvent},
		{name: "not_counted", body: answered + answered + ended, want: result{worker: "w"}, err: errLength},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if b, err := io.ReadAll(r.Body); err != nil || string(b) != "body" {
					t.Errorf("the server got %q, %v", b, err)
				}
				w.Header().Set("X-Smg-Routed-Worker-Id", "w")
				if tt.header != "" {
					w.Header().Set("X-Smg-Degraded", tt.header)
				}
				if tt.status != 0 {
					w.WriteHeader(tt.status)
				}
				_, _ = io.WriteString(w, tt.body)
			}))
			defer srv.Close()
			done, err := replay(t.Context(), srv.Client(), []shot{{url: srv.URL, body: []byte("body"), prompt: 9, output: 2}})
			if err != nil {
				t.Fatal(err)
			}
			x := done[0]
			if !errors.Is(x.err, tt.err) {
				t.Errorf("error %v, want %v", x.err, tt.err)
			}
			if diff := cmp.Diff(tt.want, result{x.cached, x.worker, x.degraded}, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if x.err == nil && (x.ttft <= 0 || x.latency < x.ttft) {
				t.Errorf("first event after %v, last after %v", x.ttft, x.latency)
			}
		})
	}
}

// TestReplayWaitsForNobody: a shot is sent at its moment while an earlier one has no
// answer, and the time of that one counts from its own moment.
func TestReplayWaitsForNobody(t *testing.T) {
	second := make(chan struct{})
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if n.Add(1) == 1 {
			<-second
		} else {
			close(second)
		}
		_, _ = io.WriteString(w, answered+counted+ended)
	}))
	defer srv.Close()
	const gap = 20 * time.Millisecond
	s := shot{url: srv.URL, prompt: 9, output: 2}
	later := s
	later.at = gap
	done, err := replay(t.Context(), srv.Client(), []shot{s, later})
	if err != nil || done[0].err != nil || done[1].err != nil {
		t.Fatalf("errors %v, %+v", err, done)
	}
	if done[0].ttft < gap {
		t.Errorf("the first shot had its answer after %v, before the second was sent at %v", done[0].ttft, gap)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	later.at = time.Hour
	if _, err := replay(cancelled, srv.Client(), []shot{later}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
