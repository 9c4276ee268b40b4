package legs

import (
	"time"

	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// Recorder is told what a service is asked and chooses, and what it hears. It is safe
// for concurrent use, never waits, and keeps nothing that it is given.
type Recorder interface {
	// Selected tells of an ask, by the canonical id of its model where it is known,
	// and of the answer: a pick, or why there is none.
	Selected(ask *wire.Select, model string, pick *wire.Pick, err error, now time.Time)
	// Leases tells of a batch of a lease stream.
	Leases(b *worker.Batch, now time.Time)
	// Fleet tells, a few times a second, who the workers are and how they do. The
	// slice and what it holds are not modified.
	Fleet(all []*worker.Worker, now time.Time)
}

// recorded is what a recorder wants to see of requests, whatever the policies read:
// the length of a prompt and how it begins, so that any policy can be tried on it. It
// asks for no key, since keys decide which replica is asked.
const recorded = policy.ReadsSize | policy.ReadsTokens | policy.ReadsText | policy.NeedsText

// reads is what ingresses are to send.
func (s *Service) reads() policy.Inputs {
	in := s.book.Reads()
	if s.recorder != nil {
		in |= recorded
	}
	return in
}

// hide takes out of req what an ingress has sent for the recorder alone: that
// something is recorded changes no choice.
func (s *Service) hide(req *policy.Request) {
	if s.recorder == nil {
		return
	}
	in := s.book.Reads()
	if !in.Has(policy.ReadsText) {
		req.Text = ""
	}
	if !in.Has(policy.ReadsTokens) {
		req.TokenIDs = nil
	}
	if in&(policy.ReadsText|policy.ReadsSize) == policy.ReadsNothing {
		req.Chars = 0
	}
	if in&(policy.ReadsText|policy.ReadsTokens) == policy.ReadsNothing {
		req.Namespace = 0
	}
}
