package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"smg/bench/study/mooncake"
	"smg/policy"
)

// worked is the work of a synthetic trace.
func worked(t *testing.T, o *options) *work {
	t.Helper()
	path := synthetic(t)
	trace, err := mooncake.Load(path, o.first)
	if err != nil {
		t.Fatal(err)
	}
	return &work{Workload: mooncake.Workload(path, trace, o.rate, o.spread), lines: trace, bodies: bodies(trace, o.prompts)}
}

// TestMeasure: what the engines say of their caches, and who was chosen, is counted,
// for both forms of prompts.
func TestMeasure(t *testing.T) {
	for _, form := range []string{text, tokens} {
		t.Run(form, func(t *testing.T) {
			o := parsed(t, "-engines", "3", "-ingresses", "2", "-selectors", "1", "-time-scale", "0.02", "-prompts", form)
			w := worked(t, o)
			m, err := measure(t.Context(), o, w, many, policy.CacheAware, 1)
			if err != nil {
				t.Fatal(err)
			}
			if m.Failed != 0 || len(m.ttft) != len(w.Requests) {
				t.Errorf("%d failed (%v), %d timed, want all of %d well", m.Failed, m.firstFault, len(m.ttft), len(w.Requests))
			}
			if m.Hits <= 0 || m.OfIdeal > 1 {
				t.Errorf("hits %.3f, %.3f of the ideal: conversations share more than nothing, and no more than there is", m.Hits, m.OfIdeal)
			}
			if m.P50 <= 0 || m.P50 > m.P99 || m.ttft[0] >= m.P50 {
				t.Errorf("p50 %v and p99 %v of the engines, the least %v here", m.P50, m.P99, m.ttft[0])
			}
			for kind, used := range m.cpu {
				if used <= 0 {
					t.Errorf("%s used %v of a CPU", part(kind), used)
				}
			}
		})
	}
}

// TestCount: times are reduced in the engines' time and in real time, without those
// of requests that failed.
func TestCount(t *testing.T) {
	o := parsed(t, "-first", "3", "-time-scale", "0.5")
	w := worked(t, o)
	var m measurement
	m.count(o, w, []string{"a", "b"}, []exchange{
		{late: 2, ttft: 40, latency: 50, worker: "a", degraded: true},
		{late: 1, ttft: 30, latency: 60, cached: 2 * mooncake.BlockSize, worker: "b"},
		{late: 9, ttft: 90, worker: "a", err: errBroken},
	})
	got := []any{m.late, m.ttft, m.P50, m.P99, m.Failed, m.degraded, m.firstFault}
	want := []any{[]time.Duration{1, 2}, []time.Duration{30, 40}, time.Duration(60), time.Duration(80), 1, 1, errBroken}
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("late, TTFT, p50, p99, failed, degraded, fault (-want +got):\n%s", diff)
	}
	if want := 2 / float64(w.Blocks()); m.Hits != want {
		t.Errorf("hits %v, want %v", m.Hits, want)
	}
}

// TestStandThatFails: a site of which a part does not start leaves nothing behind.
func TestStandThatFails(t *testing.T) {
	o := parsed(t, "-engines", "1")
	bin, pid := t.TempDir(), filepath.Join(t.TempDir(), "pid")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >%s\nexec %s \"$@\"\n", pid, o.program(simProgram))
	for name, text := range map[string]string{simProgram: script, gatewayProgram: "#!/bin/sh\necho not today\nexit 1\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o.bin = bin
	if _, err := newStand(t.Context(), o, one, policy.RoundRobin); err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("error %v, want what the program said", err)
	}
	said, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	engines, err := strconv.Atoi(strings.TrimSpace(string(said)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(engines, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the engines run still: %v", err)
	}
}
