package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/bench/study/mooncake"
	"smg/policy"
	"smg/record"
	"smg/study"
	"smg/study/recorded"
	"smg/wire"
	"smg/worker"
)

// TestARecordedTraceIsTheTrace: a trace that a selector has recorded, by digests
// alone, does to engines and policies what the trace does. Only what policies hash
// differs.
func TestARecordedTraceIsTheTrace(t *testing.T) {
	o, err := parse([]string{"-trace", synthetic(t), "-workers", "4", "-rate", "3"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := o.read()
	if err != nil {
		t.Fatal(err)
	}
	const output = 9
	work := mooncake.Workload(o.trace, trace, o.rate, o.spread)
	for i := range work.Requests {
		work.Requests[i].Output = output
	}
	want := map[string][]study.Outcome{}
	for _, l := range []line{{policy: policy.RoundRobin}, {policy: policy.CacheAware, told: text}, {policy: policy.CacheAware, as: "tokens", told: tokens}} {
		c := l.contender(&prompts{lines: trace, common: 1})
		r, err := study.Run(t.Context(), o.site, work, c)
		if err != nil {
			t.Fatal(err)
		}
		want[l.name()] = r.Outcomes
	}
	for _, tt := range []struct {
		line string
		told told
		cfg  string
	}{
		{"round_robin", text, policy.RoundRobin},
		{"round_robin", tokens, policy.RoundRobin},
		{"cache_aware", text, policy.CacheAware},
		{"cache_aware, tokens", tokens, policy.CacheAware},
	} {
		t.Run(tt.line, func(t *testing.T) {
			traffic, err := recording(t, trace, work, tt.told).Traffic(recorded.Options{Rate: 1, Output: output, Engine: o.site.Engine})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := traffic.IdealHits(), work.IdealHits(); got != want || traffic.Blocks() != work.Blocks() {
				t.Errorf("%d of %d blocks repeat, want %d of %d", got, traffic.Blocks(), want, work.Blocks())
			}
			cfg := study.FlagDefaults()
			cfg.Policy = tt.cfg
			c, err := traffic.Contender(cfg)
			if err != nil {
				t.Fatal(err)
			}
			r, err := study.Run(t.Context(), o.site, traffic.Workload, c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[tt.line], r.Outcomes); diff != "" {
				t.Errorf("outcomes (-trace +recording):\n%s", diff)
			}
		})
	}
}

// recording is what a selector records while the workload arrives.
func recording(t *testing.T, trace []mooncake.Line, work *study.Workload, as told) *recorded.Recording {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.jsonl.gz")
	// In a bubble the recorder's limit for what is left to write never comes, however
	// slow the machine.
	synctest.Test(t, func(t *testing.T) {
		r, err := record.Create(path, record.Config{}, slog.New(slog.DiscardHandler), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { r.Run(ctx) })
		began, p := time.Now(), &prompts{lines: trace, common: 1}
		for i := range work.Requests {
			var req policy.Request
			p.inputs(i, as, &req)
			r.Selected(&wire.Select{
				Lease: worker.LeaseID{Incarnation: 1, Plan: uint64(i + 1)}, Text: req.Text, Chars: req.Chars, TokenIDs: req.TokenIDs, Tokens: req.Tokens,
			}, "m", &wire.Pick{}, worker.ErrUnavailable, began.Add(work.Requests[i].At))
		}
		cancel()
		wg.Wait()
	})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := recorded.Load(recorded.File{Name: path, Data: f})
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return rec
}
