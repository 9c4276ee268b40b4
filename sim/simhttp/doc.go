// Package simhttp puts a simulated engine behind HTTP: the routes, bodies,
// errors and metrics of SGLang and vLLM, in real time or scaled, with faults
// that can be switched on while it runs. It owns the clock, the goroutines and
// the protocols; what the engine computes and when is decided by package sim,
// what it says by package simtext. It knows nothing of any router.
//
// A Server is one engine. A Fleet is many of them in one process.
package simhttp
