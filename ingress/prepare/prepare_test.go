package prepare_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine/rpc"
	"smg/ingress/body"
	"smg/ingress/prepare"
	"smg/tokens"
)

const (
	hello = `"messages":[{"role":"user","content":"hi"}]`
	asks  = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
)

func TestPrompts(t *testing.T) {
	m := model(t, chatTemplate)
	enc := func(text string, special bool) []uint32 {
		ids, err := m.Encode(text, special)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	text := func(s string, special bool) prepare.Prompt {
		return prepare.Prompt{Text: s, Tokens: enc(s, special)}
	}
	ids := func(ids ...uint32) prepare.Prompt { return prepare.Prompt{Tokens: ids} }
	long := enc("one two three four five", true)
	for _, tc := range []struct {
		name  string
		route prepare.Route
		body  string
		want  []prepare.Prompt
		batch bool
	}{
		{"chat", prepare.Chat, `{"model":"m",` + hello + `}`, []prepare.Prompt{text(asks, false)}, false},
		{"chat_special", prepare.Chat, `{"model":"m","add_special_tokens":true,` + hello + `}`, []prepare.Prompt{text(asks, true)}, false},
		{"chat_options", prepare.Chat, `{"model":"m","reasoning_effort":"low","chat_template_kwargs":{"mood":"!"},"documents":[{"text":"D"}],` + hello + `}`, []prepare.Prompt{text(asks+"low!D", false)}, false},
		{"chat_no_answer", prepare.Chat, `{"model":"m","add_generation_prompt":false,` + hello + `}`, []prepare.Prompt{text("<|im_start|>user\nhi<|im_end|>\n", false)}, false},
		{"chat_no_answer_by_option", prepare.Chat, `{"model":"m","chat_template_kwargs":{"add_generation_prompt":false},` + hello + `}`, []prepare.Prompt{text("<|im_start|>user\nhi<|im_end|>\n", false)}, false},
		{"chat_continue", prepare.Chat, `{"model":"m","continue_final_message":true,` + hello + `}`, []prepare.Prompt{text("<|im_start|>user\nhi", false)}, false},
		{"chat_parts", prepare.Chat, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"add_generation_prompt":false}`, []prepare.Prompt{text("<|im_start|>user\na\nb<|im_end|>\n", false)}, false},
		{"chat_null", prepare.Chat, `{"model":"m","messages":[{"role":"assistant","content":null}],"add_generation_prompt":false}`, []prepare.Prompt{text("<|im_start|>assistant\n<|im_end|>\n", false)}, false},
		{"chat_calls", prepare.Chat, `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"b\":1,\"a\":[true]}"}}]}],"add_generation_prompt":false}`, []prepare.Prompt{text("<|im_start|>assistant\n{\"b\": 1, \"a\": [true]}<|im_end|>\n", false)}, false},
		{"chat_no_tools", prepare.Chat, `{"model":"m","tools":[],"tool_choice":"auto","parallel_tool_calls":true,` + hello + `}`, []prepare.Prompt{text(asks, false)}, false},
		{"chat_tools_not_to_be_called", prepare.Chat, `{"model":"m","tools":[{"type":"function"}],"tool_choice":"none",` + hello + `}`, []prepare.Prompt{text(asks, false)}, false},
		{"completions", prepare.Completions, `{"model":"m","prompt":"one"}`, []prepare.Prompt{text("one", true)}, false},
		{"completions_bare", prepare.Completions, `{"model":"m","prompt":"one","add_special_tokens":false}`, []prepare.Prompt{text("one", false)}, false},
		{"completions_batch", prepare.Completions, `{"model":"m","prompt":["one","two"]}`, []prepare.Prompt{text("one", true), text("two", true)}, true},
		{"completions_batch_of_one", prepare.Completions, `{"model":"m","prompt":["one"]}`, []prepare.Prompt{text("one", true)}, true},
		{"completions_ids", prepare.Completions, `{"model":"m","prompt":[5,6,7]}`, []prepare.Prompt{ids(5, 6, 7)}, false},
		{"completions_ids_batch", prepare.Completions, `{"model":"m","prompt":[[5],[6,7]]}`, []prepare.Prompt{ids(5), ids(6, 7)}, true},
		{"completions_cut", prepare.Completions, `{"model":"m","prompt":"one two three four five","truncate_prompt_tokens":2}`, []prepare.Prompt{ids(long[len(long)-2:]...)}, false},
		{"completions_not_cut", prepare.Completions, `{"model":"m","prompt":"one","truncate_prompt_tokens":99}`, []prepare.Prompt{text("one", true)}, false},
		{"generate", prepare.Generate, `{"text":"one"}`, []prepare.Prompt{text("one", true)}, false},
		{"generate_batch", prepare.Generate, `{"text":["one","two"],"rid":["x","y"]}`, []prepare.Prompt{{ID: "x", Text: "one", Tokens: enc("one", true)}, {ID: "y", Text: "two", Tokens: enc("two", true)}}, true},
		{"generate_ids", prepare.Generate, `{"input_ids":[4294967295,0],"rid":"x"}`, []prepare.Prompt{{ID: "x", Tokens: []uint32{4294967295, 0}}}, false},
		{"generate_ids_batch", prepare.Generate, `{"input_ids":[[1],[2]],"rid":"x"}`, []prepare.Prompt{{ID: "x_0", Tokens: []uint32{1}}, {ID: "x_1", Tokens: []uint32{2}}}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := do(t, tc.route, m, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, r.Prompts); diff != "" || r.Batch != tc.batch {
				t.Errorf("batch %v; prompts (-want +got):\n%s", r.Batch, diff)
			}
			var count int64
			for _, p := range tc.want {
				count += int64(len(p.Tokens))
			}
			if r.Count() != count {
				t.Errorf("%d tokens, want %d", r.Count(), count)
			}
		})
	}
}

// TestParts has a template that goes through the parts of messages get them.
func TestParts(t *testing.T) {
	m := model(t, `{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}[{{ p.type }}:{{ p.text }}]{% endfor %}{% endif %}{% endfor %}`)
	r, err := do(t, prepare.Chat, m, `{"model":"m","messages":[{"role":"user","content":"s"},{"role":"user","content":[{"type":"input_text","text":"a","cache_control":1},"b",{"text":"c"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if want := "s[text:a][text:b][text:c]"; r.Prompts[0].Text != want {
		t.Errorf("got %q, want %q", r.Prompts[0].Text, want)
	}
}

func TestSampling(t *testing.T) {
	m := model(t, chatTemplate)
	m.Ends = []uint32{7}
	advised := model(t, chatTemplate)
	advised.Advice = tokens.Advice{Temperature: new(0.6), TopP: new(0.95), TopK: new(20), MinP: new(0.1), RepetitionPenalty: new(1.05)}
	with := func(change func(*rpc.Sampling)) rpc.Sampling {
		s := rpc.DefaultSampling()
		change(&s)
		return s
	}
	all := func(s *rpc.Sampling) {
		s.Temperature, s.TopP, s.MinP, s.TopK = 0.5, 0.9, 0.05, 40
		s.FrequencyPenalty, s.PresencePenalty, s.RepetitionPenalty = -1, 1.5, 1.1
		s.MinTokens, s.N = 3, 2
		s.Stop, s.StopTokens = []string{"x", "y"}, []uint32{4}
		s.IgnoreEOS, s.SkipSpecial, s.SpaceSpecial, s.KeepStop = true, false, false, true
		s.LogitBias = map[uint32]float64{5: -100}
		s.Seed = new(int64(-3))
	}
	const common = `"temperature":0.5,"top_p":0.9,"min_p":0.05,"top_k":40,"frequency_penalty":-1,"presence_penalty":1.5,"repetition_penalty":1.1,"n":2,"stop":["x","y"],"stop_token_ids":[4],"ignore_eos":true,"skip_special_tokens":false,"spaces_between_special_tokens":false,"logit_bias":{"5":-100}`
	for _, tc := range []struct {
		name  string
		route prepare.Route
		model *tokens.Model
		body  string
		want  rpc.Sampling
	}{
		{"chat_default", prepare.Chat, m, `{"model":"m",` + hello + `}`, rpc.DefaultSampling()},
		{"chat_advised", prepare.Chat, advised, `{"model":"m",` + hello + `}`, with(func(s *rpc.Sampling) {
			s.Temperature, s.TopP, s.TopK, s.MinP, s.RepetitionPenalty = 0.6, 0.95, 20, 0.1, 1.05
		})},
		{"chat_not_as_advised", prepare.Chat, advised, `{"model":"m","temperature":0,"top_p":1,"top_k":-1,"min_p":0,"repetition_penalty":1,` + hello + `}`, with(func(s *rpc.Sampling) { s.Temperature = 0 })},
		{"chat_nulls", prepare.Chat, m, `{"model":"m","temperature":null,"stop":null,"max_tokens":null,"logit_bias":null,"seed":null,"n":null,"response_format":null,"stream_options":null,"logprobs":null,"tools":null,"tool_choice":null,` + hello + `}`, rpc.DefaultSampling()},
		{"chat_all", prepare.Chat, m, `{"model":"m",` + common + `,"min_tokens":3,"include_stop_str_in_output":true,"seed":-3,"max_completion_tokens":9,"max_tokens":5,` + hello + `}`, with(func(s *rpc.Sampling) { all(s); s.MaxTokens = new(9) })},
		{"chat_older_limit", prepare.Chat, m, `{"model":"m","max_tokens":5.0,"stop":"x","top_k":0,` + hello + `}`, with(func(s *rpc.Sampling) { s.MaxTokens, s.Stop = new(5), []string{"x"} })},
		{"completions_default", prepare.Completions, m, `{"model":"m","prompt":"a"}`, with(func(s *rpc.Sampling) { s.MaxTokens = new(16) })},
		{"completions_all", prepare.Completions, m, `{"model":"m","prompt":"a",` + common + `,"min_tokens":3,"no_stop_trim":true,"seed":-3,"max_tokens":9}`, with(func(s *rpc.Sampling) { all(s); s.MaxTokens = new(9) })},
		{"generate_default", prepare.Generate, advised, `{"text":"a"}`, with(func(s *rpc.Sampling) { s.MaxTokens = new(128) })},
		{"generate_all", prepare.Generate, m, `{"text":"a","sampling_params":{` + common + `,"min_new_tokens":3,"no_stop_trim":true,"sampling_seed":-3,"max_new_tokens":0}}`, with(func(s *rpc.Sampling) { all(s); s.MaxTokens = new(0) })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := do(t, tc.route, tc.model, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, r.Sampling); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.model.Ends, r.EOS); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConstraint(t *testing.T) {
	m := model(t, chatTemplate)
	for _, tc := range []struct {
		name, fields string
		want         *rpc.Constraint
	}{
		{"none", `"response_format":{"type":"text"}`, nil},
		{"object", `"response_format":{"type":"json_object"}`, &rpc.Constraint{Kind: rpc.JSONObject}},
		{"schema", `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"b":1.0,"a":[ ]}}}`, &rpc.Constraint{Kind: rpc.JSONSchema, Text: `{"b":1.0,"a":[ ]}`}},
		{"tag", `"response_format":{"type":"structural_tag","structures":[]}`, &rpc.Constraint{Kind: rpc.StructuralTag, Text: `{"type":"structural_tag","structures":[]}`}},
		{"regex", `"regex":"a+"`, &rpc.Constraint{Kind: rpc.Regex, Text: "a+"}},
		{"ebnf", `"ebnf":"root ::= x"`, &rpc.Constraint{Kind: rpc.Grammar, Text: "root ::= x"}},
		{"guided_json", `"guided_json":{"type": "object"}`, &rpc.Constraint{Kind: rpc.JSONSchema, Text: `{"type": "object"}`}},
		{"guided_choice", `"guided_choice":["a","b"]`, &rpc.Constraint{Kind: rpc.Choice, Choices: []string{"a", "b"}}},
		{"structured_json", `"structured_outputs":{"json":{"x": 1}}`, &rpc.Constraint{Kind: rpc.JSONSchema, Text: `{"x": 1}`}},
		{"structured_text", `"structured_outputs":{"json":"{}"}`, &rpc.Constraint{Kind: rpc.JSONSchema, Text: `{}`}},
		{"structured_regex", `"structured_outputs":{"regex":"x"}`, &rpc.Constraint{Kind: rpc.Regex, Text: "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := do(t, prepare.Chat, m, `{"model":"m",`+tc.fields+`,`+hello+`}`)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, r.Sampling.Constraint); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	r, err := do(t, prepare.Generate, m, `{"text":"a","sampling_params":{"json_schema":"{}"}}`)
	if err != nil || r.Sampling.Constraint == nil || r.Sampling.Constraint.Text != "{}" {
		t.Errorf("generate: %+v, %v", r, err)
	}
}

func TestLogprobs(t *testing.T) {
	m := model(t, chatTemplate)
	for _, tc := range []struct {
		name  string
		route prepare.Route
		body  string
		want  []rpc.LogprobsWanted
	}{
		{"chat_none", prepare.Chat, `{"model":"m","logprobs":false,` + hello + `}`, []rpc.LogprobsWanted{{}}},
		{"chat", prepare.Chat, `{"model":"m","logprobs":true,"top_logprobs":3,` + hello + `}`, []rpc.LogprobsWanted{{Output: true, Top: 3}}},
		{"completions", prepare.Completions, `{"model":"m","prompt":["a","b"],"logprobs":2}`, []rpc.LogprobsWanted{{Output: true, Top: 2}, {Output: true, Top: 2}}},
		{"completions_zero", prepare.Completions, `{"model":"m","prompt":"a","logprobs":0,"echo":true}`, []rpc.LogprobsWanted{{Output: true, Prompt: true}}},
		{"generate", prepare.Generate, `{"text":"a","return_logprob":true,"top_logprobs_num":2,"token_ids_logprob":[1,2]}`, []rpc.LogprobsWanted{{Output: true, Top: 2, Tokens: []uint32{1, 2}}}},
		{"generate_prompt", prepare.Generate, `{"text":"a","return_logprob":true,"logprob_start_len":0}`, []rpc.LogprobsWanted{{Output: true, Prompt: true}}},
		{"generate_off", prepare.Generate, `{"text":"a","return_logprob":false,"logprob_start_len":5,"top_logprobs_num":2}`, []rpc.LogprobsWanted{{}}},
		{"generate_each", prepare.Generate, `{"text":["a","b"],"return_logprob":[true,false],"logprob_start_len":[3,-1],"token_ids_logprob":[[1],null]}`, []rpc.LogprobsWanted{{Output: true, Prompt: true, From: 3, Tokens: []uint32{1}}, {}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := do(t, tc.route, m, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			var got []rpc.LogprobsWanted
			for _, p := range r.Prompts {
				got = append(got, p.Logprobs)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswerForm(t *testing.T) {
	m := model(t, chatTemplate)
	r, err := do(t, prepare.Chat, m, `{"model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"strange":1,"user":"u",`+hello+`}`)
	if err != nil || !r.Stream || !r.IncludeUsage || !r.ContinuousUsage || !cmp.Equal(r.Unknown, []string{"strange"}) {
		t.Errorf("got %+v, %v", r, err)
	}
	r, err = do(t, prepare.Completions, m, `{"model":"m","prompt":"a","echo":true,"best_of":1,"suffix":""}`)
	if err != nil || r.Stream || !r.Echo {
		t.Errorf("got %+v, %v", r, err)
	}
	r, err = do(t, prepare.Generate, m, `{"text":"a","stream":true,"stream_output":true,"return_text_in_logprobs":true}`)
	if err != nil || !r.Stream || !r.Incremental || !r.Prompts[0].TokenText {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestFaults(t *testing.T) {
	m := model(t, chatTemplate)
	m.Context = 10
	bare := model(t, "")
	chat := func(fields string) string { return `{"model":"m",` + fields + `,` + hello + `}` }
	messages := func(list string) string { return `{"model":"m","messages":` + list + `}` }
	comp := func(fields string) string { return `{"model":"m","prompt":"a",` + fields + `}` }
	for _, tc := range []struct {
		name    string
		route   prepare.Route
		body    string
		code    string
		message string
	}{
		{"tools", prepare.Chat, chat(`"tools":[{"type":"function"}]`), prepare.CodeUnsupported, "tools: engines over gRPC have no way for it, serve the model with --connection-mode http"},
		{"tool_choice", prepare.Chat, chat(`"tool_choice":"required"`), prepare.CodeUnsupported, "tool_choice"},
		{"tool_choice_named", prepare.Chat, chat(`"tool_choice":{"type":"function"}`), prepare.CodeUnsupported, "tool_choice"},
		{"functions", prepare.Chat, chat(`"functions":[{}]`), prepare.CodeUnsupported, "functions"},
		{"function_call", prepare.Chat, chat(`"function_call":"auto"`), prepare.CodeUnsupported, "function_call"},
		{"reasoning", prepare.Chat, chat(`"separate_reasoning":true`), prepare.CodeUnsupported, "separate_reasoning"},
		{"own_template", prepare.Chat, chat(`"chat_template":"x"`), prepare.CodeUnsupported, "chat_template"},
		{"beam", prepare.Completions, comp(`"use_beam_search":true`), prepare.CodeUnsupported, "use_beam_search"},
		{"best_of", prepare.Completions, comp(`"best_of":3`), prepare.CodeUnsupported, "best_of"},
		{"suffix", prepare.Completions, comp(`"suffix":"x"`), prepare.CodeUnsupported, "suffix"},
		{"lora", prepare.Generate, `{"text":"a","lora_path":"x"}`, prepare.CodeUnsupported, "lora_path"},
		{"params_list", prepare.Generate, `{"text":["a"],"sampling_params":[{}]}`, prepare.CodeUnsupported, "sampling_params"},
		{"stop_regex", prepare.Generate, `{"text":"a","sampling_params":{"stop_regex":"x"}}`, prepare.CodeUnsupported, "stop_regex"},
		{"choices", prepare.Completions, `{"model":"m","prompt":["a","b","c"],"n":400}`, prepare.CodeUnsupported, "400 answers to each of 3 prompts"},
		{"prompts", prepare.Completions, `{"model":"m","prompt":[` + strings.Repeat(`"a",`, 1024) + `"a"]}`, prepare.CodeUnsupported, "1025 prompts"},
		{"image", prepare.Chat, messages(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]`), prepare.CodeMedia, "image_url"},
		{"audio", prepare.Chat, chat(`"modalities":["text","audio"]`), prepare.CodeMedia, "modalities"},
		{"image_data", prepare.Generate, `{"text":"a","image_data":"x"}`, prepare.CodeMedia, "image_data"},
		{"long", prepare.Completions, `{"model":"m","prompt":[1,2,3,4,5,6,7,8,9,10]}`, prepare.CodeTooLong, "prompt 0 has 10 tokens; the model's context has room for 10"},
		{"raised", prepare.Chat, messages(`[{"role":"nobody","content":"x"}]`), prepare.CodeInvalid, "no nobodies"},
		{"role", prepare.Chat, messages(`[{"content":"x"}]`), prepare.CodeInvalid, "messages[0] needs a role"},
		{"role_type", prepare.Chat, messages(`[{"role":7}]`), prepare.CodeInvalid, "messages[0].role must be a string"},
		{"message", prepare.Chat, messages(`[7]`), prepare.CodeInvalid, "messages[0] must be an object"},
		{"content", prepare.Chat, messages(`[{"role":"user","content":7}]`), prepare.CodeInvalid, "messages[0].content must be a string or a list of parts"},
		{"part", prepare.Chat, messages(`[{"role":"user","content":[{"type":"text","text":7}]}]`), prepare.CodeInvalid, "messages[0].content[0].text must be a string"},
		{"arguments", prepare.Chat, messages(`[{"role":"assistant","tool_calls":[{"function":{"arguments":"{"}}]}]`), prepare.CodeInvalid, "messages[0].tool_calls[0].function.arguments: not valid JSON"},
		{"both", prepare.Chat, chat(`"continue_final_message":true,"add_generation_prompt":true`), prepare.CodeInvalid, "cannot both be true"},
		{"temperature", prepare.Chat, chat(`"temperature":-1`), prepare.CodeInvalid, "temperature must be from 0"},
		{"temperature_type", prepare.Chat, chat(`"temperature":"1"`), prepare.CodeInvalid, "temperature must be a number"},
		{"huge", prepare.Chat, chat(`"temperature":1e400`), prepare.CodeInvalid, "temperature must be from 0"},
		{"top_p", prepare.Chat, chat(`"top_p":0`), prepare.CodeInvalid, "top_p must be above 0"},
		{"n", prepare.Chat, chat(`"n":1025`), prepare.CodeInvalid, "n must be from 1 to 1024, not 1025"},
		{"limit", prepare.Chat, chat(`"max_tokens":0`), prepare.CodeInvalid, "max_tokens must be from 1"},
		{"limit_half", prepare.Chat, chat(`"max_tokens":1.5`), prepare.CodeInvalid, "max_tokens must be a whole number, not 1.5"},
		{"stop", prepare.Chat, chat(`"stop":["a",7]`), prepare.CodeInvalid, "stop must be a string or a list of strings"},
		{"stop_empty", prepare.Chat, chat(`"stop":["a",""]`), prepare.CodeInvalid, "stop: string 1 is empty"},
		{"bias", prepare.Chat, chat(`"logit_bias":{"x":1}`), prepare.CodeInvalid, `logit_bias: "x" is no token id`},
		{"top_logprobs", prepare.Chat, chat(`"top_logprobs":3`), prepare.CodeInvalid, "top_logprobs needs logprobs"},
		{"format", prepare.Chat, chat(`"response_format":{"type":"xml"}`), prepare.CodeInvalid, `response_format.type "xml" is not known`},
		{"schema", prepare.Chat, chat(`"response_format":{"type":"json_schema"}`), prepare.CodeInvalid, "must be a schema"},
		{"two_forms", prepare.Chat, chat(`"regex":"x","ebnf":"y"`), prepare.CodeInvalid, "one form only"},
		{"stream_options", prepare.Chat, chat(`"stream_options":7`), prepare.CodeInvalid, "stream_options must be an object"},
		{"cut", prepare.Completions, comp(`"truncate_prompt_tokens":0`), prepare.CodeInvalid, "truncate_prompt_tokens must be above 0"},
		{"empty", prepare.Completions, `{"model":"m","prompt":["a",""]}`, prepare.CodeInvalid, "prompt 1 is empty"},
		{"mixed", prepare.Completions, `{"model":"m","prompt":["a",[true]]}`, prepare.CodeInvalid, "prompt must be a string, a list of token ids, or a list of either"},
		{"negative_id", prepare.Generate, `{"input_ids":[-1]}`, prepare.CodeInvalid, "input_ids must be a list of token ids"},
		{"rids", prepare.Generate, `{"text":["a","b"],"rid":["x"]}`, prepare.CodeInvalid, "rid has 1 names for 2 prompts"},
		{"logprob_lists", prepare.Generate, `{"text":["a","b"],"return_logprob":[true]}`, prepare.CodeInvalid, "return_logprob has 1 values for 2 prompts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := do(t, tc.route, m, tc.body)
			var f *prepare.Fault
			if !errors.As(err, &f) || f.Code != tc.code || !strings.Contains(f.Message, tc.message) {
				t.Errorf("got %+v, %#v, want %s with %q", r, err, tc.code, tc.message)
			}
		})
	}
	var f *prepare.Fault
	if _, err := do(t, prepare.Chat, bare, chat(`"n":1`)); !errors.As(err, &f) || !strings.Contains(f.Message, "--chat-template") {
		t.Errorf("without a template: %v", err)
	}
}

// FuzzDo has no body that passes the checks of its route break anything.
func FuzzDo(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","prompt":["a",[1]],"text":"a","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"stop":["a"],"n":2}`,
		`{"model":"m","input_ids":[[1],[2]],"prompt":[1,2],"rid":["a","b"],"return_logprob":true,"sampling_params":{"n":2,"stop":"x"}}`,
		`{"model":"m","messages":[{"role":"a","tool_calls":[{"function":{"arguments":"{}"}}]}],"response_format":{"type":"json_schema","json_schema":{"schema":{}}}}`,
	} {
		f.Add(s)
	}
	m := model(f, chatTemplate)
	m.Context = 1000
	f.Fuzz(func(t *testing.T, text string) {
		b, err := body.Parse([]byte(text), body.DefaultMaxDepth)
		if err != nil {
			return
		}
		for rt, check := range map[prepare.Route]body.Check{prepare.Chat: body.CheckChat, prepare.Completions: body.CheckCompletions, prepare.Generate: body.CheckGenerate} {
			if check(&b) != nil {
				continue
			}
			r, err := prepare.Do(t.Context(), rt, &b, m, now)
			var fault *prepare.Fault
			switch {
			case err != nil && !errors.As(err, &fault):
				t.Errorf("%s: %v", text, err)
			case err == nil && (len(r.Prompts) == 0 || r.Sampling.N < 1 || r.Count() == 0):
				t.Errorf("%s: %+v", text, r)
			}
		}
	})
}
