package ingress

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"smg/engine"
	"smg/worker"
)

// ranking makes a client's answer of the list that SGLang's engines rank documents with.
// It is a [rewriter].
type ranking struct {
	top      int  // of the results, below 0 for all
	bare     bool // without the documents
	id       json.RawMessage
	model    string
	now      func() int64 // Unix seconds
	unusable error        // why the last answer could not be read
}

// ranks notes what the body of a request for a ranking wants of its answer.
func (x *exchange) ranks(rt *route, raw []byte) {
	if rt.endpoint != "rerank" {
		return
	}
	var asked struct {
		Top       *int            `json:"top_k"`
		Documents *bool           `json:"return_documents"`
		RID       json.RawMessage `json:"rid"`
	}
	// What has another type is as good as absent: the engine refuses it.
	_ = json.Unmarshal(raw, &asked)
	r := &ranking{top: -1, id: asked.RID, model: x.query.model, now: func() int64 { return x.srv.now().Unix() }}
	if asked.Top != nil {
		r.top = *asked.Top
	}
	r.bare = asked.Documents != nil && !*asked.Documents
	if r.model == "" {
		r.model = "unknown"
	}
	x.ranking = r
}

// ranksAnswer has the answer to a request for a ranking made anew.
func (x *exchange) ranksAnswer(resp *engine.Response) {
	if x.ranking == nil {
		return
	}
	x.ranking.unusable, x.rewrite = nil, nil // of an attempt before
	if good(resp.Status) {
		x.rewrite = x.ranking
	}
}

// misranked is the problem of an answer that is no ranking.
func (x *exchange) misranked(c *call) error {
	if x.ranking == nil || x.ranking.unusable == nil {
		return nil
	}
	c.end(worker.Neutral, false)
	return gatewayProblem(http.StatusInternalServerError, "rerank_response_build_failed",
		"the answer of worker %s is no ranking: %v", c.pick.Worker.URL, x.ranking.unusable)
}

// ranked is one result as engines have it.
type ranked struct {
	Score    *json.Number    `json:"score"`
	Document json.RawMessage `json:"document,omitempty"`
	Index    *json.Number    `json:"index"`
	Meta     json.RawMessage `json:"meta_info,omitempty"`
}

var errNoResult = errors.New("a result has no score or no index")

// event implements [rewriter]: rankings are not streamed.
func (*ranking) event(dst, event []byte) []byte { return append(dst, event...) }

// whole implements [rewriter]. An object is what clients get already, as vLLM has it.
func (r *ranking) whole(answer []byte) []byte {
	if b := bytes.TrimLeft(answer, " \t\r\n"); len(b) > 0 && b[0] == '{' {
		var object struct {
			Results []json.RawMessage `json:"results"`
		}
		if r.unusable = json.Unmarshal(answer, &object); r.unusable == nil && object.Results == nil {
			r.unusable = errors.New("it has no results")
		}
		return answer
	}
	results := []ranked{}
	if r.unusable = json.Unmarshal(answer, &results); r.unusable != nil {
		return nil
	}
	if r.top >= 0 && r.top < len(results) {
		results = results[:r.top]
	}
	for i := range results {
		if results[i].Score == nil || results[i].Index == nil {
			r.unusable = errNoResult
			return nil
		}
		if r.bare {
			results[i].Document = nil
		}
	}
	if results == nil { // of null
		results = []ranked{}
	}
	b, err := json.Marshal(struct {
		Results []ranked        `json:"results"`
		Model   string          `json:"model"`
		Usage   *int            `json:"usage"`
		Object  string          `json:"object"`
		ID      json.RawMessage `json:"id"`
		Created int64           `json:"created"`
	}{results, r.model, nil, "rerank", r.id, r.now()})
	r.unusable = err
	return b
}
