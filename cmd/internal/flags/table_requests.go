package flags

// Requests is how requests are told apart, which web pages may send them, and which
// bodies are passed on without being read.
type Requests struct {
	// RequestIDHeaders are lower-case header names, the first present one is a request's
	// id.
	RequestIDHeaders []string
}

// requestTable defines the flags of [Requests].
func requestTable() []Def {
	return []Def{
		{
			Name: "request-id-headers", Kind: List, Value: "NAME...", Group: groupRequests, In: serving,
			Help:  "Request headers that may hold the request's id, the first one present is read (x-request-id, x-correlation-id, x-trace-id, request-id).",
			set:   addHeader(func(s *Serve) *[]string { return &s.Requests.RequestIDHeaders }),
			clear: func(s *Serve) { s.Requests.RequestIDHeaders = []string{} },
		},
	}
}
