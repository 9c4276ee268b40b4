package prepare

import (
	"encoding/json"
	"math"
	"strconv"

	"smg/engine/rpc"
	"smg/tokenizer/jinja"
	"smg/tokens"
)

const (
	// completionsLimit is how long an answer of Completions is, generateLimit one of
	// Generate, where the client does not say.
	completionsLimit = 16
	generateLimit    = 128
	// maxTop is how many probabilities a place may have.
	maxTop = 1024
)

// common reads what all APIs call alike. s has what counts otherwise.
func common(f *fields, s *rpc.Sampling) {
	s.Temperature = f.number("temperature", s.Temperature, 0, math.MaxFloat32)
	s.TopP = f.number("top_p", s.TopP, 0, 1)
	s.MinP = f.number("min_p", s.MinP, 0, 1)
	if s.TopP == 0 {
		f.fail("%stop_p must be above 0", f.path)
	}
	if s.TopK = f.wholeOr("top_k", int64(s.TopK), -1, math.MaxInt32); s.TopK == 0 {
		s.TopK = -1
	}
	s.FrequencyPenalty = f.number("frequency_penalty", 0, -2, 2)
	s.PresencePenalty = f.number("presence_penalty", 0, -2, 2)
	if s.RepetitionPenalty = f.number("repetition_penalty", s.RepetitionPenalty, 0, 100); s.RepetitionPenalty == 0 {
		f.fail("%srepetition_penalty must be above 0", f.path)
	}
	s.N = f.wholeOr("n", 1, 1, maxChoices)
	s.Stop = f.strs("stop")
	for i, stop := range s.Stop {
		if stop == "" {
			f.fail("%sstop: string %d is empty", f.path, i)
		}
	}
	s.StopTokens = f.ids("stop_token_ids")
	s.IgnoreEOS = f.boolean("ignore_eos", false)
	s.SkipSpecial = f.boolean("skip_special_tokens", true)
	s.SpaceSpecial = f.boolean("spaces_between_special_tokens", true)
	// The engines have a name each for the same.
	s.KeepStop = f.boolean("include_stop_str_in_output", false)
	s.KeepStop = f.boolean("no_stop_trim", false) || s.KeepStop
	s.LogitBias = bias(f)
}

func bias(f *fields) map[uint32]float64 {
	d := f.object("logit_bias")
	defer f.take(d)
	if d.dict.Len() == 0 {
		return nil
	}
	biases := make(map[uint32]float64, d.dict.Len())
	for name := range d.dict.All() {
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			f.fail("%slogit_bias: %q is no token id", f.path, name)
			return nil
		}
		biases[uint32(id)] = d.number(name, 0, -100, 100)
	}
	return biases
}

// limit reads how many tokens an answer has at most.
func limit(f *fields, names []string, least int64, otherwise *int) *int {
	for _, name := range names {
		if n, ok := f.whole(name, least, math.MaxInt32); ok {
			limit := int(n)
			return &limit
		}
	}
	return otherwise
}

// openAI reads the parameters of chats and completions. What the client leaves out is as
// the model's authors advise, as it is with engines over HTTP.
func (r *Request) openAI(f *fields, m *tokens.Model) {
	s := rpc.DefaultSampling()
	m.Advice.Apply(&s.Temperature, &s.TopP, &s.MinP, &s.RepetitionPenalty, &s.TopK)
	common(f, &s)
	s.MinTokens = f.wholeOr("min_tokens", 0, 0, math.MaxInt32)
	if seed, ok := f.whole("seed", math.MinInt64, math.MaxInt64); ok {
		s.Seed = &seed
	}
	if r.Route == Chat {
		s.MaxTokens = limit(f, []string{"max_completion_tokens", "max_tokens"}, 1, nil)
	} else {
		otherwise := completionsLimit
		s.MaxTokens = limit(f, []string{"max_tokens"}, 1, &otherwise)
		r.Echo = f.boolean("echo", false)
	}
	s.Constraint = constraint(f)
	r.Sampling = s
	r.Stream = f.boolean("stream", false)
	o := f.object("stream_options")
	r.IncludeUsage = o.boolean("include_usage", false)
	r.ContinuousUsage = o.boolean("continuous_usage_stats", false)
	f.take(o)
}

// openAILogprobs reads which probabilities an answer is to tell.
func openAILogprobs(f *fields, rt Route, echo bool) (w rpc.LogprobsWanted) {
	if rt == Chat {
		w.Output = f.boolean("logprobs", false)
		w.Top = f.wholeOr("top_logprobs", 0, 0, maxTop)
		if w.Top > 0 && !w.Output {
			f.fail("top_logprobs needs logprobs to be true")
		}
		return w
	}
	if top, ok := f.whole("logprobs", 0, maxTop); ok {
		w.Output, w.Prompt, w.Top = true, echo, int(top)
	}
	return w
}

// generate reads the parameters of Generate.
func (r *Request) generate(f *fields) {
	if _, list := f.get("sampling_params").(*jinja.List); list {
		f.fault = unsupported("sampling_params for each prompt")
		return
	}
	p := f.object("sampling_params")
	s := rpc.DefaultSampling()
	common(p, &s)
	s.MinTokens = p.wholeOr("min_new_tokens", 0, 0, math.MaxInt32)
	otherwise := generateLimit
	s.MaxTokens = limit(p, []string{"max_new_tokens"}, 0, &otherwise)
	if seed, ok := p.whole("sampling_seed", math.MinInt64, math.MaxInt64); ok {
		s.Seed = &seed
	}
	for _, name := range []string{"stop_regex", "custom_params"} {
		if asks(p.get(name)) && p.fault == nil {
			p.fault = unsupported("sampling_params.%s", name)
		}
	}
	for _, c := range []struct {
		name string
		kind rpc.ConstraintKind
	}{{"json_schema", rpc.JSONSchema}, {"regex", rpc.Regex}, {"ebnf", rpc.Grammar}, {"structural_tag", rpc.StructuralTag}} {
		if text := p.str(c.name); text != "" {
			s.Constraint = &rpc.Constraint{Kind: c.kind, Text: text}
		}
	}
	f.take(p)
	r.Sampling = s
	r.Stream = f.boolean("stream", false)
	r.Incremental = f.boolean("stream_output", false)
}

// constraint reads the form that an answer must have, by whichever name.
func constraint(f *fields) *rpc.Constraint {
	var found []*rpc.Constraint
	add := func(c *rpc.Constraint) {
		if c != nil {
			found = append(found, c)
		}
	}
	add(responseFormat(f))
	text := func(f *fields, name string, kind rpc.ConstraintKind) {
		if s := f.str(name); s != "" {
			add(&rpc.Constraint{Kind: kind, Text: s})
		}
	}
	text(f, "regex", rpc.Regex)
	text(f, "ebnf", rpc.Grammar)
	text(f, "guided_regex", rpc.Regex)
	text(f, "guided_grammar", rpc.Grammar)
	text(f, "structural_tag", rpc.StructuralTag)
	if v := f.get("guided_json"); asks(v) {
		add(schema(v, f.raw.Member("guided_json")))
	}
	if c := f.strs("guided_choice"); len(c) > 0 {
		add(&rpc.Constraint{Kind: rpc.Choice, Choices: c})
	}
	o := f.object("structured_outputs")
	text(o, "regex", rpc.Regex)
	text(o, "grammar", rpc.Grammar)
	text(o, "structural_tag", rpc.StructuralTag)
	if c := o.strs("choice"); len(c) > 0 {
		add(&rpc.Constraint{Kind: rpc.Choice, Choices: c})
	}
	if o.boolean("json_object", false) {
		add(&rpc.Constraint{Kind: rpc.JSONObject})
	}
	if v := o.get("json"); asks(v) {
		add(schema(v, within(f.raw.Member("structured_outputs"), "json")))
	}
	f.take(o)
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	}
	f.fail("an answer can have one form only: response_format, regex, ebnf, guided_… and structured_outputs are several")
	return nil
}

// schema is a JSON schema that is given as an object, or as its text.
func schema(v jinja.Value, raw []byte) *rpc.Constraint {
	if s, ok := v.(string); ok {
		return &rpc.Constraint{Kind: rpc.JSONSchema, Text: s}
	}
	return &rpc.Constraint{Kind: rpc.JSONSchema, Text: string(raw)}
}

// within is the raw text of what stands in objects within each other.
func within(raw []byte, names ...string) []byte {
	for _, name := range names {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil {
			return nil
		}
		raw = m[name]
	}
	return raw
}

func responseFormat(f *fields) *rpc.Constraint {
	o := f.object("response_format")
	defer f.take(o)
	switch kind := o.str("type"); kind {
	case "", "text":
		if kind == "" && o.dict.Len() > 0 {
			o.fail("response_format needs a type")
		}
		return nil
	case "json_object":
		return &rpc.Constraint{Kind: rpc.JSONObject}
	case "json_schema":
		js := o.object("json_schema")
		v := js.get("schema")
		if _, ok := v.(*jinja.Dict); !ok && v != true {
			o.fail("response_format.json_schema.schema must be a schema")
		}
		o.take(js)
		return &rpc.Constraint{Kind: rpc.JSONSchema, Text: string(within(f.raw.Member("response_format"), "json_schema", "schema"))}
	case "structural_tag":
		return &rpc.Constraint{Kind: rpc.StructuralTag, Text: string(f.raw.Member("response_format"))}
	default:
		o.fail("response_format.type %q is not known", kind)
		return nil
	}
}
