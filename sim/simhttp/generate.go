package simhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"smg/sim/simtext"
)

// generate answers POST /generate, SGLang's own API.
func (s *Server) generate(a *answer, _ *http.Request, f *fields) {
	t := &task{model: s.cfg.Model, stream: read[bool](f, "stream"), mergeLast: true}
	field := "text"
	if f.has("input_ids") {
		field = "input_ids"
	}
	if f.has("text") && f.has("input_ids") || !f.has("text") && !f.has("input_ids") {
		f.fail("", "Either text or input_ids should be provided.")
	} else {
		t.prompts, t.batch = f.prompts(field)
	}
	probs := f.readLogprobs(len(t.prompts))

	params := &fields{raw: read[map[string]json.RawMessage](f, "sampling_params"), err: f.err}
	t.n = params.readN()
	t.sampling = params.readSampling()
	t.sampling.Seed = read[int64](params, "sampling_seed")
	t.sampling.MinTokens = read[int](params, "min_new_tokens")
	t.sampling.KeepStop = read[bool](params, "no_stop_trim")
	const defaultLimit = 128
	want := readOr(params, "max_new_tokens", defaultLimit)
	if want < 0 {
		params.fail("max_new_tokens", "max_new_tokens must be at least 0, got %d.", want)
	}
	t.rids = s.requestIDs(f, "", "", max(len(t.prompts), 1))
	t.id = t.rids[0]
	err := params.err
	if err == nil {
		err = f.err
	}
	if err == nil {
		err = s.fit(t, want)
	}
	if err == nil {
		err = s.readTransfer(f, t)
	}
	if err != nil {
		s.stats.refused.Add(1)
		writeJSON(a, err.status, generateError(err))
		return
	}
	s.perform(a, t, &generateFormat{task: t, probs: probs, mode: s.cfg.Disagg.Mode, clock: s.clock, arrived: s.clock()})
}

// generateFormat renders SGLang's own answers. An event repeats the text from
// the beginning, as SGLang does unless told otherwise.
type generateFormat struct {
	*task
	probs   *logprobs
	mode    Mode
	clock   func() time.Time
	arrived time.Time
}

// many reports whether the answer is a list.
func (g *generateFormat) many() bool { return g.batch || g.n > 1 }

func (g *generateFormat) item(dst []byte, choice int, p progress) []byte {
	a := g.answers[choice]
	dst = append(dst, `{"text":`...)
	dst = appendString(dst, partial(a, p.tokens))
	dst = append(dst, `,"output_ids":[`...)
	for i, id := range a.Tokens[:p.tokens] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	dst = append(dst, `],"meta_info":{"id":`...)
	dst = appendString(dst, g.rids[choice/g.n])
	dst = append(dst, `,"finish_reason":`...)
	dst = g.why(dst, a, p)
	dst = fmt.Appendf(dst, `,"prompt_tokens":%d,"weight_version":"default","total_retractions":0,"completion_tokens":%d,"cached_tokens":%d`,
		len(g.prompts[choice/g.n].tokens), p.tokens, p.cached)
	dst = g.probs.append(dst, g.mode, g.n, choice, g.prompts[choice/g.n], a.Tokens[:p.tokens])
	if p.done {
		dst = fmt.Appendf(dst, `,"e2e_latency":%.6f`, g.clock().Sub(g.arrived).Seconds())
	}
	dst = append(dst, '}')
	if g.many() && g.stream {
		dst = fmt.Appendf(dst, `,"index":%d`, choice)
	}
	return append(dst, '}')
}

func (g *generateFormat) why(dst []byte, a simtext.Answer, p progress) []byte {
	switch {
	case !p.done:
		return append(dst, "null"...)
	case p.aborted:
		return append(dst, `{"type":"abort","message":"Aborted","status_code":null,"err_type":null}`...)
	case a.Finish == simtext.FinishLength:
		return fmt.Appendf(dst, `{"type":"length","length":%d}`, len(a.Tokens))
	case a.StopString != "":
		return append(appendString(append(dst, `{"type":"stop","matched":`...), a.StopString), '}')
	default:
		return fmt.Appendf(dst, `{"type":"stop","matched":%d}`, a.StopToken)
	}
}

func (g *generateFormat) whole(_ *task, states []progress) []byte {
	if !g.many() {
		return g.item(nil, 0, states[0])
	}
	dst := []byte{'['}
	for i, p := range states {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = g.item(dst, i, p)
	}
	return append(dst, ']')
}

func (g *generateFormat) opening(dst []byte, _ int) []byte { return dst }

func (g *generateFormat) delta(dst []byte, choice int, p progress) []byte {
	dst = append(dst, "data: "...)
	dst = g.item(dst, choice, p)
	return append(dst, "\n\n"...)
}

func (g *generateFormat) last(dst []byte, choice int, p progress, _ bool) []byte {
	dst = append(dst, "data: "...)
	dst = g.item(dst, choice, p)
	return append(dst, "\n\n"...)
}

// failed renders the error of a stream that has begun.
func (g *generateFormat) failed(dst []byte, e *apiError) []byte {
	dst = append(dst, `data: {"text":"","output_ids":[],"meta_info":{"id":`...)
	dst = appendString(dst, g.id)
	dst = append(dst, `,"finish_reason":{"type":"abort","message":`...)
	dst = appendString(dst, e.message)
	return fmt.Appendf(dst, `,"status_code":%d,"err_type":%q}}}`+"\n\n", e.status, e.kind())
}

func (g *generateFormat) closing(dst []byte, _ []progress) []byte { return dst }
