package ingress

import (
	"maps"
	"math"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"smg/worker"
)

// minRanks chooses the data-parallel rank of an engine that has the fewest tokens: those
// of its last report, and those of the requests that were sent here since. Ingresses do
// not know of each other's, so between two reports each one balances its own. It is safe
// for concurrent use.
type minRanks struct {
	mu   sync.Mutex
	used map[string]*rankUse // by the engine's URL
}

type rankUse struct {
	polled time.Time
	ranks  []worker.RankUse
}

// maxRankEngines bounds of how many engines ranks are remembered: a report brings those
// back that are needed.
const maxRankEngines = 1 << 14

func newMinRanks() *minRanks { return &minRanks{used: map[string]*rankUse{}} }

// choose picks a rank of the engine of w, which may be nil, and adds what the request
// costs. ok is false while the engine does not tell what its ranks use.
func (m *minRanks) choose(w *worker.Worker, cost int64) (number int, ok bool) {
	if w == nil || w.Record.Report == nil || len(w.Record.Report.Ranks) == 0 {
		return 0, false
	}
	rep := w.Record.Report
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.used[w.Spec.Base()]
	if u == nil || rep.PolledAt.After(u.polled) {
		if u == nil && len(m.used) >= maxRankEngines {
			clear(m.used)
		}
		u = &rankUse{polled: rep.PolledAt, ranks: append([]worker.RankUse(nil), rep.Ranks...)}
		m.used[w.Spec.Base()] = u
	}
	best := &u.ranks[0]
	for i := range u.ranks {
		if r := &u.ranks[i]; r.Used < best.Used || r.Used == best.Used && r.Rank < best.Rank {
			best = r
		}
	}
	best.Used += cost
	return best.Rank, true
}

// prune drops the ranks of the engines that are gone.
func (m *minRanks) prune(gone func(url string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.used, func(url string, _ *rankUse) bool { return gone(url) })
}

// cost is what the request adds to a rank, in tokens.
func (x *exchange) cost() int64 {
	in := &x.query.inputs
	if in.count > 0 {
		return in.count
	}
	return max(1, int64(math.Ceil(float64(words(in.text))*1.3)))
}

// words counts what white space parts.
func words(text string) (n int64) {
	in := false
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		i += size
		space := unicode.IsSpace(c)
		if !space && !in {
			n++
		}
		in = !space
	}
	return n
}
