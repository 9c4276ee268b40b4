package simhttp

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	"smg/sim/simtext"
)

type embeddingAnswer struct {
	ID     string          `json:"id"`
	Object string          `json:"object"`
	Model  string          `json:"model"`
	Data   []embeddingItem `json:"data"`
	Usage  struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

type embeddingItem struct {
	Object    string          `json:"object"`
	Index     int             `json:"index"`
	Embedding json.RawMessage `json:"embedding"`
}

// embeddings answers POST /v1/embeddings. It costs the prefill of its inputs.
func (s *Server) embeddings(a *answer, r *http.Request, f *fields) {
	t := s.decodeOpenAI(f, "embd-", r.Header.Get("X-Request-Id"))
	t.n, t.stream = 1, false
	t.sampling = simtext.Sampling{}
	t.prompts, t.batch = f.prompts("input")
	dimensions := readOr(f, "dimensions", s.cfg.EmbeddingDimensions)
	if dimensions < 1 || dimensions > maxDimensions {
		f.fail("dimensions", "dimensions must be between 1 and %d, got %d.", maxDimensions, dimensions)
	}
	encoding := readOr(f, "encoding_format", "float")
	if encoding != "float" && encoding != "base64" {
		f.fail("encoding_format", "encoding_format: Input should be 'float' or 'base64'")
	}
	if !s.accept(a, t, f, 0) {
		return
	}
	s.perform(a, t, &embeddingFormat{dimensions: dimensions, base64: encoding == "base64"})
}

// embeddingFormat renders embeddings. They are never streamed.
type embeddingFormat struct {
	unstreamed
	dimensions int
	base64     bool
}

func (e *embeddingFormat) whole(t *task, states []progress) []byte {
	answer := embeddingAnswer{ID: t.id, Object: "list", Model: t.model}
	for i, p := range t.prompts {
		answer.Data = append(answer.Data, embeddingItem{
			Object: "embedding", Index: i, Embedding: e.encode(simtext.Embedding(p.tokens, e.dimensions)),
		})
	}
	answer.Usage.Prompt = t.usageOf(states).prompt
	answer.Usage.Total = answer.Usage.Prompt
	raw, err := json.Marshal(answer)
	if err != nil {
		// Finite numbers and valid raw JSON always encode.
		return []byte(`{"error":"encode embeddings"}`)
	}
	return raw
}

// encode renders a vector as numbers, or as base64 of little-endian floats.
func (e *embeddingFormat) encode(v []float32) json.RawMessage {
	if !e.base64 {
		raw, err := json.Marshal(v)
		if err != nil {
			return json.RawMessage("null")
		}
		return raw
	}
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString(raw) + `"`)
}
