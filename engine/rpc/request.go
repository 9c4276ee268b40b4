package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"

	"smg/engine"
)

// Request is one prompt to be answered. The client reads it only, before
// [Client.Generate] returns.
type Request struct {
	// ID is the engine's name for the call, by which it is aborted. It must be new.
	ID string
	// Tokens are the prompt. Text, if known, is the prompt as text, which engines log.
	Tokens   []uint32
	Text     string
	Sampling Sampling
	Logprobs LogprobsWanted
	// Stream has the answer come as it is generated, and not when it is whole.
	Stream bool
	// Bootstrap is where SGLang's prefill and decode engines meet, nil for a request that
	// one engine serves.
	Bootstrap *Bootstrap
	// KV is what vLLM's engines are told of KV that is handed over, nil for nothing.
	KV *KVTransfer
	// Rank is the data-parallel rank that is to serve the call, nil to leave it to the
	// engine.
	Rank *int
	// Patient says that the engine must not be left before it has said something: a call
	// that is given up earlier is read on in the background, for Config.Patience at most.
	Patient bool
	// Fields go along as metadata.
	Fields []engine.Field
}

// Bootstrap is a meeting of a prefill and a decode engine.
type Bootstrap struct {
	Host string
	Port uint16
	Room int32
}

// KVTransfer is what a KV connector is told: a JSON object, or in the older form, which
// counts only without JSON, an address.
type KVTransfer struct {
	JSON string
	Host string
	Port uint16
}

// Sampling is how tokens are chosen, and when to stop. Engines take a missing number for
// its zero, so all of them count: start from [DefaultSampling].
type Sampling struct {
	Temperature, TopP, MinP                              float64
	TopK                                                 int // -1 is off
	FrequencyPenalty, PresencePenalty, RepetitionPenalty float64
	// MaxTokens bounds the answer; nil leaves it to the engine.
	MaxTokens *int
	MinTokens int
	N         int
	// Stop and StopTokens end an answer. KeepStop has the engine count what matched to
	// the answer.
	Stop       []string
	StopTokens []uint32
	KeepStop   bool
	IgnoreEOS  bool
	// SkipSpecial and SpaceSpecial are how the engine makes text of tokens, where it needs
	// to for Stop.
	SkipSpecial, SpaceSpecial bool
	// Seed is vLLM's alone, of which it takes the low 31 bits; nil for none.
	Seed      *int64
	LogitBias map[uint32]float64
	// Constraint is what the answer must be, nil for anything.
	Constraint *Constraint
}

// DefaultSampling is what engines do where they are told nothing.
func DefaultSampling() Sampling {
	return Sampling{Temperature: 1, TopP: 1, TopK: -1, RepetitionPenalty: 1, N: 1, SkipSpecial: true, SpaceSpecial: true}
}

// Constraint is a form that answers must have.
type Constraint struct {
	Kind    ConstraintKind
	Text    string   // the schema, expression, grammar or tag
	Choices []string // of Choice
}

// ConstraintKind is what a constraint is written in.
type ConstraintKind uint8

// The kinds of constraints.
const (
	JSONSchema ConstraintKind = iota + 1
	JSONObject                // any
	Regex
	Grammar // EBNF
	StructuralTag
	Choice // one of several texts
)

// LogprobsWanted is which probabilities an answer is to tell.
type LogprobsWanted struct {
	// Output asks for those of the answer's tokens, Prompt for those of the prompt's, from
	// the token From on (SGLang; vLLM tells all). Top of the most likely ones come along.
	Output, Prompt bool
	From           int
	Top            int
	// Tokens are tokens of which SGLang tells the probability at each place.
	Tokens []uint32
}

// Logprobs are of consecutive tokens. Values are natural logarithms; NaN is none, as of
// a prompt's first token. Top and Asked are empty or as long as Tokens.
type Logprobs struct {
	Tokens []uint32
	Values []float32
	Top    [][]TokenLogprob
	Asked  [][]TokenLogprob // of LogprobsWanted.Tokens
}

// TokenLogprob is the probability of a token.
type TokenLogprob struct {
	Token uint32
	Value float32
}

// check finds what cannot be sent.
func (r *Request) check() error {
	switch {
	case r.ID == "":
		return errors.New("a call without an id")
	case len(r.Tokens) == 0:
		return errors.New("an empty prompt")
	case r.Sampling.N < 1 || r.Sampling.N > math.MaxInt32:
		return fmt.Errorf("n is %d", r.Sampling.N)
	}
	for _, text := range r.texts() {
		if !utf8.ValidString(text) {
			return fmt.Errorf("text that is not UTF-8: %.40q", text)
		}
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"min_tokens", r.Sampling.MinTokens}, {"logprobs", r.Logprobs.Top}, {"max_tokens", value(r.Sampling.MaxTokens)}, {"rank", value(r.Rank)}} {
		if f.value < 0 || f.value > math.MaxInt32 {
			return fmt.Errorf("%s is %d", f.name, f.value)
		}
	}
	return nil
}

// texts are all strings that go out.
func (r *Request) texts() []string {
	all := append([]string{r.ID, r.Text}, r.Sampling.Stop...)
	if c := r.Sampling.Constraint; c != nil {
		all = append(append(all, c.Text), c.Choices...)
	}
	if r.Bootstrap != nil {
		all = append(all, r.Bootstrap.Host)
	}
	if r.KV != nil {
		all = append(all, r.KV.JSON, r.KV.Host)
	}
	return all
}

func value(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// withFields is ctx with fields as metadata of its calls.
func withFields(ctx context.Context, fields []engine.Field) (context.Context, error) {
	if len(fields) == 0 {
		return ctx, nil
	}
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		name := strings.ToLower(f.Name)
		if !validName(name) {
			return nil, fmt.Errorf("field name %q", f.Name)
		}
		for i := range len(f.Value) {
			if f.Value[i] < 0x20 || f.Value[i] > 0x7e {
				return nil, fmt.Errorf("the value of field %s is not printable", f.Name)
			}
		}
		md[name] = append(md[name], f.Value)
	}
	return metadata.NewOutgoingContext(ctx, md), nil
}

// validName says whether a lower-case name may be a field's: gRPC has some of its own,
// and has values whose names end in -bin in another form.
func validName(name string) bool {
	if name == "" || strings.HasPrefix(name, "grpc-") || strings.HasSuffix(name, "-bin") || name == "te" || name == "content-type" || name == "user-agent" {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// withKey is ctx with a worker's key for its calls.
func withKey(ctx context.Context, key string) (context.Context, error) {
	if key == "" {
		return ctx, nil
	}
	return withFields(ctx, []engine.Field{{Name: "Authorization", Value: "Bearer " + key}})
}
