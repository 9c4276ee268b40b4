// Package mooncake reads request traces in the form of the Mooncake release
// (kvcache-ai/Mooncake, Apache-2.0): one request a line, its prompt told as the ids
// of its blocks, where equal ids are equal prefixes. From the ids it makes prompts:
// text and tokens that share what the originals shared.
//
// It holds no trace. It knows nothing of engines' speed or of policies.
package mooncake
