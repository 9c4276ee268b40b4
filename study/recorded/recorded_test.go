package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/record"
	"smg/sim"
	"smg/study"
	"smg/worker"
)

const ms = time.Millisecond

var began = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// written is a file of lines.
func written(t testing.TB, leg string, lines ...record.Line) File {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	err := enc.Encode(record.Header{Version: record.Version, Began: began, Leg: leg, Policy: "random"})
	for i := range lines {
		err = errors.Join(err, enc.Encode(&lines[i]))
	}
	if err = errors.Join(err, enc.Encode(record.Line{Close: &record.Close{}})); err != nil {
		t.Fatal(err)
	}
	return File{Name: "file", Data: &buf}
}

// after is a line at a time since the begin.
func after(at time.Duration, l record.Line) record.Line {
	l.At = at.Microseconds()
	return l
}

func lease(plan uint64) record.Lease { return record.Lease{Incarnation: 1, Plan: plan} }

func here(at time.Duration, n int, models ...string) record.Line {
	return after(at, record.Line{Worker: &record.Worker{Number: n, ID: fmt.Sprint("w", n), Models: models}})
}

func gone(at time.Duration, n int) record.Line {
	return after(at, record.Line{Worker: &record.Worker{Number: n, ID: fmt.Sprint("w", n), Gone: true}})
}

// asked is a choice of worker n for a prompt of text.
func asked(at time.Duration, plan uint64, model string, n int, text string) record.Line {
	s := &record.Select{Lease: lease(plan), Model: model, Worker: n}
	s.Text, s.Seen = record.DigestText(nil, text)
	s.Chars = int64(s.Seen)
	if n == 0 {
		s.Error = "no_available_workers"
	}
	return after(at, record.Line{Select: s})
}

func ended(at time.Duration, plan uint64) record.Line {
	return after(at, record.Line{End: &record.End{Lease: lease(plan), Outcome: "success"}})
}

// engine has round prices: 1 ms a prompt token, 10 ms a decode step, 1 ms for each
// other sequence.
func engine() sim.Config {
	c := sim.DefaultConfig()
	c.PrefillTokensPerSecond, c.DecodeStep, c.DecodePerSequence = 1000, 10*ms, ms
	return c
}

func options() Options { return Options{Rate: 1, Engine: engine()} }

func load(t *testing.T, files ...File) *Recording {
	t.Helper()
	r, err := Load(files...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shape is what a test looks at of a request.
type shape struct {
	At             time.Duration
	Prompt, Output int
}

func shapes(t *Traffic) []shape {
	var all []shape
	for _, q := range t.Requests {
		all = append(all, shape{q.At, q.Prompt, q.Output})
	}
	return all
}

func TestTraffic(t *testing.T) {
	text := strings.Repeat("x", 400) // 100 tokens: 100 ms of prefill
	retry := asked(900*ms, 9, "m", 1, text)
	retry.Select.Skip = 1
	tokens := after(600*ms, record.Line{Select: &record.Select{Lease: lease(6), Model: "m", Worker: 1, Tokens: 70, Chars: 9, Seen: 3, IDs: record.DigestIDs(nil, []uint32{1, 2, 3})}})
	untold := after(700*ms, record.Line{Select: &record.Select{Lease: lease(7), Worker: 1, Credit: 1024}})
	failed := ended(1100*ms, 4)
	failed.End.Outcome = "failure"
	site := []record.Line{here(0, 1, "m"), here(0, 2, "m"), here(0, 3, "other")}
	for _, tt := range []struct {
		name   string
		lines  []record.Line
		change func(*Options)
		leg    string
		want   []shape
		check  func(t *testing.T, x *Traffic)
	}{
		{
			name: "answers are as long as their calls, less the prefill",
			lines: []record.Line{
				asked(100*ms, 1, "m", 1, text), asked(2100*ms, 2, "m", 2, text),
				ended(100*ms+100*ms+200*ms, 1), ended(2100*ms+100*ms+70*ms, 2),
			},
			want: []shape{{0, 100, 20}, {2000 * ms, 100, 7}},
		},
		{
			name: "calls of the same moment decode more slowly, those without a good end are like the others",
			lines: []record.Line{
				asked(0, 1, "m", 1, text), asked(0, 2, "m", 1, text), asked(0, 3, "m", 2, text), asked(0, 4, "m", 2, text),
				ended(100*ms+100*ms, 1), ended(100*ms+100*ms, 2), ended(100*ms+110*ms, 3), failed,
			},
			want: []shape{{0, 100, 10}, {0, 100, 10}, {0, 100, 11}, {0, 100, 10}},
		},
		{
			name:  "nobody knows how long answers are",
			lines: []record.Line{asked(0, 1, "m", 1, text)},
			want:  []shape{{0, 100, 256}},
		},
		{
			name:   "answers of a given length, at twice the rate",
			lines:  []record.Line{asked(0, 1, "m", 1, text), asked(600*ms, 2, "m", 1, text), ended(900*ms, 1)},
			change: func(o *Options) { o.Output, o.Rate = 5, 2 },
			want:   []shape{{0, 100, 5}, {300 * ms, 100, 5}},
		},
		{
			name:  "a prefill leg answers nothing",
			lines: []record.Line{asked(0, 1, "m", 1, text), ended(900*ms, 1)},
			leg:   "prefill",
			want:  []shape{{0, 100, 0}},
		},
		{
			name:  "lengths: of tokens, of characters, or what was credited",
			lines: []record.Line{asked(500*ms, 5, "m", 0, text[:1]), tokens, untold},
			want:  []shape{{0, 1, 256}, {100 * ms, 70, 256}, {200 * ms, 1024, 256}},
			check: func(t *testing.T, x *Traffic) {
				if x.Unknown != 1 {
					t.Errorf("%d without a length, want 1", x.Unknown)
				}
			},
		},
		{
			name: "neither retries nor other models, but a prompt without one",
			lines: []record.Line{
				asked(0, 1, "m", 1, text), asked(100*ms, 2, "other", 3, text), asked(200*ms, 3, "", 1, text), asked(300*ms, 4, "m", 1, text), retry,
			},
			want: []shape{{0, 100, 256}, {200 * ms, 100, 256}, {300 * ms, 100, 256}},
			check: func(t *testing.T, x *Traffic) {
				if x.Model != "m" || x.Others != 1 || x.Retries != 1 || x.Policy != "random" {
					t.Errorf("model %s, %d others, %d retries, policy %s", x.Model, x.Others, x.Retries, x.Policy)
				}
			},
		},
		{
			name:   "a model that is asked for",
			lines:  []record.Line{asked(0, 1, "m", 1, text), asked(100*ms, 2, "m", 1, text), asked(200*ms, 3, "other", 3, text)},
			change: func(o *Options) { o.Model = "other" },
			want:   []shape{{0, 100, 256}},
			check: func(t *testing.T, x *Traffic) {
				if x.Workers != 1 {
					t.Errorf("%d workers, want 1", x.Workers)
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, leg := options(), tt.leg
			if tt.change != nil {
				tt.change(&o)
			}
			if leg == "" {
				leg = "regular"
			}
			x, err := load(t, written(t, leg, append(site[:3:3], tt.lines...)...)).Traffic(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, shapes(x)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if tt.check != nil {
				tt.check(t, x)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	one := asked(0, 1, "m", 0, "text")
	for _, tt := range []struct {
		name  string
		files func() []File
		model string
		says  string
	}{
		{"nothing was asked", func() []File { return []File{written(t, "regular", here(0, 1, "m"))} }, "", "nothing was asked"},
		{"another model", func() []File { return []File{written(t, "regular", one)} }, "n", "there are some of [m]"},
		{"a decode leg", func() []File { return []File{written(t, "decode", one)} }, "", ErrLeg.Error()},
		{"two legs", func() []File { return []File{written(t, "regular", one), written(t, "prefill", one)} }, "", "of the prefill leg, the one before of the regular leg"},
		{"no leg", func() []File { return []File{written(t, "left", one)} }, "", `unknown leg "left"`},
		{"no recording", func() []File { return []File{{"x", strings.NewReader("hello\n")}} }, "", "x: " + record.ErrNotOne.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Load(tt.files()...)
			if err == nil {
				o := options()
				o.Model = tt.model
				_, err = r.Traffic(o)
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %q", err, tt.says)
			}
		})
	}
}

// TestFilesOfSeveralReplicas: each has what it was asked, all have the lease stream.
func TestFilesOfSeveralReplicas(t *testing.T) {
	stream := []record.Line{
		after(30*ms, record.Line{Begin: &record.Begin{Lease: lease(2), Worker: 1}}),
		after(40*ms, record.Line{Begin: &record.Begin{Lease: lease(7), Worker: 1}}), // chosen without a selector
		ended(200*ms, 1), ended(300*ms, 2), ended(300*ms, 7),
	}
	site := []record.Line{here(0, 1, "m"), here(0, 2, "m")}
	first := append(site[:2:2], asked(10*ms, 1, "m", 2, "one"), asked(20*ms, 2, "m", 2, "two"))
	second := append(site[:2:2], asked(21*ms, 2, "m", 1, "two"), asked(25*ms, 3, "m", 1, "three")) // the second one was asked twice
	cut := written(t, "regular", append(second, stream...)...)
	data := cut.Data.(*bytes.Buffer)
	data.Truncate(data.Len() - 10)
	r := load(t, written(t, "regular", append(first, stream...)...), cut)
	if r.Cut != 1 || r.Strays != 1 {
		t.Errorf("%d cut, %d strays, want 1 and 1", r.Cut, r.Strays)
	}
	x, err := r.Traffic(options())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, c := range x.calls {
		got = append(got, fmt.Sprintf("%v at %d, ended %v", x.Requests[i].At, x.number(c.worker), c.good))
	}
	if diff := cmp.Diff([]string{"0s at 1, ended true", "10ms at 0, ended true", "15ms at 0, ended false"}, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestWorkersComeAndGo(t *testing.T) {
	r := load(t, written(t, "regular",
		here(0, 1, "m"), here(0, 2, "m"), here(0, 3, "n"), asked(10*ms, 1, "m", 1, "x"),
		gone(20*ms, 1), here(30*ms, 4, "m"), here(30*ms, 4, "m"), here(40*ms, 1, "m"), gone(50*ms, 2),
	))
	x, err := r.Traffic(options())
	if err != nil {
		t.Fatal(err)
	}
	if x.Workers != 3 || len(x.numbers) != 3 {
		t.Errorf("%d workers at a time of %d, want 3 of 3", x.Workers, len(x.numbers))
	}
	if _, ok := x.AsRecorded(2); ok {
		t.Error("three workers are said to fit into two engines")
	}
}

// TestAsRecorded: requests go where they went, and those that went nowhere fail.
func TestAsRecorded(t *testing.T) {
	r := load(t, written(t, "regular", here(0, 1, "n"), here(0, 2, "m"), here(0, 3, "m"),
		asked(10*ms, 1, "m", 3, "x"), asked(20*ms, 2, "m", 2, "y"), asked(30*ms, 3, "m", 0, "z"), asked(40*ms, 4, "m", 3, "x")))
	x, err := r.Traffic(options())
	if err != nil {
		t.Fatal(err)
	}
	c, ok := x.AsRecorded(x.Workers)
	if !ok {
		t.Fatal("the recording does not know where requests went")
	}
	site := study.DefaultConfig()
	site.Workers, site.Engine = x.Workers, engine()
	res, err := study.Run(t.Context(), site, x.Workload, c)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, o := range res.Outcomes {
		got = append(got, o.Worker)
	}
	if diff := cmp.Diff([]int{1, 0, -1, 1}, got); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
	if err := res.Outcomes[2].Err; !errors.Is(err, worker.ErrDeclined) {
		t.Errorf("error %v, want that nobody was chosen", err)
	}
}

// TestContendersAreToldWhatTheyRead holds every policy to what an ingress sends it.
func TestContendersAreToldWhatTheyRead(t *testing.T) {
	full := asked(0, 1, "m", 1, strings.Repeat("hello ", 50))
	full.Select.Keys = record.Keys{Header: "aa", Implicit: "bb"}
	full.Select.Target, full.Select.Space = new(0), "cc"
	ids := after(ms, record.Line{Select: &record.Select{Lease: lease(2), Model: "m", Worker: 1, Tokens: 300, Chars: 9, Seen: 200, IDs: record.DigestIDs(nil, make([]uint32, 200))}})
	x, err := load(t, written(t, "regular", here(0, 1, "m"), full, ids)).Traffic(options())
	if err != nil {
		t.Fatal(err)
	}
	type told struct {
		Text, IDs                                int
		Chars, Tokens                            int64
		Target                                   string
		Header, Pinned, Implicit, Session, Space bool
	}
	for _, tt := range []struct {
		policy      string
		sticky      bool
		first, then told
	}{
		{policy.Random, false, told{Header: true}, told{Tokens: 300}},
		{policy.LeastLoad, false, told{Header: true}, told{Tokens: 300}},
		{policy.CacheAware, false, told{Header: true, Text: 300, Chars: 300, Space: true}, told{IDs: 200, Tokens: 300, Chars: 9}},
		{policy.Bucket, false, told{Header: true, Chars: 300}, told{Tokens: 300, Chars: 9}},
		{policy.ConsistentHashing, false, told{Header: true, Implicit: true, Target: "0"}, told{Tokens: 300}},
		{policy.Manual, false, told{Header: true, Pinned: true, Target: "0"}, told{Tokens: 300}},
		{policy.Random, true, told{Header: true, Session: true}, told{Tokens: 300}},
	} {
		t.Run(fmt.Sprintf("%s/sticky=%v", tt.policy, tt.sticky), func(t *testing.T) {
			cfg := study.FlagDefaults()
			cfg.Policy, cfg.Sticky.On = tt.policy, tt.sticky
			c, err := x.Contender(cfg)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []told{tt.first, tt.then} {
				var r policy.Request
				c.Inputs(i, &r)
				got := told{
					len(r.Text), len(r.TokenIDs), r.Chars, r.Tokens, r.Target, !r.Keys.Header.None(), !r.Keys.Pinned.None(),
					!r.Keys.Implicit.None(), !r.Keys.Conversation.None(), r.Namespace != 0,
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("request %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
	if _, err := x.Contender(policy.Config{Policy: "fastest"}); !errors.Is(err, policy.ErrUnknown) {
		t.Errorf("error %v, want that there is no such policy", err)
	}
}

// TestFittedRequests are counted: simulated engines are all alike.
func TestFittedRequests(t *testing.T) {
	narrow := asked(ms, 2, "m", 1, "x")
	narrow.Select.Fit = &record.Fit{Runtime: "vllm"}
	x, err := load(t, written(t, "prefill", here(0, 1, "m"), asked(0, 1, "m", 1, "x"), narrow)).Traffic(options())
	if err != nil {
		t.Fatal(err)
	}
	if x.Fitted != 1 || len(x.Requests) != 2 {
		t.Errorf("%d of %d requests could not go to all, want 1 of 2", x.Fitted, len(x.Requests))
	}
}
