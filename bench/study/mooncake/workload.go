package mooncake

import (
	"path/filepath"
	"strings"
	"time"

	"smg/sim"
	"smg/study"
)

// Workload is the trace of a file as it arrives: rate times as fast as in the trace.
// If even is set, requests of the same moment arrive evenly until the next moment,
// instead of together; those of the last moment stay together.
func Workload(path string, lines []Line, rate float64, even bool) *study.Workload {
	w := &study.Workload{Name: strings.TrimSuffix(filepath.Base(path), ".jsonl"), BlockSize: BlockSize, Requests: make([]study.Request, len(lines))}
	for i := range lines {
		l := &lines[i]
		r := study.Request{At: l.At(), Prompt: l.Input, Output: l.Output, Blocks: make([]sim.BlockHash, len(l.Full()))}
		for j, id := range l.Full() {
			r.Blocks[j] = sim.BlockHash(id)
		}
		w.Requests[i] = r
	}
	if even {
		spread(w.Requests)
		w.Name += ", spread"
	}
	for i := range w.Requests {
		w.Requests[i].At = time.Duration(float64(w.Requests[i].At) / rate)
	}
	return w
}

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
