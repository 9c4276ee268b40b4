package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"smg/bench/study/mooncake"
	"smg/policy"
)

// programs is the folder of the programs under test.
var programs string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

// runTests builds the programs first, so that no stale one is measured.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "smg-site-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", dir,
		"./cmd/"+gatewayProgram, "./cmd/"+ingressProgram, "./cmd/"+selectorProgram, "./cmd/"+simProgram)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join("..", ".."), os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the programs:", err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// parsed are the options of a command line for the programs under test.
func parsed(t *testing.T, args ...string) *options {
	t.Helper()
	o, err := parse(append([]string{"-bin", programs}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string // in the error; "" for none
	}{
		{name: "defaults"},
		{name: "tokens", args: []string{"-prompts", "tokens"}},
		{name: "no_programs", args: []string{"-bin", "/nowhere"}, want: "make build"},
		{name: "no_engines", args: []string{"-engines", "0"}, want: "-engines is 0"},
		{name: "too_many_engines", args: []string{"-engines", "201"}, want: "-engines is 201"},
		{name: "no_ingresses", args: []string{"-ingresses", "0"}, want: "-ingresses is 0"},
		{name: "no_selectors", args: []string{"-selectors", "0"}, want: "-selectors is 0"},
		{name: "no_rounds", args: []string{"-rounds", "0"}, want: "-rounds is 0"},
		{name: "less_than_none", args: []string{"-first", "-1"}, want: "-first is -1"},
		{name: "no_rate", args: []string{"-rate", "0"}, want: "-rate is 0"},
		{name: "no_time", args: []string{"-time-scale", "0"}, want: "-time-scale is 0"},
		{name: "prompts_of_nothing", args: []string{"-prompts", "bytes"}, want: `"bytes"`},
		{name: "no_such_policy", args: []string{"-policies", "round_robin,best"}, want: `"best"`},
		{name: "several_faults", args: []string{"-rate", "-1", "-rounds", "0"}, want: "-rate is -1"},
		{name: "not_a_flag", args: []string{"fast"}, want: `"fast"`},
		{name: "unknown_flag", args: []string{"-fast"}, want: "fast"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(append([]string{"-bin", programs}, tt.args...), io.Discard)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// synthetic writes a trace of conversations: eight of four turns each, which share a
// system prompt.
func synthetic(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i := range 32 {
		conversation, turn := i%8, i/8
		ids := []string{"0"}
		for block := range 2 * (turn + 1) {
			ids = append(ids, fmt.Sprint(1000*(conversation+1)+block))
		}
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": [%s]}`+"\n",
			i/8*9000, len(ids)*mooncake.BlockSize-conversation, 3+i%7, strings.Join(ids, ", "))
	}
	path := filepath.Join(t.TempDir(), "synthetic.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRun: a small comparison of all sites ends without an error, so every answer
// had the lengths that were asked for, and says what became of the goal.
func TestRun(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []string{
		"-bin", programs, "-trace", synthetic(t), "-engines", "3", "-ingresses", "2", "-selectors", "2", "-private",
		"-time-scale", "0.02", "-policies", policy.RoundRobin,
	}, &out, io.Discard)
	if err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	for text, times := range map[string]int{
		"one process": 6, "2 x 2": 5, "2, private": 5, // the tables, the commands, and the goal
		"  2 x " + ingressProgram + " ": 1, "  2 x " + selectorProgram + " ": 1, "  2 x " + gatewayProgram + " launch": 1,
		"Q6, " + policy.RoundRobin + ": p99 ": 1,
	} {
		if got := strings.Count(out.String(), text); got != times {
			t.Errorf("%q is there %d times, want %d, in\n%s", text, got, times, out.String())
		}
	}
}
