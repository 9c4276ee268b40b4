package policy_test

import (
	"slices"
	"strings"
	"testing"

	"smg/policy"
	"smg/policy/policytest"
)

// TestMatched: how much of a prompt the chosen worker is known to hold, in tokens.
func TestMatched(t *testing.T) {
	matched := func(f *cached, req *policy.Request) int64 {
		t.Helper()
		d, err := f.Pick(req, f.Pool())
		if err != nil {
			t.Fatal(err)
		}
		f.End(req.Ask.Lease, false)
		return d.Matched
	}
	ids := make([]uint32, 64)
	for i := range ids {
		ids[i] = uint32(i)
	}
	t.Run("text", func(t *testing.T) {
		f := newCached(t, 1, nil)
		prompt := strings.Repeat("abcd", 10)
		for _, tt := range []struct {
			name, text string
			want       int64
		}{{"new", prompt, 0}, {"again", prompt, 10}, {"longer", prompt + strings.Repeat("wxyz", 3), 10}, {"other", "zzzz" + prompt, 0}, {"a part of a token", prompt[:7], 1}} {
			if got := matched(f, f.text(tt.text)); got != tt.want {
				t.Errorf("%s: %d tokens, want %d", tt.name, got, tt.want)
			}
		}
	})
	t.Run("below the threshold", func(t *testing.T) {
		f := newCached(t, 1, nil)
		matched(f, f.text("abcd"))
		if got := matched(f, f.text("abcd"+strings.Repeat("wxyz", 9))); got != 1 {
			t.Errorf("%d tokens, want the one that the worker holds all the same", got)
		}
	})
	t.Run("tokens", func(t *testing.T) {
		f := newCached(t, 1, nil)
		matched(f, f.tokens(ids[:32]))
		if got := matched(f, f.tokens(ids)); got != 32 {
			t.Errorf("%d tokens, want 32", got)
		}
	})
	t.Run("somebody else holds it", func(t *testing.T) {
		f := newCached(t, 2, nil)
		f.only(0, f.text("abcdabcdabcd"))
		req := f.text("abcdabcdabcd")
		req.Ask.Skip = append(req.Ask.Skip, f.ID(0))
		if got := matched(f, req); got != 0 {
			t.Errorf("%d tokens, want none: the worker does not hold them", got)
		}
	})
	t.Run("events", func(t *testing.T) {
		f := newCached(t, 1, nil)
		policy.StoreBlocks(t, f.Policy, policytest.Model, f.ID(0), 8, ids[:24])
		if got := matched(f, f.tokens(ids)); got != 24 {
			t.Errorf("%d tokens, want three blocks of 8", got)
		}
	})
	t.Run("heads", func(t *testing.T) {
		f := newCached(t, 1, hashed(16, 32))
		if got := matched(f, f.tokens(ids[:40])); got != 0 {
			t.Errorf("%d tokens of a new prompt", got)
		}
		other := slices.Clone(ids[:40])
		other[20] = 99
		if got := matched(f, f.tokens(other)); got != 16 {
			t.Errorf("%d tokens, want 16", got)
		}
		if got := matched(f, f.tokens(ids[:40])); got != 32 {
			t.Errorf("%d tokens, want 32", got)
		}
	})
}
