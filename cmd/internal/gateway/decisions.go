package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"smg/cmd/internal/decisions"
	"smg/legs"
)

// decisions are those of the selectors among the children.
func (f *family) decisions() []decisions.Source {
	all := make([]decisions.Source, len(f.selectors))
	for i, c := range f.selectors {
		all[i] = childDecisions{c, f.client}
	}
	return all
}

// childDecisions are what a child shows on its own page.
type childDecisions struct {
	*child
	client *http.Client
}

// Decisions implements [decisions.Source].
func (c childDecisions) Decisions(ctx context.Context, filter legs.DecisionFilter) ([]legs.Decision, error) {
	var answer decisions.Answer
	err := fetch(ctx, c.client, c.page+decisions.Path+"?"+decisions.Query(filter), func(resp *http.Response) error {
		return json.NewDecoder(resp.Body).Decode(&answer)
	})
	return answer.Decisions, err
}
