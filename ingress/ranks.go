package ingress

import (
	"slices"
	"strconv"

	"smg/engine"
	"smg/ingress/body"
	"smg/worker"
)

// Where engines are told which of their data-parallel ranks is to serve a request.
const (
	fieldRank        = "data_parallel_rank"
	fieldRoutedRank  = "routed_dp_rank"         // of the engine that gets the body
	fieldPrefillRank = "disagg_prefill_dp_rank" // decode is told of prefill's
	rankHeader       = "X-Data-Parallel-Rank"   // vLLM
)

// rank is a data-parallel rank, if one is known.
type rank struct {
	number int
	known  bool
}

// rankOf is the rank that is to serve a call: the one that was picked, or the one that
// has least to do.
func (x *exchange) rankOf(c *call) rank {
	w := c.pick.Worker
	if x.srv.ranks != nil && (c.leg() == worker.Prefill || c.leg() == worker.Decode) {
		if r, ok := x.srv.ranks.choose(x.srv.fleet.Lookup(w.ID), x.cost()); ok {
			return rank{r, true}
		}
	}
	return rank{w.DPRank, w.DPSize > 0}
}

// set is the edit that tells an engine of the rank, appended to edits.
func (r rank) set(edits []body.Edit, field string) []body.Edit {
	if !r.known {
		return edits
	}
	return append(edits, body.Set(field, strconv.AppendInt(nil, int64(r.number), 10)))
}

// header is fields with the rank in vLLM's form. They are copied if there is one.
func (r rank) header(fields []engine.Field) []engine.Field {
	if !r.known {
		return fields
	}
	return append(slices.Clip(fields), engine.Field{Name: rankHeader, Value: strconv.Itoa(r.number)})
}
