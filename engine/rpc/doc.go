// Package rpc talks to inference engines over gRPC. [Client] sends prompts as tokens and
// brings the tokens of answers; [Prober] asks an engine who it is, whether it is well and
// how much it has to do; [Client.Events] tells what is in its KV cache. Requests and
// answers are the same for every engine: what the protocols of SGLang and vLLM differ in
// ends here, and so do the generated messages.
//
// Failures are those of package engine, by whether the engine has seen the call: an
// [engine.Error] where the connection failed, an [engine.Refused] where the engine itself
// answered with an error.
//
// The package carries tokens: it does not know text, JSON, legs, plans, policies, or
// the message bus.
package rpc
