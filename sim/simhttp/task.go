package simhttp

import (
	"fmt"

	"smg/sim"
	"smg/sim/simtext"
)

// task is a validated inference request: prompts and, for each, n answers.
// Choice i answers prompt i / n.
type task struct {
	id       string // of the answer
	rids     []string
	model    string
	prompts  []prompt
	batch    bool
	n        int
	sampling simtext.Sampling
	limits   []int // output tokens allowed, per prompt

	stream    bool
	wantUsage bool // a stream ends with an event of usage
	mergeLast bool // the last token and the finish reason are one event
	echo      bool

	hideCached bool // in the usage

	answers []simtext.Answer // per choice

	media    []simtext.Media
	transfer transfer
	kvAnswer []byte // kv_transfer_params of the answer, nil if there are none
}

// ridOf is the request id of choice i.
func (t *task) ridOf(i int) string { return t.rids[min(i/t.n, len(t.rids)-1)] }

func (t *task) choices() int { return len(t.prompts) * t.n }

// usageOf adds up the tokens of all choices.
func (t *task) usageOf(states []progress) usage {
	var u usage
	for i, p := range states {
		u.completion += p.tokens
		if i%t.n == 0 {
			u.prompt += len(t.prompts[i/t.n].tokens)
			u.cached += p.cached
		}
	}
	return u
}

type usage struct{ prompt, completion, cached int }

// readSampling reads the sampling parameters that all APIs share.
func (f *fields) readSampling() simtext.Sampling {
	s := simtext.Sampling{
		Temperature:  readOr(f, "temperature", 1.0),
		TopP:         readOr(f, "top_p", 1.0),
		Seed:         read[int64](f, "seed"),
		IgnoreEOS:    read[bool](f, "ignore_eos"),
		Stop:         f.texts("stop"),
		StopTokenIDs: read[[]simtext.Token](f, "stop_token_ids"),
	}
	if s.Temperature < 0 {
		f.fail("temperature", "temperature must be non-negative, got %v.", s.Temperature)
	}
	if s.TopP <= 0 || s.TopP > 1 {
		f.fail("top_p", "top_p must be in (0, 1], got %v.", s.TopP)
	}
	return s
}

func (f *fields) readN() int {
	n := readOr(f, "n", 1)
	if n < 1 || n > maxChoices {
		f.fail("n", "n must be between 1 and %d, got %d.", maxChoices, n)
	}
	return n
}

// fit checks the task against the engine and decides the output limits. want
// is the requested limit, negative if there is none.
func (s *Server) fit(t *task, want int) *apiError {
	if t.choices() > maxSequences {
		return badRequest("n", "the request asks for %d sequences, at most %d are allowed", t.choices(), maxSequences)
	}
	context := s.cfg.Core.Context()
	t.limits = make([]int, len(t.prompts))
	forced := 0
	for i, p := range t.prompts {
		size := len(p.tokens)
		if size+max(want, 1) > context {
			return badRequest("", "%s", s.dialect.overflow(context, size, max(want, 0)))
		}
		t.limits[i] = want
		if want < 0 {
			t.limits[i] = context - size
		}
		if t.sampling.MinTokens > t.limits[i] {
			return badRequest("min_tokens", "min_tokens must be less than or equal to max_tokens=%d, got %d.", t.limits[i], t.sampling.MinTokens)
		}
		if t.sampling.IgnoreEOS {
			forced += t.limits[i] * t.n
		}
		forced += t.sampling.MinTokens * t.n
	}
	if forced > maxForcedTokens {
		return badRequest("max_tokens", "the request forces %d output tokens, at most %d are allowed", forced, maxForcedTokens)
	}
	return nil
}

// compose writes all answers and returns what the scheduler has to compute for
// them. exact, if not nil, is the number of output tokens instead of what was
// asked for.
func (s *Server) compose(t *task, exact *int) []sim.Request {
	requests := make([]sim.Request, t.choices())
	t.answers = make([]simtext.Answer, t.choices())
	for i := range requests {
		p := t.prompts[i/t.n]
		sampling := t.sampling
		sampling.Choice = i % t.n
		sampling.MaxTokens = t.limits[i/t.n]
		if exact != nil {
			sampling.MaxTokens = min(*exact, s.cfg.Core.Context()-len(p.tokens))
			sampling.IgnoreEOS, sampling.Stop, sampling.StopTokenIDs = true, nil, nil
		}
		if s.cfg.Disagg.Mode == Prefill && t.transfer.rooms != nil {
			// The rest is decoded elsewhere.
			sampling.MaxTokens, sampling.MinTokens = min(sampling.MaxTokens, 1), 0
			sampling.Stop, sampling.StopTokenIDs = nil, nil
		}
		a := s.writer.Answer(p.tokens, sampling)
		t.answers[i] = a
		requests[i] = sim.Request{
			Label:        t.ridOf(i),
			PromptTokens: len(p.tokens),
			OutputTokens: len(a.Tokens),
			Blocks:       blockHashes(s.cfg.Core.BlockSize, p.tokens, a.Tokens),
		}
	}
	return requests
}

func blockHashes(size int, parts ...[]simtext.Token) []sim.BlockHash {
	raw := simtext.BlockHashes(size, parts...)
	out := make([]sim.BlockHash, len(raw))
	for i, h := range raw {
		out[i] = sim.BlockHash(h)
	}
	return out
}

// decodeOpenAI reads what chat and completions have in common.
func (s *Server) decodeOpenAI(f *fields, prefix string, header string) *task {
	t := &task{
		model:    readOr(f, "model", s.cfg.Model),
		n:        f.readN(),
		sampling: f.readSampling(),
		stream:   read[bool](f, "stream"),
		echo:     read[bool](f, "echo"),

		mergeLast: s.dialect.mergeLast, hideCached: s.cfg.HideCached,
	}
	t.sampling.MinTokens = read[int](f, "min_tokens")
	t.sampling.KeepStop = read[bool](f, "include_stop_str_in_output") || read[bool](f, "no_stop_trim")
	if f.has("stream_options") {
		options := read[struct {
			IncludeUsage bool `json:"include_usage"`
		}](f, "stream_options")
		t.wantUsage = t.stream && options.IncludeUsage
	}
	if s.dialect.checkModel && t.model != s.cfg.Model && f.err == nil {
		f.err = &apiError{status: 404, param: "model", message: fmt.Sprintf("The model `%s` does not exist.", t.model)}
	}
	t.rids = s.requestIDs(f, prefix, header, 1)
	t.id = t.rids[0]
	return t
}

// requestIDs returns the ids of count requests: those the caller chose, or
// fresh ones.
func (s *Server) requestIDs(f *fields, prefix, header string, count int) []string {
	given := f.texts("rid")
	if s.cfg.Kind == VLLM {
		given = f.texts("request_id")
		if header != "" { // before what the body says
			given = []string{header}
		}
		for i := range given {
			given[i] = prefix + given[i]
		}
	}
	switch {
	case len(given) == count:
		return given
	case len(given) == 1:
		ids := make([]string, count)
		for i := range ids {
			ids[i] = fmt.Sprintf("%s_%d", given[0], i)
		}
		return ids
	case len(given) > 0:
		f.fail("rid", "rid: %d ids for %d prompts", len(given), count)
	}
	ids := make([]string, count)
	for i := range ids {
		ids[i] = s.freshID()
		if s.cfg.Kind == VLLM {
			ids[i] = prefix + ids[i]
		}
	}
	return ids
}
