package tokenizer

import (
	"fmt"
	"slices"
)

// What a request may ask to stop at.
const (
	maxStops     = 1024
	maxStopBytes = 64 << 10 // of all stop strings together
)

// Stopper finds stop strings in text that comes in parts. The string that is
// complete first stops the text, whatever the parts are; of several that end at
// the same place, the longest. It holds back what may still become a stop string,
// and no more. The zero value stops nowhere. A Stopper is for one goroutine.
type Stopper struct {
	stops   []string
	include bool
	nodes   []stopNode
	at      int
	held    string // always what leads to node at
	hit     int    // index of the stop string + 1
}

// stopNode is a beginning of stop strings.
type stopNode struct {
	next  map[byte]int
	fail  int // the longest other beginning that ends here
	depth int
	stop  int // index of the longest stop string that ends here + 1
}

// NewStopper finds any of stops. With include the stop string is part of the text.
func NewStopper(stops []string, include bool) (*Stopper, error) {
	s := &Stopper{stops: append([]string(nil), stops...), include: include}
	total := 0
	for i, stop := range stops {
		if stop == "" {
			return nil, fmt.Errorf("stop string %d is empty", i)
		}
		total += len(stop)
	}
	if len(stops) > maxStops || total > maxStopBytes {
		return nil, fmt.Errorf("%d stop strings of %d bytes are more than %d of %d", len(stops), total, maxStops, maxStopBytes)
	}
	if len(stops) > 0 {
		s.build()
	}
	return s, nil
}

func (s *Stopper) build() {
	s.nodes = []stopNode{{}}
	for i, stop := range s.stops {
		at := 0
		for j := range len(stop) {
			to, ok := s.nodes[at].next[stop[j]]
			if !ok {
				to = len(s.nodes)
				if s.nodes[at].next == nil {
					s.nodes[at].next = map[byte]int{}
				}
				s.nodes[at].next[stop[j]] = to
				s.nodes = append(s.nodes, stopNode{depth: j + 1})
			}
			at = to
		}
		if s.nodes[at].stop == 0 {
			s.nodes[at].stop = i + 1
		}
	}
	queue := []int{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c, to := range s.nodes[at].next {
			queue = append(queue, to)
			if at > 0 {
				s.nodes[to].fail = s.step(s.nodes[at].fail, c)
			}
			if n := &s.nodes[to]; n.stop == 0 {
				n.stop = s.nodes[n.fail].stop
			}
		}
	}
}

// step is the longest beginning of a stop string that ends with c behind at.
func (s *Stopper) step(at int, c byte) int {
	for {
		if to, ok := s.nodes[at].next[c]; ok {
			return to
		}
		if at == 0 {
			return 0
		}
		at = s.nodes[at].fail
	}
}

// Push takes more text and returns what is certain, and whether the text is over.
func (s *Stopper) Push(part string) (text string, stopped bool) {
	if s.hit > 0 {
		return "", true
	}
	if s.nodes == nil {
		return part, false
	}
	whole := s.held + part
	for i := len(s.held); i < len(whole); i++ {
		s.at = s.step(s.at, whole[i])
		if stop := s.nodes[s.at].stop; stop > 0 {
			s.hit, s.held = stop, ""
			end := i + 1
			if !s.include {
				end -= len(s.stops[stop-1])
			}
			return whole[:end], true
		}
	}
	certain := len(whole) - s.nodes[s.at].depth
	s.held = whole[certain:]
	return whole[:certain], false
}

// End is the text that was held back, when no more comes.
func (s *Stopper) End() string {
	held := s.held
	s.held, s.at = "", 0
	return held
}

// Matched is the stop string that was found, if one was.
func (s *Stopper) Matched() (string, bool) {
	if s.hit == 0 {
		return "", false
	}
	return s.stops[s.hit-1], true
}

// Output says how the ids of an answer become text.
type Output struct {
	SkipSpecial bool     // special tokens give no text
	Stops       []string // the text ends before the first of them
	StopIDs     []uint32 // so it does before these tokens
	IncludeStop bool     // ... or behind them
}

// Answer makes text of the ids of one answer as they come. It is for one goroutine.
type Answer struct {
	stream  *Stream
	stopper *Stopper
	out     Output
	tokens  int
	id      uint32
	byID    bool
	over    bool
}

// Answer begins an answer. The error is about stop strings.
func (t *Tokenizer) Answer(out Output) (*Answer, error) {
	stopper, err := NewStopper(out.Stops, out.IncludeStop)
	if err != nil {
		return nil, err
	}
	return &Answer{stream: t.Stream(out.SkipSpecial), stopper: stopper, out: out}, nil
}

// Push takes the next ids and returns the text that is certain, and whether a stop
// ended the answer. Ids behind the stop are not looked at: Tokens tells how many were.
func (a *Answer) Push(ids ...uint32) (text string, stopped bool) {
	for _, id := range ids {
		if a.over {
			break
		}
		a.tokens++
		if slices.Contains(a.out.StopIDs, id) {
			a.id, a.byID, a.over = id, true, true
			last := ""
			if a.out.IncludeStop {
				last = a.stream.Push(id)
			}
			more, _ := a.stopper.Push(last + a.stream.End())
			return text + more + a.stopper.End(), true
		}
		more, hit := a.stopper.Push(a.stream.Push(id))
		text += more
		a.over = hit
	}
	return text, a.over
}

// End is the text that waited, when the engine says that the answer is over.
func (a *Answer) End() string {
	if a.over {
		return ""
	}
	text, _ := a.stopper.Push(a.stream.End())
	a.over = true
	return text + a.stopper.End()
}

// Tokens is how many ids are part of the answer, the one that stopped it included.
func (a *Answer) Tokens() int { return a.tokens }

// Stopped is the stop string or the stop id that ended the answer; ok is false if
// neither did.
func (a *Answer) Stopped() (stop string, id uint32, byID, ok bool) {
	if a.byID {
		return "", a.id, true, true
	}
	stop, ok = a.stopper.Matched()
	return stop, 0, false, ok
}
