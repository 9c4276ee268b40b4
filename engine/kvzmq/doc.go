// Package kvzmq reads what engines publish of their KV cache over ZeroMQ, as vLLM and
// SGLang do where they are spoken to over HTTP: a PUB socket for each data-parallel rank
// with the events, and, if the engine is told to have one, a ROUTER socket that sends
// again what it remembers. [Open] is one subscription to all ranks of one engine.
//
// The package knows the publishers' messages. It does not know workers, policies, or
// what becomes of the events.
package kvzmq
