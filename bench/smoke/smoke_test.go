package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
		{name: "another_build", args: []string{"-base", program}},
		{name: "no_program", args: []string{"-smg", "/nowhere/smg"}, want: "make build"},
		{name: "no_base", args: []string{"-base", "/nowhere/smg"}, want: "/nowhere/smg"},
		{name: "too_few_rounds", args: []string{"-rounds", "4"}, want: "5 are the least"},
		{name: "no_length", args: []string{"-length", "0s"}, want: "-length"},
		{name: "no_rate", args: []string{"-rate", "0"}, want: "rates"},
		{name: "no_rate_of_pairs", args: []string{"-rate-pair", "0"}, want: "rates"},
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

func TestScenarios(t *testing.T) {
	all := scenarios(&options{rate: 1, rateLarge: 1, rateSSE: 1, ratePair: 1, length: time.Second})
	if len(all) != 5 {
		t.Fatalf("%d scenarios, want 5", len(all))
	}
	var goals []string
	for _, s := range all {
		var body struct {
			Messages []struct{ Content string }
			Stream   bool
		}
		if err := json.Unmarshal([]byte(s.body), &body); err != nil {
			t.Errorf("%s: the body is no JSON: %v", s.name, err)
		}
		for _, g := range s.goals {
			goals = append(goals, g.name)
			if !slices.Contains(s.subjects, g.of) {
				t.Errorf("%s: %s is about %s, which is no subject", s.name, g.name, g.of)
			}
		}
		if !s.subjects[0].engines() {
			t.Errorf("%s: the first subject is %s, no engine", s.name, s.subjects[0])
		}
		if s.tokens == smallAnswer && s.connections == 64 && len(s.body) != smallBody {
			t.Errorf("%s: a body of %d bytes, want %d", s.name, len(s.body), smallBody)
		}
	}
	if diff := cmp.Diff([]string{"G1", "G9", "G10"}, goals); diff != "" {
		t.Errorf("goals (-want +got):\n%s", diff)
	}
	if got := scenarios(&options{only: "SSE"}); len(got) != 1 || !strings.Contains(got[0].body, `"stream":true`) {
		t.Errorf("-only SSE chose %d scenarios", len(got))
	}
	got := scenarios(&options{only: "decode", base: "older"})
	if len(got) != 1 {
		t.Fatalf("-only decode chose %d scenarios", len(got))
	}
	if diff := cmp.Diff([]kind{pair, relayed, single, split, base}, got[0].subjects); diff != "" {
		t.Errorf("subjects of prefill/decode (-want +got):\n%s", diff)
	}
}
