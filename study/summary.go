package study

import (
	"math"
	"slices"
	"time"

	"smg/stats"
)

// Measure is what is read from a result.
type Measure struct {
	Goal   time.Duration // the TTFT of a request that counts as good
	Window time.Duration // over which work is compared between workers
}

// DefaultMeasure is that of the goals Q1 to Q6.
func DefaultMeasure() Measure { return Measure{Goal: 2 * time.Second, Window: time.Minute} }

// Summary is a result in the figures that are compared.
type Summary struct {
	Name      string
	Requests  int
	Failed    int     // without an answer; the figures below but Good and Hits are without them
	Hits      float64 // share of the prompts' blocks that were in the engine's cache
	OfIdeal   float64 // the same as a share of what one endless cache would have held
	P50, P99  time.Duration
	Good      float64 // share of all requests whose first token came within the goal
	Imbalance float64 // see Imbalance
}

// Summarize reduces the result of a run of work.
func (m Measure) Summarize(work *Workload, r *Result) Summary {
	s := Summary{Name: r.Name, Requests: len(r.Outcomes)}
	ttft := make([]time.Duration, 0, len(r.Outcomes))
	hits, good := 0, 0
	for _, o := range r.Outcomes {
		if o.Err != nil {
			s.Failed++
			continue
		}
		ttft = append(ttft, o.TTFT)
		hits += o.Cached / work.BlockSize
		if o.TTFT < m.Goal {
			good++
		}
	}
	slices.Sort(ttft)
	s.P50, s.P99 = stats.Quantile(ttft, 0.5), stats.Quantile(ttft, 0.99)
	s.Hits = ratio(hits, work.Blocks())
	s.OfIdeal = ratio(hits, work.IdealHits())
	s.Good = ratio(good, len(r.Outcomes))
	s.Imbalance = m.Imbalance(work, r)
	return s
}

// ratio is 0 if there is nothing to divide by.
func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Imbalance is the coefficient of variation (standard deviation over mean) between
// the workers of the work that they were given in a window, as the mean over all
// whole windows. Work is engine time: that of the prompt tokens that were not cached,
// and what each output token adds to a batch. It counts in the window in which its
// request arrived, so that a queue does not smooth what a policy did.
func (m Measure) Imbalance(work *Workload, r *Result) float64 {
	windows := make([][]float64, work.Length()/m.Window)
	for i, o := range r.Outcomes {
		at := int(work.Requests[i].At / m.Window)
		if o.Worker < 0 || at >= len(windows) {
			continue
		}
		if windows[at] == nil {
			windows[at] = make([]float64, r.Workers)
		}
		windows[at][o.Worker] += price(&work.Requests[i], &o, r)
	}
	sum, n := 0.0, 0
	for _, w := range windows {
		if w != nil {
			sum += variation(w)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// price is the engine time of a request in seconds.
func price(q *Request, o *Outcome, r *Result) float64 {
	if o.Err != nil {
		return 0
	}
	return float64(q.Prompt-o.Cached)/r.Engine.PrefillTokensPerSecond + float64(q.Output)*r.Engine.DecodePerSequence.Seconds()
}

// variation is the coefficient of variation, 0 if all values are 0.
func variation(values []float64) float64 {
	n, mean, square := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		square += (v - mean) * (v - mean) / n
	}
	if mean == 0 {
		return 0
	}
	return math.Sqrt(square) / mean
}
