// Package sim is the scheduler of a simulated inference engine: a waiting
// queue, continuous batching with chunked prefill, a finite pool of KV blocks,
// a block-granular prefix cache with LRU eviction, pre-emption when decode runs
// out of blocks, and the handover of KV from one engine to another: how long its
// blocks are held on either side, and how long it is on the line. It knows requests only as token counts and block hashes;
// it must not know text, HTTP, goroutines or the wall clock.
//
// An Engine is a plain value driven from outside. Every call carries the
// current time as a duration since an origin the caller chooses, so the same
// engine runs in real time behind an HTTP server and in virtual time inside a
// study. What happens depends only on the submitted requests and the times of
// the calls that submit and abort them, never on how often Step is called.
package sim
