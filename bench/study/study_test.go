package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"smg/bench/study/mooncake"
	"smg/policy"
	"smg/study"
	"smg/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string // in the error; "" for none
	}{
		{name: "defaults"},
		{name: "no_rate", args: []string{"-rate", "0"}, want: "-rate"},
		{name: "no_rounds", args: []string{"-rounds", "0"}, want: "-rounds"},
		{name: "no_goal", args: []string{"-goal", "0s"}, want: "-goal"},
		{name: "less_than_none", args: []string{"-first", "-1"}, want: "-first"},
		{name: "no_workers", args: []string{"-workers", "0"}, want: "workers"},
		{name: "several_faults", args: []string{"-rate", "-1", "-prefill-tps", "0"}, want: "--prefill-tps"},
		{name: "not_a_flag", args: []string{"fast"}, want: `"fast"`},
		{name: "unknown_flag", args: []string{"-fast"}, want: "fast"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(tt.args, io.Discard)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// synthetic writes a trace of conversations: 40 of five turns each, which share a
// system prompt, twenty requests every three seconds.
func synthetic(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i := range 200 {
		conversation, turn := i%40, i/40
		ids := []string{"0"}
		for block := range 4 * (turn + 1) {
			ids = append(ids, fmt.Sprint(1000*(conversation+1)+block))
		}
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": [%s]}`+"\n",
			i/20*3000, len(ids)*mooncake.BlockSize-conversation, 20+i%7, strings.Join(ids, ", "))
	}
	path := filepath.Join(t.TempDir(), "synthetic.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStudy(t *testing.T) {
	path := synthetic(t)
	args := []string{"-trace", path, "-workers", "4", "-rounds", "2"}
	var first, again strings.Builder
	if err := run(t.Context(), args, &first, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), args, &again, io.Discard); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.String(), again.String()); diff != "" {
		t.Errorf("the same study again differs:\n%s", diff)
	}
	for _, name := range append(policy.Names(), study.Greedy().Name, study.LeastRequests().Name, "synthetic: 200 requests in 5s") {
		if !strings.Contains(first.String(), name) {
			t.Errorf("no %q in\n%s", name, first.String())
		}
	}
}

// TestLines: every policy has a line under a name of its own.
func TestLines(t *testing.T) {
	names, policies := map[string]bool{}, map[string]bool{}
	for _, l := range lines() {
		if names[l.name()] {
			t.Errorf("two lines are called %q", l.name())
		}
		names[l.name()], policies[l.policy] = true, true
	}
	all := contenders([]mooncake.Line{{Input: 1, Output: 1, Blocks: []uint64{1}}})
	for _, name := range policy.Names() {
		if !policies[name] {
			t.Errorf("%s has no line", name)
		}
		if !slices.ContainsFunc(all, func(c study.Contender) bool { return strings.HasPrefix(c.Name, name) }) {
			t.Errorf("%s does not contend", name)
		}
	}
}

// TestInputs: a prompt is told as text or as tokens, whole in length and cut as the
// product cuts it; a conversation has one key.
func TestInputs(t *testing.T) {
	trace := []mooncake.Line{
		{Input: 600, Output: 1, Blocks: []uint64{1, 2}},
		{Input: 700, Output: 1, Blocks: []uint64{1, 2}},
		{Input: 600, Output: 1, Blocks: []uint64{1, 3}},
		{Input: 512 * 200, Output: 1, Blocks: append([]uint64{1}, make([]uint64, 199)...)},
	}
	p := &prompts{lines: trace, common: 1}
	tell := func(i int, t told) (r policy.Request) {
		p.inputs(i, t, &r)
		return r
	}
	type sizes struct {
		text, ids     int
		chars, tokens int64
	}
	for _, tt := range []struct {
		name string
		req  policy.Request
		want sizes
	}{
		{"text", tell(0, text), sizes{text: 2400, chars: 2400}},
		{"tokens", tell(0, tokens), sizes{ids: 600, tokens: 600}},
		{"long text", tell(3, text), sizes{text: wire.MaxText, chars: 4 * 512 * 200}},
		{"many tokens", tell(3, tokens), sizes{ids: wire.MaxTokenIDs, tokens: 512 * 200}},
		{"a key", tell(0, key), sizes{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.req
			if diff := cmp.Diff(tt.want, sizes{len(r.Text), len(r.TokenIDs), r.Chars, r.Tokens}, cmp.AllowUnexported(sizes{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	a, b, c := tell(0, key).Keys, tell(1, key).Keys, tell(2, key).Keys
	if a.Hashed().None() || a.Manual().None() || a != b || a == c {
		t.Errorf("keys %v, %v of one conversation, %v of another", a, b, c)
	}
}

func TestStudyFails(t *testing.T) {
	path := synthetic(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		args []string
		want string
	}{
		{"no trace", t.Context(), []string{"-trace", path + "x"}, "opening the trace"},
		{"no such line", t.Context(), []string{"-trace", path, "-only", "fastest"}, "fastest"},
		{"stopped", cancelled, []string{"-trace", path}, context.Canceled.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(tt.ctx, tt.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestTrace holds the reader to what is known of the public trace, and the study to
// what any of its results must show. It is skipped where the trace is not at hand.
func TestTrace(t *testing.T) {
	o, err := parse([]string{"-rounds", "1"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	path, err := mooncake.Find(o.trace)
	if err != nil {
		t.Skip(err)
	}
	o.trace = path
	lines, err := o.read()
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids, different := 0, map[uint64]bool{}
	for _, l := range lines {
		ids += len(l.Blocks)
		for _, id := range l.Blocks {
			different[id] = true
		}
	}
	work := mooncake.Workload(o.trace, lines, o.rate, o.spread)
	got := []int{len(lines), ids, len(different), mooncake.Common(lines), work.Blocks()}
	if diff := cmp.Diff([]int{12031, 288500, 182790, 1, 288500}, got); diff != "" {
		t.Errorf("requests, blocks, different ones, common ones, blocks of the workload (-want +got):\n%s", diff)
	}
	if ideal := float64(work.IdealHits()) / float64(work.Blocks()); ideal < 0.365 || ideal > 0.367 {
		t.Errorf("an endless cache hits %.4f, want 0.366", ideal)
	}
	if testing.Short() {
		t.Skip("not the study itself: -short")
	}
	chosen := []study.Contender{study.Greedy(), study.LeastRequests()}
	trial := study.Trial{Site: o.site, Work: work, Measure: o.measure, Rounds: o.rounds, Progress: io.Discard}
	rows, err := trial.Compare(t.Context(), chosen)
	if err != nil {
		t.Fatal(err)
	}
	greedy, fewest := rows[0].Runs[0], rows[1].Runs[0]
	if greedy.Failed+fewest.Failed > 0 {
		t.Errorf("%d and %d requests failed", greedy.Failed, fewest.Failed)
	}
	if greedy.P99 >= fewest.P99 || greedy.P50 >= fewest.P50 || greedy.Hits <= fewest.Hits || greedy.OfIdeal > 1 {
		t.Errorf("a choice that knows everything is no better than one that knows nothing:\n%+v\n%+v", greedy, fewest)
	}
}
