package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"smg/bench/study/mooncake"
	"smg/bench/study/vt"
	"smg/policy"
	"smg/sim"
	"smg/worker"
)

// contenders are the lines of the table: every policy that is built, with the inputs
// that it reads, and the references.
func contenders(lines []mooncake.Line) []vt.Contender {
	told := &prompts{lines: lines, common: mooncake.Common(lines)}
	all := []vt.Contender{vt.Greedy(), vt.LeastRequests()}
	for _, name := range policy.BuiltNames() {
		all = append(all, vt.Contender{Name: name, Inputs: told.inputs, New: built(name)})
	}
	return all
}

// built makes a policy with the settings that the flags have by default.
func built(name string) func(*vt.Fleet, policy.Deps) (policy.Policy, error) {
	return func(_ *vt.Fleet, deps policy.Deps) (policy.Policy, error) {
		return policy.New(name, policy.Config{Policy: name}, deps)
	}
}

// choose keeps the contenders whose names contain text.
func choose(all []vt.Contender, text string) ([]vt.Contender, error) {
	var chosen []vt.Contender
	for _, c := range all {
		if strings.Contains(c.Name, text) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-only %q: no line is called that", text)
	}
	return chosen, nil
}

// prompts is what an ingress would tell of a trace's requests.
type prompts struct {
	lines  []mooncake.Line
	common int
}

// inputs writes what a policy may read of request i.
func (p *prompts) inputs(i int, req *policy.Request) {
	l := &p.lines[i]
	req.Keys.Header = worker.HashKey(strconv.FormatUint(l.Conversation(p.common), 10))
}

// workload is the trace as it arrives.
func workload(o *options, lines []mooncake.Line) *vt.Workload {
	w := &vt.Workload{Name: strings.TrimSuffix(filepath.Base(o.trace), ".jsonl"), BlockSize: mooncake.BlockSize, Requests: make([]vt.Request, len(lines))}
	for i := range lines {
		l := &lines[i]
		r := vt.Request{At: l.At(), Prompt: l.Input, Output: l.Output, Blocks: make([]sim.BlockHash, len(l.Full()))}
		for j, id := range l.Full() {
			r.Blocks[j] = sim.BlockHash(id)
		}
		w.Requests[i] = r
	}
	if o.spread {
		spread(w.Requests)
		w.Name += ", spread"
	}
	for i := range w.Requests {
		w.Requests[i].At = time.Duration(float64(w.Requests[i].At) / o.rate)
	}
	return w
}

// spread lets requests of the same moment arrive evenly until the next moment. Those
// of the last moment stay together.
func spread(requests []vt.Request) {
	for begin := 0; begin < len(requests); {
		end := begin
		for end < len(requests) && requests[end].At == requests[begin].At {
			end++
		}
		if end == len(requests) {
			return
		}
		gap := requests[end].At - requests[begin].At
		for i := begin; i < end; i++ {
			requests[i].At += gap * time.Duration(i-begin) / time.Duration(end-begin)
		}
		begin = end
	}
}
