package ingress

import (
	"net/http"
	"slices"
	"strings"

	"smg/ingress/body"
)

// route is one path of the API.
type route struct {
	path    string
	methods []string
	serve   func(w http.ResponseWriter, r *http.Request, rt *route)
	// Of inference routes:
	check body.Check
	plain bool // faults of the body are plain text
}

// routeTable is every path that the gateway answers.
func (s *Server) routeTable() map[string]*route {
	get, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	table := map[string]*route{}
	for _, rt := range []*route{
		{path: "/health", methods: get, serve: s.health},
		{path: "/liveness", methods: get, serve: s.health},
		{path: "/readiness", methods: get, serve: s.readiness},
		{path: "/v1/models", methods: get, serve: s.models},
		{path: "/workers", methods: get, serve: s.workers},
		{path: "/v1/chat/completions", methods: post, serve: s.infer, check: body.CheckChat},
		{path: "/v1/completions", methods: post, serve: s.infer, check: body.CheckCompletions},
		{path: "/generate", methods: post, serve: s.infer, check: body.CheckGenerate, plain: true},
	} {
		table[rt.path] = rt
	}
	return table
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt := s.routes[r.URL.Path]
	switch {
	case rt == nil:
		w.WriteHeader(http.StatusNotFound)
	case !slices.Contains(rt.methods, r.Method):
		w.Header().Set("Allow", strings.Join(rt.methods, ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		rt.serve(w, r, rt)
	}
}
