package policy_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// prefills is a fleet of n prefill workers under bucket with the given margins.
type prefills struct {
	*policytest.Fleet
	policy.Policy
	t *testing.T
}

func newPrefills(t *testing.T, n int, abs int64, rel float64) *prefills {
	t.Helper()
	cfg := policy.DefaultConfig()
	cfg.Bucket.Balance = policy.Balance{Abs: abs, Rel: rel}
	p, err := policy.New(policy.Bucket, cfg, policy.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	f := &prefills{policytest.NewLegFleet(t, worker.Prefill, n), p, t}
	f.tick()
	return f
}

func (f *prefills) tick() { f.Policy.(policy.Ticker).Tick(f.Now()) }

// send routes requests of the given sizes and returns their workers.
func (f *prefills) send(sizes ...int64) []int {
	f.t.Helper()
	var got []int
	for _, size := range sizes {
		req := plain(f.Fleet)
		req.Chars = size
		got = append(got, pick(f.t, f.Policy, f.Fleet, req))
	}
	return got
}

// check lets an interval pass, at whose end the boundaries are looked at.
func (f *prefills) check() {
	f.Advance(5 * time.Second)
	f.tick()
}

// fresh lets the window run out.
func (f *prefills) fresh() { f.Advance(6 * time.Second) }

// ranges finds the upper bounds of all ranges but the last, by asking.
func (f *prefills) ranges() []int64 {
	return policy.UpperBounds(f.Policy, policytest.Model)
}

func (f *prefills) wantRanges(want ...int64) {
	f.t.Helper()
	if got := fmt.Sprint(f.ranges()); got != fmt.Sprint(want) {
		f.t.Errorf("upper bounds %s, want %v", got, want)
	}
}

func (f *prefills) want(got []int, want ...int) {
	f.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("workers %v, want %v", got, want)
	}
}

func bucketInitialRanges(t *testing.T) {
	f := newPrefills(t, 2, 1<<40, 1)
	f.want(f.send(0, 2047, 2048, 1<<30), 0, 0, 1, 1)
	f.wantRanges(2047)
	f = newPrefills(t, 3, 1<<40, 1)
	f.want(f.send(1364, 1365, 2729, 2730), 0, 1, 1, 2)
	f.wantRanges(1364, 2729)
}

func bucketFirstAdjustment(t *testing.T) *prefills {
	f := newPrefills(t, 3, 300, 1)
	f.want(f.send(5, 10, 15, 20, 24, 26), 0, 0, 0, 0, 0, 0)
	f.check()
	f.wantRanges(20, 26)
	return f
}

func bucketAdjusts(t *testing.T) {
	f := bucketFirstAdjustment(t)
	f.fresh()
	f.send(10, 20, 30, 40, 45, 57)
	f.check()
	f.wantRanges(40, 57)
}

func bucketKeepsWithinFactorOfTwo(t *testing.T) {
	f := bucketFirstAdjustment(t)
	f.fresh()
	f.send(10, 20, 30, 32, 45, 55)
	f.check()
	f.wantRanges(20, 26)
}

func bucketOneRequest(t *testing.T) {
	f := newPrefills(t, 3, 300, 1)
	f.send(20)
	f.check()
	f.wantRanges(20, 27)
	f.fresh()
	f.send(7)
	f.check()
	f.wantRanges(7, 10)
}

func bucketBalances(t *testing.T) {
	f := newPrefills(t, 3, 32, 1.0001)
	got := f.send(33, 34, 34)
	if got[0] != 0 || got[1] == 0 || got[2] == 0 || got[1] == got[2] {
		t.Errorf("workers %v, want the first, then the two others", got)
	}
	f.check()
	f.wantRanges(33, 67)
}

func bucketBelowMargin(t *testing.T) {
	f := newPrefills(t, 3, 30, 2)
	f.want(f.send(20, 8, 3), 0, 0, 0)
}

func bucketSizes(t *testing.T) {
	waves := policy.Request{Text: "🌊🌊", Chars: 2}
	if got := waves.Size(); got != 2 {
		t.Errorf("two waves have size %d, want 2", got)
	}
	tokens := policy.Request{TokenIDs: make([]uint32, 5), Tokens: 5, Chars: 100}
	if got := tokens.Size(); got != 5 {
		t.Errorf("five tokens of a hundred characters have size %d, want 5", got)
	}
}

func bucketWithoutBuckets(t *testing.T) {
	for _, leg := range []worker.Leg{worker.Regular, worker.Decode} {
		var lines bytes.Buffer
		f := policytest.NewLegFleet(t, leg, 3)
		p := newPolicyWith(t, policy.Bucket, policy.Deps{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		f.Down(2)
		seen := map[int]int{}
		for range 100 {
			seen[pick(t, p, f, plain(f))]++
		}
		if len(seen) != 2 || seen[2] > 0 {
			t.Errorf("%s: workers %v, want both available ones", leg, seen)
		}
		if got := strings.Count(lines.String(), "level=WARN"); got != 100 {
			t.Errorf("%s: %d warnings for 100 requests", leg, got)
		}
	}
}

// The original answers 503 while other workers are free (W-14).
func bucketOwnerDown(t *testing.T) {
	f := newPrefills(t, 3, 1<<40, 1)
	f.send(2000)
	f.Down(0)
	f.want(f.send(10), 2) // the one that has had least
	f.Up(0)
	f.want(f.send(10), 0)
}

func bucketLastRangeIsOpen(t *testing.T) {
	f := newPrefills(t, 3, 1<<40, 1)
	f.want(f.send(1e9), 2)
}

// The original makes ranges of the whole number range at the second worker (W-16).
func bucketOneByOne(t *testing.T) {
	f := newPrefills(t, 3, 1<<40, 1)
	for _, i := range []int{0, 1, 2} {
		f.Remove(i)
	}
	for n, want := range [][]int64{{}, {2047}, {1364, 2729}} {
		f.Add(n)
		f.send(10)
		f.wantRanges(want...)
	}
	// Ranges that follow the traffic are divided anew, and its load stays counted.
	f.check()
	f.fresh()
	f.send(100, 200, 300, 400)
	f.check()
	f.Remove(1)
	f.Policy.(policy.Forgetter).Forget(f.ID(1))
	f.send(10)
	f.wantRanges(300)
}

// The original forgets only when the next request comes (W-15).
func bucketIdle(t *testing.T) {
	f := newPrefills(t, 2, 32, 1.1)
	f.send(1000)
	if got := f.send(10); got[0] != 1 {
		t.Errorf("while the first is busy: worker %v, want 1", got)
	}
	f.fresh()
	f.want(f.send(10), 0)
	// Nothing is adjusted to what is over.
	f.fresh()
	f.check()
	f.wantRanges(2047)
}

// The original puts everything into the first range (W-17).
func bucketBimodal(t *testing.T) {
	for _, tt := range []struct {
		name       string
		few, low   int64
		many, high int64
	}{
		{"as specified", 10, 100, 2, 4000},
		{"long ones prevail", 3, 100, 50, 4000},
		{"short ones prevail", 1000, 100, 2, 4000},
	} {
		f := newPrefills(t, 2, 1<<40, 1)
		for range tt.few {
			f.send(tt.low)
		}
		for range tt.many {
			f.send(tt.high)
		}
		f.check()
		if got := f.ranges(); got[0] < tt.low || got[0] >= tt.high {
			t.Errorf("%s: boundary %v, want one between %d and %d", tt.name, got, tt.low, tt.high)
		}
	}
}

func TestBucketUndo(t *testing.T) {
	f := newPrefills(t, 2, 32, 1.1)
	req := plain(f.Fleet)
	req.Chars = 1000
	pick(t, f.Policy, f.Fleet, req)
	f.Policy.(policy.Undoer).Undo(req.Ask.Lease)
	f.want(f.send(10), 0)
	if f.send(1000, 1)[1] != 1 {
		t.Error("a call that reached its worker is not counted")
	}
}

func TestBucketForgetsEmptyModels(t *testing.T) {
	f := newPrefills(t, 1, 32, 1.1)
	f.send(10)
	f.Policy.(policy.Forgetter).Forget(f.ID(0))
	if got := f.ranges(); got != nil {
		t.Errorf("ranges %v of a model without workers", got)
	}
}
