package ingress

import "smg/ingress/body"

// Paths that have names of their own, since their answers have something to themselves.
const (
	messagesPath  = "/v1/messages"
	responsesPath = "/v1/responses"
)

// oneToken makes a body for a path ask for the prompt's work alone: a single token,
// whole. Strict engines refuse what makes no sense beside that.
func oneToken(path string, b *body.Body) []body.Edit {
	one := []byte("1")
	edits := append(ownFields(), body.Set("stream", []byte("false")), body.Remove("stream_options"), body.Remove("min_tokens"))
	if _, ok := b.N(); ok {
		edits = append(edits, body.Set("n", one))
	}
	switch {
	case path == responsesPath:
		return append(edits, body.Set("max_output_tokens", one))
	case path == chatPath && b.Field(body.KeyMaxCompletionTokens).Present():
		return append(edits, body.Set("max_completion_tokens", one), body.Remove("max_tokens"))
	}
	return append(edits, body.Set("max_tokens", one))
}
