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
	path     string
	upstream string // where engines have it; "" as path
	methods  []string
	// info answers reading requests from what the gateway knows, act all others with
	// a change of the fleet; both are nil for inference routes, which have the rest.
	info      http.HandlerFunc
	act       func(*exchange, *http.Request) error
	maxBody   int64 // 0: as large as the configuration allows
	check     body.Check
	prompts   body.Count
	text      body.Texter
	tokens    body.Tokener // nil where a body has no token ids
	partition body.Partitioner
	endpoint  string     // in metrics
	idPrefix  string     // of request ids that the gateway makes up
	media     body.Media // nil where a body cannot carry any
	plain     bool       // faults of the body are plain text
	// Why several workers cannot share a request: none of any engine, and none of
	// vLLM's; "" where they can.
	alone, aloneVLLM string
}

// engine is the path that engines know the route by.
func (rt *route) engine() string {
	if rt.upstream != "" {
		return rt.upstream
	}
	return rt.path
}

const (
	chatPath    = "/v1/chat/completions"
	workersPath = "/workers"
)

// routeTable is every path that the gateway answers.
func (s *Server) routeTable() map[string]*route {
	get, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	table := map[string]*route{}
	for _, rt := range []*route{
		{path: "/health", methods: get, info: s.health},
		{path: "/liveness", methods: get, info: s.health},
		{path: "/readiness", methods: get, info: s.readiness},
		{path: "/v1/models", methods: get, info: s.models},
		{path: "/status", methods: get, info: s.status},
		{path: workersPath, methods: append(get, http.MethodPost), info: s.workers, act: s.addWorker},
		{path: workersPath + "/", methods: append(get, http.MethodDelete), info: s.worker, act: s.removeWorker},
		{
			path: chatPath, methods: post, check: body.CheckChat, prompts: body.CountChat,
			text: body.TextChat, partition: body.Partition,
			endpoint: "chat", idPrefix: "chatcmpl-", media: body.MediaChat,
		},
		{
			path: "/v1/completions", methods: post, check: body.CheckCompletions, prompts: body.CountCompletions,
			text: body.TextCompletions, tokens: body.TokensCompletions, partition: body.Partition,
			endpoint: "completions", idPrefix: "cmpl-",
		},
		{
			path: "/generate", methods: post, check: body.CheckGenerate, prompts: body.CountGenerate,
			text: body.TextGenerate, tokens: body.TokensGenerate, partition: body.PartitionGenerate,
			endpoint: "generate", idPrefix: "gnt-", plain: true, aloneVLLM: "vLLM has no such route",
		},
		{
			path: "/v1/messages", methods: post, check: body.CheckMessages, prompts: body.CountOne,
			text: body.TextMessages, partition: body.Partition, endpoint: "messages", idPrefix: "msg_", media: body.MediaMessages,
		},
		{
			path: responsesPath, methods: post, check: body.CheckResponses, prompts: body.CountOne,
			text: body.TextResponses, partition: body.Partition, endpoint: "responses", idPrefix: "resp-",
		},
		{
			path: "/v1/embeddings", methods: post, check: body.CheckInput, prompts: body.CountOne,
			text: body.TextEmbeddings, partition: body.Partition, endpoint: "embeddings", idPrefix: "req-", plain: true,
			alone: noKV,
		},
		{
			path: "/v1/classify", methods: post, check: body.CheckInput, prompts: body.CountOne,
			text: body.TextClassify, partition: body.Partition, endpoint: "classify", idPrefix: "req-", plain: true,
			alone: noKV,
		},
		rerank("/v1/rerank", true), rerank("/rerank", false),
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
	rt := s.route(r.URL.Path)
	switch {
	case rt == nil:
		forsake(w, r)
		w.WriteHeader(http.StatusNotFound)
	case !slices.Contains(rt.methods, r.Method):
		forsake(w, r)
		w.Header().Set("Allow", strings.Join(rt.methods, ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
	case rt.info != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		forsake(w, r)
		s.inform(w, r, rt.info)
	case rt.act != nil:
		s.act(w, r, rt)
	default:
		s.infer(w, r, rt)
	}
}

// route finds a path's. Those of single workers have the path of them all.
func (s *Server) route(path string) *route {
	if one, ok := strings.CutPrefix(path, workersPath+"/"); ok {
		if one == "" {
			return nil
		}
		path = workersPath + "/"
	}
	return s.routes[path]
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

// act answers a request that changes the fleet.
func (s *Server) act(w http.ResponseWriter, r *http.Request, rt *route) {
	x := s.open(w, r)
	defer x.close()
	err := rt.act(x, r)
	var p *problem
	switch {
	case err == nil:
	case errors.As(err, &p):
		x.watch.begin(taking)
		p.write(w)
	default:
		panic(http.ErrAbortHandler) // nobody waits for an answer
	}
	_ = x.finish() // a client that has left needs no error
}
