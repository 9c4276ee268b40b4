package ingress

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"smg/ingress/body"
)

// route is one path of the API.
type route struct {
	path    string
	methods []string
	// info answers from what the gateway knows; nil for inference routes, which
	// have the rest.
	info     http.HandlerFunc
	check    body.Check
	prompts  body.Count
	endpoint string // in metrics
	idPrefix string // of request ids that the gateway makes up
	media    bool   // the body may carry media
	plain    bool   // faults of the body are plain text
}

const chatPath = "/v1/chat/completions"

// routeTable is every path that the gateway answers.
func (s *Server) routeTable() map[string]*route {
	get, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	table := map[string]*route{}
	for _, rt := range []*route{
		{path: "/health", methods: get, info: s.health},
		{path: "/liveness", methods: get, info: s.health},
		{path: "/readiness", methods: get, info: s.readiness},
		{path: "/v1/models", methods: get, info: s.models},
		{path: "/workers", methods: get, info: s.workers},
		{path: chatPath, methods: post, check: body.CheckChat, prompts: body.CountChat, endpoint: "chat", idPrefix: "chatcmpl-", media: true},
		{path: "/v1/completions", methods: post, check: body.CheckCompletions, prompts: body.CountCompletions, endpoint: "completions", idPrefix: "cmpl-"},
		{path: "/generate", methods: post, check: body.CheckGenerate, prompts: body.CountGenerate, endpoint: "generate", idPrefix: "gnt-", plain: true},
	} {
		table[rt.path] = rt
	}
	return table
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	defer s.report(r)
	rt := s.routes[r.URL.Path]
	if rt == nil || rt.info != nil || r.Method != http.MethodPost {
		forsake(w, r)
	}
	switch {
	case rt == nil:
		w.WriteHeader(http.StatusNotFound)
	case !slices.Contains(rt.methods, r.Method):
		w.Header().Set("Allow", strings.Join(rt.methods, ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
	case rt.info != nil:
		s.inform(w, r, rt.info)
	default:
		s.infer(w, r, rt)
	}
}

// report logs a panic, which is a fault of this program, and lets it cut the one
// connection that it concerns: net/http's own report goes to the debug log.
func (s *Server) report(r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		s.log.Error("a request hit a fault of the gateway", slog.String("uri", r.URL.Path), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
	}
	panic(http.ErrAbortHandler)
}

// contained runs what another goroutine than the handler's does for a request. A
// panic there, of which net/http would not know, costs the request and not the
// process.
func (x *exchange) contained(work func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			x.srv.log.Error("a request hit a fault of the gateway", slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			err = gatewayProblem(http.StatusInternalServerError, "internal_error", "the gateway has a fault, which its log tells of")
		}
	}()
	return work()
}

// inform answers an information route, no longer than the client takes the answer.
func (s *Server) inform(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
	x := s.open(w, r)
	defer x.close()
	x.watch.begin(taking)
	answer(w, r)
	_ = x.finish() // a client that has left needs no error
}
