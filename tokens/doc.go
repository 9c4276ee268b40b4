// Package tokens knows what turns the chats and texts of each model into token ids: its
// tokenizer, its chat template, the tokens that end an answer, and how long a context it
// has. A [Registry] is told of models as workers bring them, finds their files, which
// the operator has named or the workers' labels do, loads them in the background, and
// says of each whether it is loading, ready, or why it failed.
//
// The package reads files and nothing else: it downloads nothing, and does not know
// requests, workers or their health.
package tokens
