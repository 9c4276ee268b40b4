package study

import (
	"errors"
	"fmt"
	"time"

	"smg/sim"
)

// Request is one arrival, as an engine sees it.
type Request struct {
	At     time.Duration // since the begin
	Prompt int           // tokens, at least 1
	Output int           // tokens
	// Blocks are the hashes of the full blocks of the prompt, in order. Equal hashes
	// are equal prefixes.
	Blocks []sim.BlockHash
}

// Workload is what arrives. It is not modified once it runs.
type Workload struct {
	Name      string
	BlockSize int       // tokens of a block
	Requests  []Request // in the order of At
}

// Validate says what of the workload cannot run on engines like cfg.
func (w *Workload) Validate(cfg sim.Config) error {
	var errs []error
	if len(w.Requests) == 0 {
		errs = append(errs, errors.New("there are no requests"))
	}
	if w.BlockSize != cfg.BlockSize {
		errs = append(errs, fmt.Errorf("the engines have blocks of %d tokens, the workload has blocks of %d", cfg.BlockSize, w.BlockSize))
	}
	last := time.Duration(0)
	for i, r := range w.Requests {
		if r.At < last {
			errs = append(errs, fmt.Errorf("request %d comes at %v, after one at %v", i, r.At, last))
			break
		}
		last = r.At
	}
	return errors.Join(errs...)
}

// Length is the time from the begin to the last arrival.
func (w *Workload) Length() time.Duration {
	if len(w.Requests) == 0 {
		return 0
	}
	return w.Requests[len(w.Requests)-1].At
}

// Blocks is the number of blocks of all prompts, begun ones included.
func (w *Workload) Blocks() int {
	n := 0
	for _, r := range w.Requests {
		n += (r.Prompt + w.BlockSize - 1) / w.BlockSize
	}
	return n
}

// IdealHits is how many of the blocks one endless cache would have held, to which
// every prompt is added the moment it arrives. Like the engines it never counts the
// block with a prompt's last token.
func (w *Workload) IdealHits() int {
	seen, hits := map[sim.BlockHash]bool{}, 0
	for _, r := range w.Requests {
		for _, h := range r.Blocks[:min(len(r.Blocks), (r.Prompt-1)/w.BlockSize)] {
			if !seen[h] {
				break
			}
			hits++
		}
		for _, h := range r.Blocks {
			seen[h] = true
		}
	}
	return hits
}
