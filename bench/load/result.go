package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"smg/stats"
)

// Faults of one exchange; a [Result] counts them by kind.
var (
	ErrStatus   = errors.New("another status than wanted")
	ErrBody     = errors.New("another body than wanted")
	ErrSurplus  = errors.New("bytes that nobody asked for")
	ErrLost     = errors.New("connection lost")
	ErrNoAnswer = errors.New("no answer in time")
	ErrFraming  = errors.New("answer malformed")
)

// Result is what one run of requests gave.
type Result struct {
	// Sent counts requests, Answered those with the answer that was wanted.
	Sent, Answered int
	// Failed counts the others by kind.
	Failed map[error]int
	// Elapsed is from the begin to the last answer.
	Elapsed time.Duration
	// Latency of each answer in ascending order: from the intended moment (open
	// loop) or the sending (closed loop) to its last byte.
	Latency []time.Duration
	// FirstByte is the same up to the answer's first byte. Where several subjects are
	// asked at once, both are those of the last of them.
	FirstByte []time.Duration
	// Late is by how much the generator sent each request after both its moment and
	// a free connection were there, in ascending order: the generator's own fault.
	// It is empty after a closed loop.
	Late []time.Duration
	// Waited counts requests that found all connections busy at their moment.
	Waited int
	// Marked counts answers with [Config.Mark] in their head.
	Marked int
	// Own is the CPU time that the generating thread used.
	Own time.Duration
}

// Errors counts what failed.
func (r *Result) Errors() int {
	n := 0
	for _, k := range r.Failed {
		n += k
	}
	return n
}

// PerSecond is the rate of answers.
func (r *Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Answered) / r.Elapsed.Seconds()
}

// lateShare is the part of a measured latency that the generator may be late by.
const lateShare = 5

// Void says whether the generator was too late for the latencies at quantile q to
// mean anything: by more than a fifth of them.
func (r *Result) Void(q float64) bool {
	return len(r.Late) > 0 && stats.Quantile(r.Late, q) > stats.Quantile(r.Latency, q)/lateShare
}

// Faults lists what failed and how often, most frequent first, "" if nothing did.
func (r *Result) Faults() string {
	kinds := slices.SortedFunc(maps.Keys(r.Failed), func(a, b error) int {
		if d := r.Failed[b] - r.Failed[a]; d != 0 {
			return d
		}
		return strings.Compare(a.Error(), b.Error())
	})
	var text []string
	for _, kind := range kinds {
		text = append(text, fmt.Sprintf("%d × %v", r.Failed[kind], kind))
	}
	return strings.Join(text, ", ")
}

func (r *Result) fail(kind error) {
	if r.Failed == nil {
		r.Failed = make(map[error]int)
	}
	r.Failed[kind]++
}

func (r *Result) sort() {
	slices.Sort(r.Latency)
	slices.Sort(r.FirstByte)
	slices.Sort(r.Late)
}
