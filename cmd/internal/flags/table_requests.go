package flags

// Requests is how requests are told apart, which web pages may send them, and which
// bodies are passed on without being read.
type Requests struct {
	// CORSOrigins are the origins whose pages may use the API, none for any.
	CORSOrigins []string
	// RequestIDHeaders are lower-case header names, the first present one is a request's
	// id.
	RequestIDHeaders []string
}

// requestTable defines the flags of [Requests].
func requestTable() []Def {
	return []Def{
		{
			Name: "cors-allowed-origins", Kind: List, Value: "ORIGIN...", Group: groupRequests, In: serving,
			Help: "Origins whose web pages may use the API, such as https://chat.example.org; any without it.",
			set: func(s *Serve, v string) error {
				s.Requests.CORSOrigins = append(s.Requests.CORSOrigins, v)
				return nil
			},
			clear: func(s *Serve) { s.Requests.CORSOrigins = nil },
		},
		{
			Name: "request-id-headers", Kind: List, Value: "NAME...", Group: groupRequests, In: serving,
			Help:  "Request headers that may hold the request's id, the first one present is read (x-request-id, x-correlation-id, x-trace-id, request-id).",
			set:   addHeader(func(s *Serve) *[]string { return &s.Requests.RequestIDHeaders }),
			clear: func(s *Serve) { s.Requests.RequestIDHeaders = []string{} },
		},
	}
}
