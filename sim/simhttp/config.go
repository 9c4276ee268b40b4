package simhttp

import (
	"errors"
	"fmt"
	"math"
	"net"

	"smg/sim"
	"smg/sim/simtext"
)

// Kind is the engine whose protocol is spoken.
type Kind string

// The engines that can be simulated.
const (
	SGLang Kind = "sglang"
	VLLM   Kind = "vllm"
)

// Config describes one served engine.
type Config struct {
	Kind  Kind
	Model string
	// Name is shown in logs, and makes the request ids of this engine differ
	// from those of others.
	Name string
	// Core is the scheduler behind the protocol.
	Core sim.Config
	// TimeScale is how long a simulated second takes: 1 is real time, 0.1 ten
	// times faster, 0 does not wait at all.
	TimeScale float64
	// Lengths bounds answers that nothing else stops, in tokens.
	Lengths simtext.Lengths
	// Tokens is how text and tokens belong together.
	Tokens simtext.Scheme
	// TokenizerPath is what the engine says of where its tokenizer is, empty for its
	// model's name.
	TokenizerPath string
	// EmbeddingDimensions is the length of an embedding.
	EmbeddingDimensions int
	// APIKey, if not empty, is demanded where the real engine demands it.
	APIKey string
	// HideCached leaves out of usages how much of the prompt was cached, as engines do
	// unless they are told otherwise.
	HideCached bool
	// MaxBodyBytes bounds request bodies.
	MaxBodyBytes int64
	// Disagg is the engine's part among others.
	Disagg Disaggregation
	// Ranks are its data-parallel ranks.
	Ranks Ranks
	// KVEvents has the engine tell how its prefix cache changes, see [Server.SubscribeKV].
	KVEvents bool
	// Front, if not nil, serves the engine in another protocol than HTTP on its listener.
	Front func(*Server) Front
}

// Front answers for an engine.
type Front interface {
	// Serve answers on l until Close is called.
	Serve(l net.Listener) error
	// CloseIdle closes connections without a call in flight.
	CloseIdle()
	// Close cuts all connections and returns when no call runs any more.
	Close()
}

// DefaultConfig is an SGLang engine in real time.
func DefaultConfig() Config {
	return Config{
		Kind:                SGLang,
		Model:               "sim",
		Name:                "engine-0",
		Core:                sim.DefaultConfig(),
		TimeScale:           1,
		Lengths:             simtext.Lengths{Min: 16, Max: 160},
		EmbeddingDimensions: 64,
		MaxBodyBytes:        64 << 20,
		Disagg:              defaultDisaggregation(),
	}
}

// Validate reports every fault at once, each naming the flag that sets the
// field.
func (c Config) Validate() error {
	faults := []error{c.Core.Validate()}
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Kind != SGLang && c.Kind != VLLM {
		bad("--engine must be sglang or vllm, not %q", c.Kind)
	}
	if c.Model == "" {
		bad("--model must not be empty")
	}
	if !(c.TimeScale >= 0) || math.IsInf(c.TimeScale, 0) {
		bad("--time-scale must be 0 or a positive number, not %v", c.TimeScale)
	}
	if c.Lengths.Min < 1 || c.Lengths.Max < c.Lengths.Min {
		bad("--answer-min-tokens must be at least 1 and at most --answer-max-tokens, not %d and %d", c.Lengths.Min, c.Lengths.Max)
	}
	if c.EmbeddingDimensions < 1 || c.EmbeddingDimensions > maxDimensions {
		bad("--embedding-dimensions must be between 1 and %d, not %d", maxDimensions, c.EmbeddingDimensions)
	}
	if c.MaxBodyBytes < 1 {
		bad("--max-body-bytes must be positive, not %d", c.MaxBodyBytes)
	}
	faults = append(faults, c.Ranks.validate()...)
	return errors.Join(append(faults, c.Disagg.validate(c.Kind)...)...)
}

// The limits of one request.
const (
	maxDimensions = 8192
	maxSequences  = 1024
	maxChoices    = 128
	// maxForcedTokens bounds the answers that ignore their natural end: all
	// text is composed beforehand.
	maxForcedTokens = 1 << 21
)
