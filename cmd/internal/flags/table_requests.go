package flags

// Requests is how requests are told apart, which web pages may send them, and which
// bodies are passed on without being read.
type Requests struct{}

// requestTable defines the flags of [Requests].
func requestTable() []Def { return nil }
