package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"smg/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string // in the error; "" for none
	}{
		{name: "defaults"},
		{name: "no_program", args: []string{"-smg", "/nowhere/smg"}, want: "make build"},
		{name: "no_fewer", args: []string{"-workers", "256"}, want: "-few 256"},
		{name: "too_many", args: []string{"-workers", "60001"}, want: "60000"},
		{name: "no_look", args: []string{"-idle", "0s"}, want: "-idle"},
		{name: "no_rate", args: []string{"-rate", "0"}, want: "-rate"},
		{name: "not_a_flag", args: []string{"fast"}, want: `"fast"`},
		{name: "unknown_flag", args: []string{"-fast"}, want: "fast"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(append([]string{"-smg", program, "-sim", program}, tt.args...), io.Discard)
			if (err == nil) != (tt.want == "") {
				t.Fatalf("parse: %v, want %q", err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error %q lacks %q", err, tt.want)
			}
		})
	}
}

func TestURLs(t *testing.T) {
	seen := map[string]bool{}
	for _, u := range urls(mostWorkers, 31000) {
		addr, err := netip.ParseAddrPort(strings.TrimPrefix(u, "http://"))
		if err != nil || !addr.Addr().IsLoopback() || seen[u] {
			t.Fatalf("%s: %v, loopback %t, seen before %t", u, err, addr.Addr().IsLoopback(), seen[u])
		}
		seen[u] = true
	}
}

func TestRequests(t *testing.T) {
	different := func(lists ...[][]byte) int {
		seen := map[string]bool{}
		for _, list := range lists {
			for _, r := range list {
				seen[string(r)] = true
			}
		}
		return len(seen)
	}
	hits, misses := kind{prompts: 64}, kind{}
	if n := different(hits.requests("h", 1000, 1), hits.requests("h", 1000, 2)); n != 64 {
		t.Errorf("%d different requests that are to hit, want 64", n)
	}
	if n := different(misses.requests("h", 1000, 1), misses.requests("h", 1000, 2)); n != 2000 {
		t.Errorf("%d different requests that are to miss, want 2000", n)
	}
}

func TestJudge(t *testing.T) {
	fleet := func(workers int, cpu, idle, ready time.Duration, resident int64) *outcome {
		o := &outcome{topology: topologies[0], workers: workers, costs: map[string][]sample{}}
		o.rest = rest{ready: ready, span: time.Second, usages: []usage{{idle: idle / 2, resident: resident}, {idle: idle / 2}}}
		o.quiet = o.rest
		for _, p := range policies {
			for _, k := range p.kinds {
				o.costs[k.name] = []sample{{Result: load.Result{Answered: 10}, cpu: 10 * cpu}}
			}
		}
		return o
	}
	few := fleet(256, 100*time.Microsecond, 0, time.Second, 50<<20)
	for _, tt := range []struct {
		name string
		many *outcome
		want string // verdicts of G11 and G12
	}{
		{"all_met", fleet(10256, 130*time.Microsecond, 50*time.Millisecond, 10*time.Second, 50<<20+20<<10*10000), "met met met met met met met"},
		{"all_missed", fleet(10256, 131*time.Microsecond, 51*time.Millisecond, 11*time.Second, 50<<20+21<<10*10000), "missed missed missed missed missed missed missed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			judge(&out, &options{rate: 100}, few, tt.many)
			var got []string
			for line := range strings.Lines(out.String()) {
				if i := strings.LastIndex(line, ": "); i >= 0 {
					got = append(got, strings.TrimSpace(line[i+2:]))
				}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("verdicts %q, want %q:\n%s", text, tt.want, out.String())
			}
		})
	}
}

// TestRun measures two small fleets with the real programs.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "./cmd/smg", "./cmd/smg-sim", "./bench/fleet")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	o := &options{
		smg: filepath.Join(dir, "smg"), sim: filepath.Join(dir, "smg-sim"), nats: filepath.Join(dir, "fleet"),
		workers: 20, few: 4, idle: 200 * time.Millisecond, rate: 100, length: 200 * time.Millisecond, warm: 50 * time.Millisecond, rounds: 1, seed: 1,
	}
	var out bytes.Buffer
	if err := compare(ctx, o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, topology := range topologies {
		for _, want := range []string{
			fmt.Sprintf("%s, 4 workers: all ready after", topology.name),
			fmt.Sprintf("%s, 20 workers: all ready after", topology.name),
			fmt.Sprintf("G11 %s, cache_aware, misses:", topology.name),
			fmt.Sprintf("G12 %s, memory:", topology.name),
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the report lacks %q:\n%s", want, out.String())
			}
		}
	}
	for _, want := range []string{"selector 3", "ingress", "NATS", " 0 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}
