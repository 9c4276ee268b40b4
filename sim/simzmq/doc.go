// Package simzmq publishes what happens to the prefix cache of a simulated engine over
// ZeroMQ, in the words of vLLM's or SGLang's publisher, and sends again what it remembers
// of that to those who ask.
package simzmq
