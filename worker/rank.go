package worker

import (
	"strconv"
	"strings"
)

// maxRanks bounds the data-parallel ranks of one engine.
const maxRanks = 1 << 16

// SplitRank splits a worker URL such as http://host:8000@3 into the engine's own URL and
// the data-parallel rank. ok is false where there is no rank: what is behind the last @
// is not a number.
func SplitRank(url string) (base string, rank int, ok bool) {
	at := strings.LastIndexByte(url, '@')
	if at < 0 || at+1 == len(url) || strings.Trim(url[at+1:], "0123456789") != "" {
		return url, 0, false
	}
	n, err := strconv.Atoi(url[at+1:])
	if err != nil || n >= maxRanks {
		return url, 0, false
	}
	return url[:at], n, true
}

// Ranked is the worker that is one of size data-parallel ranks of the engine s.
func (s *Spec) Ranked(rank, size int) *Spec {
	c := s.Clone()
	c.BaseURL, c.DPRank, c.DPSize = s.Base(), rank, size
	c.URL = c.BaseURL + "@" + strconv.Itoa(rank)
	c.ID = IDOf(c.URL)
	return c
}
