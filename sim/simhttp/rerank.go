package simhttp

import (
	"net/http"

	"smg/sim/simtext"
)

// rerank answers SGLang's POST /v1/rerank: a score for each document, which costs the
// prefill of query and document.
func (s *Server) rerank(a *answer, r *http.Request, f *fields) {
	t := s.decodeOpenAI(f, "rerank-", r.Header.Get("X-Request-Id"))
	t.n, t.stream, t.echo = 1, false, false
	t.sampling = simtext.Sampling{}
	query, documents := read[string](f, "query"), read[[]string](f, "documents")
	if f.err == nil && (query == "" || len(documents) == 0) {
		f.fail("documents", "query and documents: Field required and not empty")
	}
	for _, d := range documents {
		t.prompts = append(t.prompts, f.textPrompt(query+"\n"+d))
	}
	if !s.accept(a, t, f, 1) {
		return
	}
	s.perform(a, t, &rerankFormat{documents: documents})
}

type rerankItem struct {
	Score    float32 `json:"score"`
	Document string  `json:"document"`
	Index    int     `json:"index"`
}

// rerankFormat renders scores, which are never streamed.
type rerankFormat struct {
	unstreamed
	documents []string
}

func (f *rerankFormat) whole(t *task, _ []progress) []byte {
	items := make([]rerankItem, len(t.prompts))
	for i, p := range t.prompts {
		items[i] = rerankItem{Score: simtext.Embedding(p.tokens, 2)[0], Document: f.documents[i], Index: i}
	}
	return encoded(items)
}

// unstreamed is the part of a format that streams need.
type unstreamed struct{}

func (unstreamed) opening(dst []byte, _ int) []byte                  { return dst }
func (unstreamed) delta(dst []byte, _ int, _ progress) []byte        { return dst }
func (unstreamed) last(dst []byte, _ int, _ progress, _ bool) []byte { return dst }
func (unstreamed) failed(dst []byte, _ *apiError) []byte             { return dst }
func (unstreamed) closing(dst []byte, _ []progress) []byte           { return dst }
