// Package kvindex knows which worker's engine holds which blocks of KV cache, from
// the events that engines publish, and how many leading blocks of a prompt each
// worker holds.
//
// An [Index] is what is known of one model's workers. A [Feed] turns the event
// stream of one worker into changes of the index, and says when to connect anew; it
// does no input or output itself.
//
// The package knows workers by their ids, and tokens. It does not know requests,
// which workers can be chosen, or how events travel.
//
// A block is known by the hash of all tokens up to its end, 64 bits wide. Two chains
// of tokens with one hash are taken for one: by accident, one query in 30 billion
// over a million blocks. What an engine keeps apart although the tokens are the same
// (LoRA adapters, cache levels) is one block here.
//
// Lock order: Source.mu, then Index.mu.
package kvindex
