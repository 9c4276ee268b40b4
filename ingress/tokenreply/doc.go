// Package tokenreply makes of the tokens that engines answer with what an engine over
// HTTP would have said: chat completions, completions and SGLang's /generate, streamed or
// whole, in the words of the engine that the tokens come from.
//
// A [Reply] is told what was asked for, and takes pieces of tokens, in whatever portions
// they come. It makes text of them, never half a character of it; finds stop strings,
// also over the borders of tokens, and holds text back only while it may be the begin of
// one; keeps probabilities and counts; and appends events of a stream as soon as there is
// something to say, or the whole answer at its end. The text does not depend on the
// portions.
//
// The package is pure: no I/O, no goroutines, no clock. Of package rpc it has the values
// only. It does not know HTTP, leases, engines' connections, or where text for tokens comes
// from: that is a [Vocabulary].
package tokenreply
