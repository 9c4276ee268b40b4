// Package decisions shows what selectors decided lately, and why: GET
// /debug/decisions on the port of metrics. Those of several legs, or of child
// processes, become one list.
package decisions

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"smg/legs"
)

// Path is where decisions are shown.
const Path = "/debug/decisions"

// Source is a selector, here or elsewhere. It is safe for concurrent use.
type Source interface {
	// Name is what the selector is called in answers and log lines.
	Name() string
	// Decisions are the selector's, the newest first.
	Decisions(ctx context.Context, f legs.DecisionFilter) ([]legs.Decision, error)
}

// Of is the source of a selector in this process.
func Of(s *legs.Service) Source { return local{s} }

type local struct{ s *legs.Service }

func (l local) Name() string { return l.s.Leg().String() + " selector" }

func (l local) Decisions(_ context.Context, f legs.DecisionFilter) ([]legs.Decision, error) {
	return l.s.Decisions(f), nil
}

// Answer is the page.
type Answer struct {
	Decisions []legs.Decision `json:"decisions"`         // the newest first
	Missing   []string        `json:"missing,omitempty"` // selectors that did not tell theirs
}

// defaultLimit is how many decisions are shown to those who do not say.
const defaultLimit = 100

// filterOf reads ?limit=, ?worker= and ?model=.
func filterOf(q url.Values) (f legs.DecisionFilter, err error) {
	f = legs.DecisionFilter{Worker: q.Get("worker"), Model: q.Get("model"), Limit: defaultLimit}
	if limit := q.Get("limit"); limit != "" {
		if f.Limit, err = strconv.Atoi(limit); err != nil || f.Limit < 1 {
			return f, fmt.Errorf("limit=%q is no number from 1 on", limit)
		}
	}
	return f, nil
}

// Query is the filter in the words of the page's address.
func Query(f legs.DecisionFilter) string {
	q := url.Values{"limit": {strconv.Itoa(f.Limit)}}
	if f.Worker != "" {
		q.Set("worker", f.Worker)
	}
	if f.Model != "" {
		q.Set("model", f.Model)
	}
	return q.Encode()
}

// patience is how long a source may take.
const patience = time.Second

// Handler shows what all sources together decided.
func Handler(sources []Source, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := filterOf(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(gather(r.Context(), sources, f, log)); err != nil {
			log.Debug("decisions could not be shown", slog.Any("error", err)) // who asked has left
		}
	})
}

// gather asks all sources at the same time.
func gather(ctx context.Context, sources []Source, f legs.DecisionFilter, log *slog.Logger) Answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, errs := make([][]legs.Decision, len(sources)), make([]error, len(sources))
	var wg sync.WaitGroup
	for i, s := range sources {
		wg.Go(func() { found[i], errs[i] = s.Decisions(ctx, f) })
	}
	wg.Wait()
	a := Answer{Decisions: []legs.Decision{}}
	for i, s := range sources {
		if errs[i] != nil {
			log.Warn("decisions of a selector are missing", slog.String("service", s.Name()), slog.Any("error", errs[i]))
			a.Missing = append(a.Missing, s.Name())
		}
		a.Decisions = append(a.Decisions, found[i]...)
	}
	slices.SortStableFunc(a.Decisions, func(x, y legs.Decision) int { return y.Time.Compare(x.Time) })
	a.Decisions = a.Decisions[:min(len(a.Decisions), f.Limit)]
	return a
}
