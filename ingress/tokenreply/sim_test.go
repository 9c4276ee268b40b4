package tokenreply_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/engine/rpc"
	"smg/ingress/tokenreply"
	"smg/sim/simhttp"
	"smg/sim/simtest"
	"smg/sim/simtext"
)

// What is made of an engine's tokens is, byte by byte, what the engine says over HTTP.
func TestAsOverHTTP(t *testing.T) {
	const long = "Tell me of the sea, of ships and of the wind that carries them over the waters to the shores of far lands, and back."
	cases := []struct {
		name string
		api  tokenreply.API
		// body is the request but for its prompts; Generate's sampling parameters are put
		// where they belong.
		body    map[string]any
		prompts []string
		batch   bool
		only    simhttp.Kind // "" for all
		// holds says that text is held back which the simulated engine, knowing what comes,
		// does not hold: events differ, the text does not.
		holds bool
		// probs are what the engine is to tell of probabilities, which only gRPC brings.
		probs rpc.LogprobsWanted
	}{
		{name: "chat", api: tokenreply.Chat},
		{name: "chat long", api: tokenreply.Chat, prompts: []string{long}},
		{name: "chat at the limit", api: tokenreply.Chat, body: map[string]any{"max_tokens": 5}},
		{name: "chat stop", api: tokenreply.Chat, body: map[string]any{"stop": []string{". ", "e"}}},
		{name: "chat stop over tokens", api: tokenreply.Chat, body: map[string]any{"stop": "e "}},
		{name: "chat stop kept", api: tokenreply.Chat, body: map[string]any{"stop": "e ", "include_stop_str_in_output": true}},
		{name: "chat stop late", api: tokenreply.Chat, body: map[string]any{"stop": "e", "min_tokens": 9}},
		{name: "chat stop never", api: tokenreply.Chat, body: map[string]any{"stop": "e\te"}, holds: true},
		{name: "chat n", api: tokenreply.Chat, body: map[string]any{"n": 3, "temperature": 0.5}},
		{name: "chat usage", api: tokenreply.Chat, body: map[string]any{"stream_options": map[string]bool{"include_usage": true}}},
		{name: "completions", api: tokenreply.Completions},
		{name: "completions batch", api: tokenreply.Completions, prompts: []string{"one", "and two", long}, batch: true, body: map[string]any{"max_tokens": 9}},
		{name: "completions batch n", api: tokenreply.Completions, prompts: []string{"one", "two"}, batch: true, body: map[string]any{"n": 2, "stop": "a", "max_tokens": 40}},
		{name: "completions echo", api: tokenreply.Completions, body: map[string]any{"echo": true, "stop": []string{"t", "he"}, "max_tokens": 80}},
		{name: "completions usage", api: tokenreply.Completions, body: map[string]any{"n": 2, "stream_options": map[string]bool{"include_usage": true}}},
		{name: "generate", api: tokenreply.Generate, only: simhttp.SGLang},
		{name: "generate stop", api: tokenreply.Generate, only: simhttp.SGLang, body: map[string]any{"stop": []string{"e", "a "}}},
		{name: "generate stop kept", api: tokenreply.Generate, only: simhttp.SGLang, body: map[string]any{"stop": []string{"he"}, "no_stop_trim": true}},
		{name: "generate one batch", api: tokenreply.Generate, only: simhttp.SGLang, batch: true},
		{name: "generate batch n", api: tokenreply.Generate, only: simhttp.SGLang, prompts: []string{"one", "two"}, batch: true, body: map[string]any{"n": 2, "max_new_tokens": 6}},
		{name: "generate logprobs", api: tokenreply.Generate, only: simhttp.SGLang, body: map[string]any{"stop": "e"}, probs: rpc.LogprobsWanted{Output: true, From: -1}},
		{name: "generate all logprobs", api: tokenreply.Generate, only: simhttp.SGLang, body: map[string]any{"n": 2}, probs: rpc.LogprobsWanted{Output: true, Prompt: true}},
		{name: "generate top logprobs", api: tokenreply.Generate, only: simhttp.SGLang, body: map[string]any{"max_new_tokens": 4}, probs: rpc.LogprobsWanted{Output: true, From: -1, Top: 2}},
		{name: "generate logprobs from the second", api: tokenreply.Generate, only: simhttp.SGLang, probs: rpc.LogprobsWanted{Output: true, Prompt: true, From: 1}},
	}
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		for _, tc := range cases {
			if tc.only != "" && tc.only != kind {
				continue
			}
			if len(tc.prompts) == 0 {
				tc.prompts = []string{"Hello, world"}
			}
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stream=%t", kind, tc.name, stream), func(t *testing.T) {
					cfg := simtest.Config()
					cfg.Kind = kind
					want := ask(t, simtest.Start(t, cfg), tc.api, tc.body, tc.prompts, tc.batch, stream, tc.probs)
					compare := perChoice
					if tc.holds && stream {
						compare = inTheEnd
					}
					if !tc.probs.Output {
						got := answered(t, cfg, nil, tc.api, tc.body, tc.prompts, tc.batch, stream, want, tc.probs)
						if diff := cmp.Diff(compare(want), compare(got)); diff != "" {
							t.Errorf("over HTTP (-), of tokens (+):\n%s", diff)
						}
					}
					if stream && (kind == simhttp.VLLM || tc.api == tokenreply.Generate) {
						compare = inTheEnd // over gRPC the end comes behind the last token
					}
					got := answered(t, cfg, simtest.Start(t, simtest.GRPC(cfg)), tc.api, tc.body, tc.prompts, tc.batch, stream, want, tc.probs)
					if diff := cmp.Diff(compare(want), compare(got)); diff != "" {
						t.Errorf("over HTTP (-), over gRPC (+):\n%s", diff)
					}
				})
			}
		}
	}
}

// ask is what the engine says over HTTP.
func ask(t *testing.T, e *simtest.Engine, api tokenreply.API, more map[string]any, prompts []string, batch, stream bool, probs rpc.LogprobsWanted) string {
	t.Helper()
	body := map[string]any{"model": "sim"}
	if stream {
		body["stream"] = true
	}
	params := body
	var prompt any = prompts
	if !batch {
		prompt = prompts[0]
	}
	path := "/v1/completions"
	switch api {
	case tokenreply.Chat:
		path = "/v1/chat/completions"
		body["messages"] = []map[string]string{{"role": "user", "content": prompts[0]}}
	case tokenreply.Completions:
		body["prompt"] = prompt
	case tokenreply.Generate:
		path = "/generate"
		params = map[string]any{}
		body["text"], body["sampling_params"] = prompt, params
		body["return_logprob"], body["top_logprobs_num"] = probs.Output, probs.Top
		if probs.Prompt {
			body["logprob_start_len"] = probs.From
		}
	}
	for k, v := range more {
		if k != "stream_options" || stream {
			params[k] = v
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Post(e.URL+path, "application/json", strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s (%v)", resp.StatusCode, answer, err)
	}
	return string(answer)
}

// answered is what is made of the tokens of the same request, which e says over gRPC if
// it is not nil. Names and times are those of like.
func answered(t *testing.T, cfg simhttp.Config, e *simtest.Engine, api tokenreply.API, more map[string]any, prompts []string, batch, stream bool, like string, probs rpc.LogprobsWanted) string {
	t.Helper()
	req := &tokenreply.Request{
		API: api, Engine: tokenreply.SGLang, Model: "sim", Batch: batch, N: get(more, "n", 1), Stream: stream,
		EOS: []uint32{uint32(simtext.EOS)}, MinTokens: get(more, "min_tokens", 0), SkipSpecial: true, Echo: get(more, "echo", false),
		KeepStop: get(more, "include_stop_str_in_output", false) || get(more, "no_stop_trim", false),
		Elapsed:  func() time.Duration { return time.Second },
	}
	if cfg.Kind == simhttp.VLLM {
		req.Engine = tokenreply.VLLM
	}
	switch stop := more["stop"].(type) {
	case string:
		req.Stop = []string{stop}
	case []string:
		req.Stop = stop
	}
	_, req.IncludeUsage = more["stream_options"]
	ids := regexp.MustCompile(`"id":"([^"]*)"`).FindAllStringSubmatch(like, -1)
	req.ID = ids[0][1]
	if m := regexp.MustCompile(`"created":(\d+)`).FindStringSubmatch(like); m != nil {
		req.Created, _ = strconv.ParseInt(m[1], 10, 64)
	}

	limit := map[tokenreply.API]int{tokenreply.Chat: 1 << 16, tokenreply.Completions: 16, tokenreply.Generate: 128}[api]
	limit = get(more, "max_new_tokens", get(more, "max_tokens", limit))
	writer := simtext.NewWriter(cfg.Lengths)
	vocabulary, _ := words()
	var pieces [][][]*rpc.Piece // by prompt and choice
	names := namesOf(like, api, len(prompts), req.N, stream)
	for i, text := range prompts {
		if api == tokenreply.Chat {
			text, _ = simtext.FlattenChat([]simtext.Message{{Role: "user", Content: json.RawMessage(strconv.Quote(text))}}, nil)
		}
		tokens := simtext.Tokenize(text)
		req.Prompts = append(req.Prompts, tokenreply.Prompt{ID: names[i], Tokens: wide(tokens), Text: text, Logprobs: probs})
		var choices [][]*rpc.Piece
		for k := range req.N {
			s := simtext.Sampling{
				Temperature: get(more, "temperature", 1.0), TopP: 1, Choice: k,
				MaxTokens: limit, MinTokens: req.MinTokens, Stop: req.Stop, KeepStop: req.KeepStop,
			}
			answer := writer.Answer(tokens, s)
			s.Stop, s.IgnoreEOS, s.MaxTokens = nil, true, len(answer.Tokens)
			for at, delta := range writer.Answer(tokens, s).Deltas {
				vocabulary.tokens[uint32(answer.Tokens[at])] = delta
			}
			choices = append(choices, said(answer, k))
		}
		pieces = append(pieces, choices)
	}

	if e != nil {
		pieces = overGRPC(t, e, req, limit, get(more, "temperature", 1.0))
	}
	r := begin(t, req, vocabulary)
	var dst []byte
	for left := true; left; {
		left = false
		for i := range pieces {
			for k, list := range pieces[i] {
				if len(list) == 0 {
					continue
				}
				var err error
				if dst, err = r.Append(dst, i, list[0]); err != nil {
					t.Fatal(err)
				}
				pieces[i][k] = list[1:]
				left = true
			}
		}
	}
	if !r.Done() {
		t.Error("the reply is not done")
	}
	return string(r.AppendEnd(dst))
}

// said are the pieces of an answer, one per token, the last with its end.
func said(a simtext.Answer, index int) (all []*rpc.Piece) {
	for _, token := range a.Tokens {
		all = append(all, &rpc.Piece{Index: index, Tokens: []uint32{uint32(token)}})
	}
	end := all[len(all)-1]
	end.Done, end.Finish, end.StopText = true, string(a.Finish), a.StopString
	if a.Finish == simtext.FinishStop && a.StopString == "" {
		end.StopToken = new(uint32(a.StopToken))
	}
	return all
}

func wide(tokens []simtext.Token) (all []uint32) {
	for _, t := range tokens {
		all = append(all, uint32(t))
	}
	return all
}

func get[T any](m map[string]any, name string, otherwise T) T {
	if v, ok := m[name].(T); ok {
		return v
	}
	return otherwise
}

// namesOf are the ids of each prompt's answers in like.
func namesOf(like string, api tokenreply.API, prompts, n int, stream bool) []string {
	names := make([]string, prompts)
	if api != tokenreply.Generate {
		return names
	}
	for at, text := range strings.Split(like, `{"text":`)[1:] {
		id := regexp.MustCompile(`"id":"([^"]*)"`).FindStringSubmatch(text)[1]
		if m := regexp.MustCompile(`"index":(\d+)`).FindStringSubmatch(text); stream && m != nil {
			at, _ = strconv.Atoi(m[1])
		} else if stream {
			at = 0
		}
		names[at/n] = id
	}
	return names
}

// perChoice are the lines of an answer, by the choice that they belong to: events of
// several choices come in any order.
func perChoice(answer string) map[string][]string {
	answer = regexp.MustCompile(`"e2e_latency":[0-9.]+`).ReplaceAllString(answer, `"e2e_latency":0`)
	answer = regexp.MustCompile(`"cached_tokens":\d+`).ReplaceAllString(answer, `"cached_tokens":0`)
	answer = regexp.MustCompile(`-\d\.\d{6}0+1\b`).ReplaceAllStringFunc(answer, func(number string) string {
		v, _ := strconv.ParseFloat(number, 32) // gRPC has no more of it
		return strconv.FormatFloat(v, 'f', -1, 32)
	})
	lines := map[string][]string{}
	for event := range strings.SplitSeq(answer, "\n\n") {
		index := ""
		if m := regexp.MustCompile(`"index":(\d+)`).FindStringSubmatch(event); m != nil && strings.HasPrefix(event, "data: ") {
			index = m[1]
		}
		lines[index] = append(lines[index], event)
	}
	return lines
}

// overGRPC are the pieces of the engine's answers, by prompt and choice.
func overGRPC(t *testing.T, e *simtest.Engine, req *tokenreply.Request, limit int, temperature float64) (all [][][]*rpc.Piece) {
	t.Helper()
	client, err := rpc.New(rpc.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	target, err := client.Target(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range req.Prompts {
		in := &rpc.Request{ID: fmt.Sprintf("r-%d", i), Tokens: p.Tokens, Sampling: rpc.DefaultSampling(), Stream: req.Stream, Logprobs: p.Logprobs}
		s := &in.Sampling
		s.N, s.Temperature, s.Stop, s.KeepStop, s.MinTokens = req.N, temperature, req.Stop, req.KeepStop, req.MinTokens
		if limit < 1<<16 {
			s.MaxTokens = &limit
		}
		stream, err := client.Generate(t.Context(), target, string(e.Server.Config().Kind), in)
		if err != nil {
			t.Fatal(err)
		}
		choices := make([][]*rpc.Piece, req.N)
		for {
			piece, err := stream.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			choices[piece.Index] = append(choices[piece.Index], &piece)
		}
		stream.Close()
		all = append(all, choices)
	}
	return all
}

// inTheEnd is what a stream comes down to: the texts of each choice put together, and its
// last event.
func inTheEnd(answer string) map[string][]string {
	text := regexp.MustCompile(`"(?:content|text)":("(?:[^"\\]|\\.)*")`)
	choices := perChoice(answer)
	for i, events := range choices {
		all, last := "", ""
		var rest []string
		for _, event := range events {
			m := text.FindStringSubmatch(event)
			if m == nil {
				rest = append(rest, event)
				continue
			}
			part, _ := strconv.Unquote(m[1])
			if strings.Contains(event, `"meta_info"`) { // which has all
				all = ""
			}
			all, last = all+part, event
		}
		choices[i] = append([]string{all, text.ReplaceAllString(last, "")}, rest...)
	}
	return choices
}
