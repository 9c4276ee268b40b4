// Package simgrpc puts a simulated engine behind gRPC, in the protocol of SGLang's
// scheduler or of vLLM's engine. It turns messages into calls of package simhttp's
// server and back: what the engine computes, its faults and its accounts are the same as
// over HTTP. It knows nothing of any router.
package simgrpc
