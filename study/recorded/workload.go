package recorded

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"smg/sim"
	"smg/study"
	"smg/worker"
)

// Options is what of a recording is made a workload.
type Options struct {
	Model string // "" for the one with the most requests
	// Rate is how many times faster than recorded requests arrive.
	Rate float64
	// Output is how many tokens every answer has, 0 to guess it for each from how long
	// its call took.
	Output int
	// Engine is what answers are guessed for, and the size of blocks.
	Engine sim.Config
}

// Traffic is a workload that was recorded.
type Traffic struct {
	*study.Workload
	Leg     worker.Leg
	Model   string
	Policy  string // that chose when it was recorded
	Workers int    // most of the model at the same time

	Others  int // requests of other models, which are left out
	Retries int // asks that repeat a request that had failed, which are left out
	Unknown int // requests of which no length was told
	Fitted  int // requests that some workers only could serve, which any can here

	calls   []*call // by request
	prompts []prompt
	numbers map[int]int // of the workers that the model had, from 0, by index
}

// ErrLeg is a recording of a leg whose engines cannot be simulated alone.
var ErrLeg = errors.New("only recordings of the regular and the prefill leg can be replayed")

// Traffic makes a workload of the recording.
func (r *Recording) Traffic(o Options) (*Traffic, error) {
	if r.Leg != worker.Regular && r.Leg != worker.Prefill {
		return nil, fmt.Errorf("it is of the %s leg: %w", r.Leg, ErrLeg)
	}
	t := &Traffic{Workload: &study.Workload{BlockSize: o.Engine.BlockSize}, Leg: r.Leg, Model: o.Model, Policy: r.Policy, numbers: map[int]int{}}
	if o.Model == "" {
		t.Model = r.usual()
	}
	for _, c := range r.calls {
		switch {
		case c.ask.Model != t.Model && c.ask.Model != "":
			t.Others++
		case c.ask.Skip > 0:
			t.Retries++
		default:
			t.calls = append(t.calls, c)
			if c.ask.Fit != nil {
				t.Fitted++
			}
		}
	}
	if len(t.calls) == 0 {
		return nil, fmt.Errorf("there are no requests of model %s; there are some of %v", t.Model, r.models())
	}
	t.members(r)
	t.arrive(o)
	t.answer(o)
	return t, nil
}

// models are those that were asked for.
func (r *Recording) models() []string {
	return slices.Sorted(maps.Keys(r.counts()))
}

func (r *Recording) counts() map[string]int {
	n := map[string]int{}
	for _, c := range r.calls {
		if c.ask.Model != "" {
			n[c.ask.Model]++
		}
	}
	return n
}

// usual is the model with the most requests, or "" if none is named.
func (r *Recording) usual() string {
	n := r.counts()
	all := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) })
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// members counts the workers that serve the model.
func (t *Traffic) members(r *Recording) {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for i, m := range r.workers {
		if t.Model != "" && !slices.Contains(m.models, t.Model) {
			continue
		}
		t.numbers[i] = len(t.numbers)
		for _, s := range m.spans {
			changes = append(changes, change{s.from, 1})
			if !s.to.IsZero() {
				changes = append(changes, change{s.to, -1})
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	n := 0
	for _, c := range changes {
		n += c.by
		t.Workers = max(t.Workers, n)
	}
}

// arrive makes the requests, which have no answers yet.
func (t *Traffic) arrive(o Options) {
	first := t.calls[0].at
	for _, c := range t.calls {
		p := promptOf(c.ask)
		if c.ask.Tokens == 0 && c.ask.Chars == 0 && p.tokens == 0 {
			t.Unknown++
		}
		t.prompts = append(t.prompts, p)
		t.Requests = append(t.Requests, study.Request{
			At: time.Duration(float64(c.at.Sub(first)) / o.Rate), Prompt: p.length(), Blocks: p.blocks(o.Engine.BlockSize),
		})
	}
}

// Bounds of guesses.
const (
	untoldOutput = 256 // tokens, where no call tells anything
	maxOutput    = 32 << 10
)

// answer guesses how long answers were: what a call took, less the prefill of its
// prompt, at the pace at which an engine decodes that shares the calls of that moment
// with the others. A prefill leg answers nothing.
func (t *Traffic) answer(o Options) {
	if t.Leg == worker.Prefill {
		return
	}
	sum, known := 0, 0
	busy := t.busy()
	for i, c := range t.calls {
		q := &t.Requests[i]
		switch {
		case o.Output > 0:
			q.Output = o.Output
		case c.good:
			prefill := time.Duration(float64(q.Prompt) / o.Engine.PrefillTokensPerSecond * float64(time.Second))
			step := o.Engine.DecodeStep + time.Duration(max(0, busy[i]/max(1, t.Workers)-1))*o.Engine.DecodePerSequence
			q.Output = min(max(1, int((c.end.Sub(c.at)-prefill)/max(1, step))), maxOutput)
			sum, known = sum+q.Output, known+1
		}
	}
	mean := untoldOutput
	if known > 0 {
		mean = max(1, sum/known)
	}
	for i := range t.Requests {
		if q := &t.Requests[i]; q.Output == 0 {
			q.Output = mean
		}
	}
}

// busy is how many calls were in flight when each one came, itself included.
func (t *Traffic) busy() []int {
	ends := make([]time.Time, 0, len(t.calls))
	for _, c := range t.calls {
		if !c.end.IsZero() {
			ends = append(ends, c.end)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	out, ended := make([]int, len(t.calls)), 0
	for i, c := range t.calls {
		for ended < len(ends) && ends[ended].Before(c.at) {
			ended++
		}
		out[i] = max(1, i+1-ended)
	}
	return out
}
