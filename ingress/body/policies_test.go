package body_test

import (
	"strings"
	"testing"

	"smg/ingress/body"
	"smg/policy"
)

// TestPolicies holds the numbered cases of the policies that bodies decide alone.
func TestPolicies(t *testing.T) {
	t.Run("ST-1 the rid table", func(t *testing.T) {
		for rid, want := range map[string]string{
			"conv": "conv", "conv_t2": "conv", "conv_t2_r1": "conv", "conv_r1": "conv",
			"conv_t1_t2": "conv_t1",
			"conv_r1_t2": "conv_r1",
			"conv_t":     "conv_t", "conv_tx1": "conv_tx1", "conv_T2": "conv_T2", "under_scored_id": "under_scored_id", "no-suffix": "no-suffix",
			"_t1":                            "_t1",
			strings.Repeat("k", 200) + "_t1": "",
		} {
			for _, in := range []string{`{"rid":"` + rid + `"}`, `{"rid":["` + rid + `","other"]}`} {
				b := parse(t, in)
				if got := body.SessionKey(b.RID()); got != want {
					t.Errorf("%s: got key %q, want %q", in, got, want)
				}
			}
		}
	})
	t.Run("BK-8 size is characters, or tokens where there are any", func(t *testing.T) {
		size := func(in, hint string) int64 {
			b := parse(t, in)
			ids, _ := body.ParseTokens(nil, hint)
			_, chars := extract(b, body.TextCompletions, 0)
			req := policy.Request{Tokens: int64(len(ids)), Chars: chars}
			return req.Size()
		}
		if got := size(`{"prompt":"🌊🌊"}`, ""); got != 2 {
			t.Errorf("two waves have size %d, want 2", got)
		}
		if got := size(`{"prompt":"\ud83c\udf0a\uD83C\uDF0A"}`, ""); got != 2 {
			t.Errorf("two escaped waves have size %d, want 2", got)
		}
		if got := size(`{"prompt":"`+strings.Repeat("x", 100)+`"}`, "1,2,3,4,5"); got != 5 {
			t.Errorf("five tokens and 100 characters have size %d, want 5", got)
		}
		if got := size(`{"model":"m"}`, ""); got != 0 {
			t.Errorf("nothing has size %d, want 0", got)
		}
	})
}

func TestSessionKey(t *testing.T) {
	k128 := strings.Repeat("k", 128)
	tests := []struct{ name, id, want string }{
		{"nothing", "", ""},
		{"nothing but a retry", "_r1", "_r1"},
		{"nothing but turn and retry", "_t1_r1", "_t1_r1"},
		{"each once", "conv_t1_r1_r2", "conv_t1_r1"},
		{"long numbers", "conv_t012345678901234567890_r00", "conv"},
		{"other digits", "conv_t\u0661", "conv_t\u0661"},
		{"no underscore", "convt1", "convt1"},
		{"digits alone", "123", "123"},
		{"a mark alone", "t1", "t1"},
		{"underscore and digits", "conv_1", "conv_1"},
		{"text after it", "conv_t1 ", "conv_t1 "},
		{"two underscores", "conv__t1", "conv_"},
		{"no ASCII", "\u4eac_t1", "\u4eac"},
		{"128 bytes", k128, k128},
		{"128 bytes once stripped", k128 + "_t1_r1", k128},
		{"129 bytes", k128 + "k", ""},
		{"129 bytes of suffixes", "_t" + strings.Repeat("1", 127), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := body.SessionKey(tt.id); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRID(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"a string", `{"rid":"a"}`, "a"},
		{"escapes", `{"rid":"a\u005ft1"}`, "a_t1"},
		{"the first of a list", `{"rid":[ "a","b"]}`, "a"},
		{"the last of a repeated key", `{"rid":"a","rid":["b"]}`, "b"},
		{"an empty list", `{"rid":[]}`, ""},
		{"a list that begins with null", `{"rid":[null,"b"]}`, ""},
		{"lists in a list", `{"rid":[["a"]]}`, ""},
		{"a number", `{"rid":7}`, ""},
		{"null", `{"rid":null}`, ""},
		{"absent", `{}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := parse(t, tt.in)
			if got := b.RID(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
