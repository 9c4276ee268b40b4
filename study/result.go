package study

import (
	"time"

	"smg/sim"
)

// Outcome is what became of one request.
type Outcome struct {
	Worker  int           // who got it, -1 for nobody
	TTFT    time.Duration // from arrival to the first token
	Latency time.Duration // from arrival to the last one
	Cached  int           // tokens of the prompt that were in the engine's cache
	Err     error         // why it has no answer
}

// Result is what became of a run, request by request.
type Result struct {
	Name     string
	Engine   sim.Config
	Workers  int
	Outcomes []Outcome
}
