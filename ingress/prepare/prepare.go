package prepare

import (
	"context"
	"fmt"
	"time"

	"smg/engine/rpc"
	"smg/ingress/body"
	"smg/tokenizer/jinja"
	"smg/tokens"
)

// Route is what a body was sent to.
type Route uint8

// The routes that engines over gRPC can serve.
const (
	Chat        Route = iota + 1 // /v1/chat/completions
	Completions                  // /v1/completions
	Generate                     // SGLang's /generate
)

// Request is a request as tokens. Nobody changes it once it is made: all attempts share it.
type Request struct {
	Route   Route
	Prompts []Prompt
	// Batch says that the prompts came as a list, be it of one.
	Batch    bool
	Sampling rpc.Sampling
	Stream   bool
	// IncludeUsage has a stream end with the counts of all; with ContinuousUsage as well,
	// each event has those of its choice.
	IncludeUsage, ContinuousUsage bool
	// Incremental has events of Generate say what is new, and not all from the beginning.
	Incremental bool
	// Echo has answers of Completions begin with the prompt.
	Echo bool
	// EOS are the tokens with which the model ends an answer.
	EOS []uint32
	// Unknown are keys of the body that mean nothing here, a few of them.
	Unknown []string
}

// Prompt is one of a request's: one call to an engine.
type Prompt struct {
	// ID is the client's name for it, "" for none.
	ID     string
	Tokens []uint32
	// Text is what the tokens were made of, "" if they came as ids.
	Text     string
	Logprobs rpc.LogprobsWanted
	// TokenText has Generate name tokens by their text, too.
	TokenText bool
}

// Count is how many tokens all prompts have.
func (r *Request) Count() int64 {
	var n int64
	for i := range r.Prompts {
		n += int64(len(r.Prompts[i].Tokens))
	}
	return n
}

// Codes of faults, as clients see them. All are the client's: status 400.
const (
	CodeUnsupported = "grpc_not_supported"
	CodeMedia       = "multimodal_not_supported"
	CodeTooLong     = "context_length_exceeded"
	CodeTokens      = "tokenization_failed"
	CodeInvalid     = "request_preparation_failed"
)

// Fault is why a body cannot become a [Request]. No other attempt will help.
type Fault struct {
	Code    string
	Message string
}

func (f *Fault) Error() string { return f.Message }

func invalid(format string, args ...any) *Fault {
	return &Fault{CodeInvalid, fmt.Sprintf(format, args...)}
}

// unsupported refuses what engines over gRPC cannot do.
func unsupported(format string, args ...any) *Fault {
	return &Fault{CodeUnsupported, fmt.Sprintf(format, args...) + ": engines over gRPC have no way for it, serve the model with --connection-mode http"}
}

// maxChoices bounds the answers to all prompts of a request.
const maxChoices = 1024

// Do makes a request of a body that the checks of its route have passed. now is the time
// that chat templates can ask for. The error is a *Fault, or wraps the context's.
func Do(ctx context.Context, rt Route, b *body.Body, m *tokens.Model, now time.Time) (*Request, error) {
	v, err := jinja.FromValidJSON(b.Raw())
	if err != nil {
		return nil, invalid("%v", err)
	}
	top, ok := v.(*jinja.Dict)
	if !ok {
		return nil, invalid("the body is no object")
	}
	f := &fields{dict: top, raw: b}
	if err := refuse(rt, f); err != nil {
		return nil, err
	}
	r := &Request{Route: rt, EOS: m.Ends}
	if rt == Generate {
		r.generate(f)
	} else {
		r.openAI(f, m)
	}
	if f.fault != nil {
		return nil, f.fault
	}
	if rt == Chat {
		err = r.chat(ctx, f, m, now)
	} else {
		err = r.prompts(f, m)
	}
	if err != nil {
		return nil, err
	}
	if f.fault != nil {
		return nil, f.fault
	}
	r.Unknown = f.unknown()
	return r, r.fits(m)
}

// fits finds what is too much of a request.
func (r *Request) fits(m *tokens.Model) error {
	if r.Sampling.N > maxChoices/len(r.Prompts) {
		return unsupported("%d answers to each of %d prompts, more than %d together", r.Sampling.N, len(r.Prompts), maxChoices)
	}
	for i := range r.Prompts {
		switch n := len(r.Prompts[i].Tokens); {
		case n == 0:
			return invalid("prompt %d is empty", i)
		case m.Context > 0 && n >= m.Context:
			return &Fault{CodeTooLong, fmt.Sprintf("prompt %d has %d tokens; the model's context has room for %d, prompt and answer together", i, n, m.Context)}
		}
	}
	return nil
}
