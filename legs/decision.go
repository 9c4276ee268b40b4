package legs

import (
	"fmt"
	"hash/maphash"
	"time"

	"smg/policy"
	"smg/worker"
)

// Decision is one selection as it is shown: no prompt, and of keys only hashes.
type Decision struct {
	Time        time.Time `json:"time"`
	Leg         string    `json:"leg"`
	Incarnation uint64    `json:"incarnation,string"` // of the ingress: a number that is too long for many readers
	Plan        uint64    `json:"plan"`
	Item        uint16    `json:"item,omitempty"` // of several media
	Model       string    `json:"model"`          // canonical, or as asked where nobody serves it; "" if none was named
	Policy      string    `json:"policy,omitempty"`
	Branch      string    `json:"branch,omitempty"`
	Worker      *Seen     `json:"worker,omitempty"` // nil if none was chosen
	Probe       bool      `json:"probe,omitempty"`
	Credited    int64     `json:"credited_tokens,omitempty"`
	Candidates  int       `json:"candidates"`         // workers that could be chosen
	Compared    int       `json:"compared,omitempty"` // workers that had a score
	Others      []Seen    `json:"others,omitempty"`   // the next best of them
	Key         string    `json:"key,omitempty"`      // hash of the routing key, of use within this leg until it starts again
	Tokens      int64     `json:"tokens,omitempty"`   // of the prompt, if they are known
	Chars       int64     `json:"chars,omitempty"`    // of the prompt, if they are read
	Skipped     int       `json:"skipped,omitempty"`  // workers that were tried before
	Error       string    `json:"error,omitempty"`
}

// Seen is what was known of a worker when it was chosen, or was not.
type Seen struct {
	URL      string   `json:"url"`
	ID       string   `json:"id"`
	Score    *float64 `json:"score,omitempty"` // expected wait in seconds, nil if scores were not compared
	InFlight int      `json:"in_flight"`       // before this selection
	Credit   int64    `json:"credit_tokens"`   // sent to it since its report
	Report   *Report  `json:"report,omitempty"`
}

// Report is what a worker had said of its load.
type Report struct {
	AgeMS      float64 `json:"age_ms"`
	Waiting    int64   `json:"waiting"`
	Queued     int64   `json:"queued_tokens"` // -1 if the engine does not count them
	Throughput float64 `json:"throughput"`
	KVUsage    float64 `json:"kv_usage"`
}

// DecisionFilter says which decisions are wanted. Empty fields want all.
type DecisionFilter struct {
	Worker string // URL or id of the one that was chosen
	Model  string
	Limit  int // at most so many, at least 1
}

// Decisions are the last decisions that pass the filter, the newest first.
func (s *Service) Decisions(f DecisionFilter) []Decision {
	all := []Decision{}
	s.decisions.backwards(func(d *decision) bool {
		if d.passes(&f) {
			all = append(all, d.shown(s.cfg.Leg, s.keySeed))
		}
		return len(all) < f.Limit
	})
	return all
}

// passes says whether a filter lets the decision through.
func (d *decision) passes(f *DecisionFilter) bool {
	if f.Worker != "" && (d.worker == nil || d.worker.URL != f.Worker && d.worker.ID.String() != f.Worker) {
		return false
	}
	return f.Model == "" || f.Model == d.model
}

// shown is the decision in words. The seed keeps guessed keys from being found by
// their hashes.
func (d *decision) shown(leg worker.Leg, seed maphash.Seed) Decision {
	out := Decision{
		Time: d.at, Leg: leg.String(), Incarnation: d.lease.Incarnation, Plan: d.lease.Plan, Item: d.lease.Item,
		Model: d.model, Policy: d.policy, Branch: d.branch, Probe: d.probe, Credited: d.credited,
		Candidates: d.candidates, Compared: d.compared, Tokens: d.tokens, Chars: d.chars, Skipped: d.skipped,
	}
	if d.key != 0 {
		out.Key = fmt.Sprintf("%016x", maphash.Comparable(seed, d.key))
	}
	if d.err != nil {
		out.Error = d.err.Error()
	}
	if d.worker != nil {
		out.Worker = d.seen(&policy.Contender{Worker: d.worker, Score: d.score, Active: d.active, Credit: d.credit, Report: d.report})
	}
	for i := range d.listed {
		if c := &d.best[i]; c.Worker != d.worker && len(out.Others) < len(d.best)-1 {
			out.Others = append(out.Others, *d.seen(c))
		}
	}
	return out
}

func (d *decision) seen(c *policy.Contender) *Seen {
	s := &Seen{URL: c.Worker.URL, ID: c.Worker.ID.String(), InFlight: c.Active, Credit: c.Credit}
	if d.compared > 0 {
		s.Score = &c.Score
	}
	if r := c.Report; r != nil {
		s.Report = &Report{
			AgeMS: float64(d.at.Sub(r.PolledAt).Microseconds()) / 1000, Waiting: r.Waiting, Queued: r.Queued,
			Throughput: r.Throughput, KVUsage: r.KVUsage,
		}
	}
	return s
}
