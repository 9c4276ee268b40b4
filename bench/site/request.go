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

// Forms of prompts.
const (
	text   = "text"
	tokens = "tokens"
)

// bodies renders the requests of a trace: prompts in the given form, answers of
// exactly the trace's length, streamed, with the engine's count of cached tokens at
// the end. The engines make of a prompt's text as many tokens as the trace has.
func bodies(trace []mooncake.Line, form string) [][]byte {
	all := make([][]byte, len(trace))
	var ids []uint32
	for i := range trace {
		l := &trace[i]
		const each = 6 // characters of a token, about
		b := make([]byte, 0, each*l.Input+200)
		b = append(b, `{"model":"`+model+`","prompt":`...)
		if form == text {
			b = append(b, '"')
			b = l.Text(b, mooncake.CharsPerToken*l.Input)
			b[len(b)-1] = '"' // in place of the last blank, which would be a token by itself
		} else {
			ids = l.Tokens(ids[:0])
			for j, id := range ids {
				b = append(b, "[,"[min(j, 1)])
				b = strconv.AppendUint(b, uint64(id), 10)
			}
			b = append(b, ']')
		}
		all[i] = fmt.Appendf(b, `,"max_tokens":%d,"ignore_eos":true,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`, l.Output)
	}
	return all
}

// shot is a request that is sent at its moment.
type shot struct {
	at     time.Duration // since the begin, in real time
	url    string
	body   []byte
	prompt int // tokens that the engine must count
	output int // tokens that the answer must have
}

// shots are the requests of the work, of which each goes to a target by chance. The
// same seed gives the same.
func (w *work) shots(o *options, targets []string, seed uint64) []shot {
	rng := rand.New(rand.NewPCG(seed, 2))
	all := make([]shot, len(w.Requests))
	for i, r := range w.Requests {
		all[i] = shot{at: o.real(r.At), url: targets[rng.IntN(len(targets))], body: w.bodies[i], prompt: r.Prompt, output: r.Output}
	}
	return all
}
