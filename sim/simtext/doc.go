// Package simtext decides what a simulated engine says: a tokenizer, the chat
// template that flattens messages into a prompt, and answers and embeddings
// that are pure functions of the prompt and the sampling parameters. Two
// engines given the same request produce the same bytes. The package knows
// nothing of time, scheduling or HTTP.
package simtext
