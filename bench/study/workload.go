package main

import (
	"path/filepath"
	"strings"
	"time"

	"smg/bench/study/mooncake"
	"smg/sim"
	"smg/study"
)

// workload is the trace as it arrives.
func workload(o *options, lines []mooncake.Line) *study.Workload {
	w := &study.Workload{Name: strings.TrimSuffix(filepath.Base(o.trace), ".jsonl"), BlockSize: mooncake.BlockSize, Requests: make([]study.Request, len(lines))}
	for i := range lines {
		l := &lines[i]
		r := study.Request{At: l.At(), Prompt: l.Input, Output: l.Output, Blocks: make([]sim.BlockHash, len(l.Full()))}
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
func spread(requests []study.Request) {
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
