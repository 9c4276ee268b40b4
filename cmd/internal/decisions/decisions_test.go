package decisions

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/legs"
)

// fake is a selector whose decisions are those of some seconds.
type fake struct {
	name    string
	seconds []int64
	err     error
	asked   *legs.DecisionFilter
}

func (f fake) Name() string { return f.name }

func (f fake) Decisions(_ context.Context, filter legs.DecisionFilter) ([]legs.Decision, error) {
	if f.asked != nil {
		*f.asked = filter
	}
	var all []legs.Decision
	for _, s := range f.seconds {
		if len(all) < filter.Limit {
			all = append(all, legs.Decision{Time: time.Unix(s, 0), Leg: f.name})
		}
	}
	return all, f.err
}

func TestHandler(t *testing.T) {
	tests := []struct {
		name    string
		query   string
		sources []Source
		seconds []int64
		missing []string
		filter  legs.DecisionFilter // that the first source is asked
		status  int
	}{
		{name: "newest first", sources: []Source{fake{name: "prefill", seconds: []int64{9, 4, 1}}, fake{name: "decode", seconds: []int64{8, 5}}}, seconds: []int64{9, 8, 5, 4, 1}},
		{name: "limit of all", query: "?limit=3", sources: []Source{fake{name: "prefill", seconds: []int64{9, 4, 1}}, fake{name: "decode", seconds: []int64{8, 5}}}, seconds: []int64{9, 8, 5}, filter: legs.DecisionFilter{Limit: 3}},
		{name: "filters", query: "?worker=http%3A%2F%2Fa%3A1&model=m%26n", sources: []Source{fake{}}, seconds: []int64{}, filter: legs.DecisionFilter{Worker: "http://a:1", Model: "m&n", Limit: 100}},
		{name: "one that fails", sources: []Source{fake{name: "prefill", err: errors.New("gone")}, fake{name: "decode", seconds: []int64{8}}}, seconds: []int64{8}, missing: []string{"prefill"}},
		{name: "no number", query: "?limit=many", status: http.StatusBadRequest},
		{name: "nothing", query: "?limit=0", status: http.StatusBadRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked legs.DecisionFilter
			for i, s := range tt.sources[:min(1, len(tt.sources))] {
				f := s.(fake)
				f.asked = &asked
				tt.sources[i] = f
			}
			w := httptest.NewRecorder()
			Handler(tt.sources, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path+tt.query, nil))
			if want := max(tt.status, http.StatusOK); w.Code != want {
				t.Fatalf("status %d, want %d", w.Code, want)
			}
			if tt.status != 0 {
				return
			}
			var a Answer
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			got := []int64{}
			for _, d := range a.Decisions {
				got = append(got, d.Time.Unix())
			}
			if diff := cmp.Diff(tt.seconds, got); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
			if !slices.Equal(tt.missing, a.Missing) {
				t.Errorf("missing %v, want %v", a.Missing, tt.missing)
			}
			if tt.filter.Limit > 0 && asked != tt.filter {
				t.Errorf("asked for %+v, want %+v", asked, tt.filter)
			}
		})
	}
}

// What a parent asks its children is what it was asked itself.
func TestQuery(t *testing.T) {
	for _, want := range []legs.DecisionFilter{{Limit: 1}, {Worker: "http://a:1/?x=1&y", Model: "a/b c", Limit: 2000}} {
		q, err := url.ParseQuery(Query(want))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := filterOf(q); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}
