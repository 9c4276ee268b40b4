package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"smg/bench/study/mooncake"
	"smg/study"
)

// work is the slice of the trace, as the study has it and as requests.
type work struct {
	*study.Workload
	lines  []mooncake.Line
	bodies [][]byte // of POST /v1/completions
}

// bodies renders the requests of a trace: prompts as token ids, answers of exactly
// the trace's length, streamed, with the engine's count of cached tokens at the end.
func bodies(trace []mooncake.Line) [][]byte {
	all := make([][]byte, len(trace))
	var ids []uint32
	for i := range trace {
		ids = trace[i].Tokens(ids[:0])
		const digits = 6 // of an id, with its comma
		b := make([]byte, 0, digits*len(ids)+200)
		b = append(b, `{"model":"`+model+`","prompt":[`...)
		for j, id := range ids {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendUint(b, uint64(id), 10)
		}
		all[i] = fmt.Appendf(b, `],"max_tokens":%d,"ignore_eos":true,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`, trace[i].Output)
	}
	return all
}

// shot is a request that is sent at its moment.
type shot struct {
	at     time.Duration // since the begin, in real time
	url    string
	body   []byte
	output int // tokens that the answer must have
}

// shots are the requests of the work, of which each goes to a target by chance. The
// same seed gives the same.
func (w *work) shots(o *options, targets []string, seed uint64) []shot {
	rng := rand.New(rand.NewPCG(seed, 2))
	all := make([]shot, len(w.Requests))
	for i, r := range w.Requests {
		all[i] = shot{at: o.real(r.At), url: targets[rng.IntN(len(targets))], body: w.bodies[i], output: r.Output}
	}
	return all
}
