package tokenreply

import (
	"errors"
	"fmt"
	"time"

	"smg/engine/rpc"
)

// API is what answers are said in.
type API uint8

// The APIs.
const (
	Chat        API = iota + 1 // /v1/chat/completions
	Completions                // /v1/completions
	Generate                   // SGLang's /generate
)

// Engine is whose words an answer has.
type Engine uint8

// The engines.
const (
	SGLang Engine = iota + 1
	VLLM
)

// Request is what was asked for. A [Reply] reads it only.
type Request struct {
	API    API
	Engine Engine

	// ID, Model and Created (seconds of the Unix time) are the head of chat completions and
	// completions.
	ID      string
	Model   string
	Created int64

	Prompts []Prompt
	// Batch says that the prompts came as a list, be it of one.
	Batch bool
	// N is the number of answers to each prompt.
	N int

	Stream bool
	// IncludeUsage has a stream end with the counts of all; with ContinuousUsage as well,
	// each event has those of its choice.
	IncludeUsage, ContinuousUsage bool
	// Incremental has events of Generate say what is new, and not all from the beginning.
	Incremental bool
	// HideCached leaves out of the usage how much of the prompts was cached.
	HideCached bool

	// Stop are strings that end an answer, none of them before it has MinTokens tokens.
	// StopTokens and EOS end an answer where the engine says so; only EOS is a natural end.
	// The text stops before them, or with KeepStop behind them.
	Stop            []string
	StopTokens, EOS []uint32
	MinTokens       int
	KeepStop        bool
	// SkipSpecial leaves special tokens out of the text.
	SkipSpecial bool
	// Echo has answers of Completions begin with the prompt.
	Echo bool

	// Elapsed is how long the request has been here; nil leaves it out.
	Elapsed func() time.Duration
}

// Prompt is one of a request's.
type Prompt struct {
	// ID is the name of the prompt's answers in Generate.
	ID     string
	Tokens []uint32
	// Text is what Echo says; "" has it made of the tokens.
	Text string
	// Logprobs are the probabilities that answers tell. In Completions those of the prompt
	// are told with Echo only.
	Logprobs rpc.LogprobsWanted
	// TokenText has Generate name tokens by their text, too.
	TokenText bool
}

// maxChoices bounds the answers to one request.
const maxChoices = 1 << 16

func (r *Request) check() error {
	var errs []error
	if r.API < Chat || r.API > Generate {
		errs = append(errs, fmt.Errorf("API %d", r.API))
	}
	if r.Engine < SGLang || r.Engine > VLLM {
		errs = append(errs, fmt.Errorf("engine %d", r.Engine))
	}
	if len(r.Prompts) == 0 || r.N < 1 || r.N > maxChoices || len(r.Prompts) > maxChoices/r.N {
		errs = append(errs, fmt.Errorf("%d answers to each of %d prompts", r.N, len(r.Prompts)))
	}
	for i, s := range r.Stop {
		if s == "" {
			errs = append(errs, fmt.Errorf("stop string %d is empty", i))
		}
	}
	return errors.Join(errs...)
}
