package bootstrap

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// TestRemarks has workers registered that look wrong together.
func TestRemarks(t *testing.T) {
	spec := func(leg worker.Leg, host string, port uint16, labels ...string) func(*worker.Spec) {
		return func(s *worker.Spec) {
			s.Leg, s.BootstrapHost, s.BootstrapPort, s.Runtime, s.BootstrapSource = leg, host, port, worker.SGLang, "spec"
			s.Labels = map[string]string{}
			for i := 0; i < len(labels); i += 2 {
				s.Labels[labels[i]] = labels[i+1]
			}
		}
	}
	type add struct {
		url    string
		change func(*worker.Spec)
	}
	tests := []struct {
		name    string
		workers []add
		want    []string
	}{
		{"alike", []add{{"http://a:1", spec(worker.Prefill, "a", 9001, "tp_size", "2", "dp_size", "1")}, {"http://b:1", spec(worker.Decode, "b", 0, "tp_size", "2")}}, nil},
		{"all on loopback", []add{{"http://127.0.0.1:1", spec(worker.Prefill, "127.0.0.1", 9001)}, {"http://localhost:2", spec(worker.Decode, "localhost", 0)}}, nil},
		{"decode elsewhere", []add{{"http://b:1", spec(worker.Decode, "b", 0)}, {"http://[::1]:1", spec(worker.Prefill, "[::1]", 9001)}}, []string{"decode worker http://b:1 may not reach"}},
		{"decode elsewhere comes later", []add{{"http://localhost:1", spec(worker.Prefill, "localhost", 9001)}, {"http://b:1", spec(worker.Decode, "b", 0)}}, []string{"decode worker http://b:1 may not reach"}},
		{"a bootstrap host helps", []add{{"http://localhost:1", spec(worker.Prefill, "a", 9001)}, {"http://b:1", spec(worker.Decode, "b", 0)}}, nil},
		{"another tensor parallel size", []add{{"http://a:1", spec(worker.Prefill, "a", 9001, "tp_size", "2")}, {"http://b:1", spec(worker.Decode, "b", 0, "tp_size", "4")}}, []string{"tp_size is 2, and 4 at decode worker http://b:1"}},
		{"only the first of each leg", []add{
			{"http://a:1", spec(worker.Prefill, "a", 9001, "dp_size", "1")},
			{"http://b:1", spec(worker.Decode, "b", 0, "dp_size", "1")},
			{"http://c:1", spec(worker.Decode, "c", 0, "dp_size", "4")},
		}, nil},
		{"another method", []add{{"http://a:1", spec(worker.Prefill, "a", 9001, "load_balance_method", "x")}, {"http://b:1", spec(worker.Decode, "b", 0, "load_balance_method", "y")}}, []string{"load_balance_method is x, and y"}},
		{"ranks that decode cannot know", []add{{"http://a:1", spec(worker.Prefill, "a", 9001, "dp_size", "2", "load_balance_method", "round_robin")}}, []string{"2 data-parallel ranks"}},
		{"ranks by the room", []add{{"http://a:1", spec(worker.Prefill, "a", 9001, "dp_size", "2", "load_balance_method", followsRoom)}}, nil},
		{"a runtime that is not known", []add{
			{"http://a:1", func(s *worker.Spec) { spec(worker.Prefill, "a", 9001)(s); s.Runtime = worker.Generic }},
			{"http://b:1", func(s *worker.Spec) { spec(worker.Decode, "b", 0)(s); s.Runtime = "tokenspeed" }},
			{"http://c:1", func(s *worker.Spec) { spec(worker.Decode, "c", 0)(s); s.Runtime = worker.VLLM }},
		}, []string{"its runtime is generic", "its runtime is tokenspeed, of which it is not known how it shares requests: it is spoken to as sglang is"}},
		{"another port than the engine's", []add{{"http://a:1", spec(worker.Prefill, "a", 9001, modeLabel, "prefill", portLabel, "9002")}}, []string{"is 9001, its engine says 9002"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{lag: time.Millisecond}
				r, stop := running(t, &prober{}, m, nil)
				var log bytes.Buffer
				r.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				for _, w := range tt.workers {
					if err := r.Add(asked(t, w.url, w.change)); err != nil {
						t.Fatal(err)
					}
					pass(time.Second)
				}
				r.changed() // it is told once
				pass(time.Minute)
				stop()
				lines := strings.Count(log.String(), "\n")
				if lines != len(tt.want) {
					t.Errorf("%d warnings, want %d:\n%s", lines, len(tt.want), log.String())
				}
				for _, w := range tt.want {
					if !strings.Contains(log.String(), w) {
						t.Errorf("no warning of %q:\n%s", w, log.String())
					}
				}
			})
		})
	}
}

// TestRemarksOfAFleet are those that are shown of a worker, whoever has registered it.
func TestRemarksOfAFleet(t *testing.T) {
	near := &worker.Spec{
		ID: worker.ID{1}, URL: "http://localhost:1", Leg: worker.Prefill, Runtime: worker.SGLang, BootstrapHost: "localhost", BootstrapPort: 9001, BootstrapSource: "cli",
		Labels: map[string]string{modeLabel: "prefill", portLabel: "9002"},
	}
	far := &worker.Spec{ID: worker.ID{2}, URL: "http://d:1", Leg: worker.Decode, Runtime: worker.Generic}
	regular := &worker.Spec{ID: worker.ID{3}, URL: "http://r:1", Runtime: worker.Generic}
	silent := &worker.Spec{ID: worker.ID{4}, URL: "http://p:1", Leg: worker.Prefill, Runtime: worker.VLLM, KVConnector: mooncake, BootstrapHost: "p"}
	named := &worker.Spec{ID: worker.ID{5}, URL: "http://q:1", Leg: worker.Prefill, Runtime: worker.VLLM, KVConnector: worker.MooncakeFound, BootstrapHost: "q", KVEngineID: "e"}
	want := map[worker.ID][]string{
		silent.ID: {"nobody can fetch its KV, since it is not known by which engine id: decode computes its prompts again"},
		near.ID:   {"decode worker http://d:1 may not reach this prefill worker at localhost", "the bootstrap port given for the worker is 9001, its engine says 9002"},
		far.ID:    {"its runtime is generic, of which it is not known how it shares requests: it is spoken to as sglang is"},
	}
	if diff := cmp.Diff(want, Remarks([]*worker.Spec{far, near, regular, silent, named})); diff != "" {
		t.Error(diff)
	}
}
