package sim

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config describes the hardware and the limits of one engine.
type Config struct {
	// KVBlocks is the number of KV blocks, BlockSize the tokens in each.
	KVBlocks  int
	BlockSize int
	// ContextLength bounds prompt plus output, in tokens. See Config.Context.
	ContextLength int

	// MaxRunning bounds the sequences that hold KV at the same time.
	MaxRunning int
	// MaxQueue bounds the waiting queue; 0 lets it grow without bound.
	MaxQueue int
	// ChunkTokens is the token budget of one iteration. A longer prompt is
	// prefilled in chunks of at most this size.
	ChunkTokens int

	// PrefillTokensPerSecond is the prefill throughput.
	PrefillTokensPerSecond float64
	// DecodeStep is what a decode iteration with one sequence costs,
	// DecodePerSequence what every further sequence adds.
	DecodeStep        time.Duration
	DecodePerSequence time.Duration

	// BytesPerToken is the size of one token's KV, TransferBytesPerSecond the
	// speed at which KV leaves the engine, one sequence after another, and
	// TransferLatency what each transfer takes besides.
	BytesPerToken          int
	TransferBytesPerSecond float64
	TransferLatency        time.Duration
}

// DefaultConfig resembles a mid-size model on one accelerator: 131,072 tokens
// of KV cache, 20,000 prefill tokens per second, 8 ms per decode step, and a
// network of 200 Gbit/s that takes 16 MiB of KV per 128 tokens.
func DefaultConfig() Config {
	return Config{
		KVBlocks:               8192,
		BlockSize:              16,
		ContextLength:          32768,
		MaxRunning:             256,
		MaxQueue:               4096,
		ChunkTokens:            8192,
		PrefillTokensPerSecond: 20000,
		DecodeStep:             8 * time.Millisecond,
		DecodePerSequence:      50 * time.Microsecond,
		BytesPerToken:          128 << 10,
		TransferBytesPerSecond: 25e9,
		TransferLatency:        time.Millisecond,
	}
}

const (
	maxBlocks    = 1 << 24
	maxBlockSize = 1 << 16
	maxTokens    = 1 << 28
)

// Validate reports every fault at once, each naming the flag that sets the
// field.
func (c Config) Validate() error {
	var faults []error
	inRange := func(flag string, value, low, high int) {
		if value < low || value > high {
			faults = append(faults, fmt.Errorf("%s must be between %d and %d, not %d", flag, low, high, value))
		}
	}
	inRange("--kv-blocks", c.KVBlocks, 1, maxBlocks)
	inRange("--block-size", c.BlockSize, 1, maxBlockSize)
	inRange("--context-length", c.ContextLength, 2, maxTokens)
	inRange("--max-running", c.MaxRunning, 1, 1<<20)
	inRange("--max-queue", c.MaxQueue, 0, 1<<24)
	inRange("--chunk-tokens", c.ChunkTokens, 1, maxTokens)
	if !(c.PrefillTokensPerSecond > 0) || math.IsInf(c.PrefillTokensPerSecond, 0) {
		faults = append(faults, fmt.Errorf("--prefill-tps must be a positive number, not %v", c.PrefillTokensPerSecond))
	}
	if c.DecodeStep < 0 {
		faults = append(faults, fmt.Errorf("--decode-step-ms must not be negative, not %v", c.DecodeStep))
	}
	if c.DecodePerSequence < 0 {
		faults = append(faults, fmt.Errorf("--decode-seq-us must not be negative, not %v", c.DecodePerSequence))
	}
	inRange("--kv-bytes-per-token", c.BytesPerToken, 1, 1<<30)
	if !(c.TransferBytesPerSecond > 0) || math.IsInf(c.TransferBytesPerSecond, 0) {
		faults = append(faults, fmt.Errorf("--transfer-gb-s must be a positive number, not %v", c.TransferBytesPerSecond/1e9))
	}
	if c.TransferLatency < 0 {
		faults = append(faults, fmt.Errorf("--transfer-latency-ms must not be negative, not %v", c.TransferLatency))
	}
	return errors.Join(faults...)
}

// Context is the longest sequence the engine takes, in tokens: ContextLength,
// or what fits into all KV blocks if that is less.
func (c Config) Context() int {
	return min(c.ContextLength, c.KVBlocks*c.BlockSize)
}

// blocksFor returns the number of blocks that hold the KV of n tokens.
func (c Config) blocksFor(tokens int) int {
	return (tokens + c.BlockSize - 1) / c.BlockSize
}

// iterationTime is the price of one iteration: its prefill tokens at the
// prefill throughput, plus one decode step for the sequences that decode.
func (c Config) iterationTime(prefillTokens, decoding int) time.Duration {
	d := time.Duration(float64(prefillTokens) / c.PrefillTokensPerSecond * float64(time.Second))
	if decoding > 0 {
		d += c.DecodeStep + time.Duration(decoding-1)*c.DecodePerSequence
	}
	return d
}

// transferBytes is the size of the KV of n tokens, in whole blocks.
func (c Config) transferBytes(tokens int) int64 {
	return int64(c.blocksFor(tokens)) * int64(c.BlockSize) * int64(c.BytesPerToken)
}

// transferTime is what sending the KV of n tokens takes once the line is free.
func (c Config) transferTime(tokens int) time.Duration {
	return c.TransferLatency + time.Duration(float64(c.transferBytes(tokens))/c.TransferBytesPerSecond*float64(time.Second))
}
