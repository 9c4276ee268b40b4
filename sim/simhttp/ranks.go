package simhttp

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Ranks are the data-parallel ranks of an engine. The scheduler behind them is one, so
// they share its room; what they do not share is who meets whom.
type Ranks struct {
	Size int // 0 is 1
	// Method is how an SGLang prefill engine finds the rank of a request that names none.
	Method LoadBalance
}

// LoadBalance is a load balance method of SGLang.
type LoadBalance string

// The methods. A decode engine takes the room for what tells prefill's rank, unless the
// request says it.
const (
	FollowRoom LoadBalance = "follow_bootstrap_room"
	RoundRobin LoadBalance = "round_robin"
)

const maxRanks = 256

func (r Ranks) size() int { return max(1, r.Size) }

func (r Ranks) validate() (faults []error) {
	if r.Size < 0 || r.Size > maxRanks {
		faults = append(faults, fmt.Errorf("--dp-size must be between 1 and %d, not %d", maxRanks, r.Size))
	}
	if !slices.Contains([]LoadBalance{"", FollowRoom, RoundRobin}, r.Method) {
		faults = append(faults, fmt.Errorf("--load-balance-method must be follow_bootstrap_room or round_robin, not %q", r.Method))
	}
	return faults
}

// rankFields are where SGLang is told a rank of its own, the newer one first.
var rankFields = [...]string{"routed_dp_rank", "data_parallel_rank"}

// readRank checks the rank that a request names, as the engine does.
func (s *Server) readRank(f *fields, h http.Header) {
	size := s.cfg.Ranks.size()
	if s.cfg.Kind == VLLM {
		n, err := strconv.Atoi(h.Get("X-Data-Parallel-Rank"))
		if err == nil && (n < 0 || n >= size) { // what is no number is passed over
			f.fail("data_parallel_rank", "data_parallel_rank %d is out of range [0, %d).", n, size)
		}
		return
	}
	for _, name := range rankFields {
		if n := read[*int](f, name); n != nil && (*n < 0 || *n >= size) {
			f.fail(name, "%s=%d is out of range [0, %d).", name, *n, size)
		}
	}
}

// prefillRank is the rank of a prefill engine that holds the KV of a request in a room;
// -1 leaves it to that engine.
func (s *Server) prefillRank(f *fields, room int64) int {
	if s.cfg.Disagg.Mode == Decode {
		if n := read[*int](f, "disagg_prefill_dp_rank"); n != nil {
			return *n
		}
		return -1
	}
	for _, name := range rankFields {
		if n := read[*int](f, name); n != nil {
			return *n
		}
	}
	if s.cfg.Ranks.Method == RoundRobin {
		return int(s.nextRank.Add(1)-1) % s.cfg.Ranks.size()
	}
	return s.rankOfRoom(room)
}

func (s *Server) rankOfRoom(room int64) int { return int(room % int64(s.cfg.Ranks.size())) }

// share is what rank i of an engine has of n that its ranks have together.
func (s *Server) share(n, i int) int {
	size := s.cfg.Ranks.size()
	part := n / size
	if i < n%size {
		part++
	}
	return part
}
