package ingress

import (
	"net/http"
	"slices"
	"strings"

	"smg/ingress/body"
)

// class is who may use a route.
type class uint8

// The classes of routes.
const (
	classAPI    class = iota // who has a client's key, in his turn
	classAdmin               // who runs the gateway
	classPublic              // anybody
)

// action answers a request. Its error is a *problem, errClientGone or errCut, see
// [exchange.conclude]; nil means that the answer is out.
type action func(x *exchange, r *http.Request) error

// route is one path of the API.
type route struct {
	path     string // or what paths of this kind begin with, see template
	template string // of paths that differ in a name, for those who count: "/workers/{worker_id}"
	class    class
	probe    bool // asked all the time, so that it is no news

	get, post, put, patch, delete action // nil: no such method

	// What follows is of inference routes.
	upstream  string // where engines have it; "" as path
	maxBody   int64  // 0: as large as the configuration allows
	check     body.Check
	prompts   body.Count
	text      body.Texter
	tokens    body.Tokener // nil where a body has no token ids
	partition body.Partitioner
	endpoint  string     // in metrics
	media     body.Media // nil where a body cannot carry any
	plain     bool       // faults of the body are plain text
	counted   bool       // its bodies may be passed on unread
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
	table := map[string]*route{}
	for _, rt := range slices.Concat(s.infoRoutes(), s.adminRoutes(), inferenceRoutes()) {
		table[rt.path] = rt
	}
	return table
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

// action finds what answers a request.
func (x *exchange) action(r *http.Request) (action, error) {
	if x.route == nil {
		return nil, &problem{status: http.StatusNotFound, form: empty}
	}
	if act := x.route.action(r.Method); act != nil {
		return act, nil
	}
	x.w.Header().Set("Allow", x.route.allow())
	return nil, &problem{status: http.StatusMethodNotAllowed, form: empty}
}

// action is that of a method, or nil.
func (rt *route) action(method string) action {
	switch method {
	case http.MethodPost:
		return rt.post
	case http.MethodGet, http.MethodHead: // of which the server keeps the body back
		return rt.get
	case http.MethodPut:
		return rt.put
	case http.MethodPatch:
		return rt.patch
	case http.MethodDelete:
		return rt.delete
	}
	return nil
}

// allow lists the methods.
func (rt *route) allow() string {
	var all []string
	for _, method := range [...]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if rt.action(method) != nil {
			all = append(all, method)
		}
	}
	return strings.Join(all, ", ")
}

// name is the route's as a label, of which there are only so many; nil is any path
// that there is not.
func (rt *route) name() string {
	switch {
	case rt == nil:
		return "other"
	case rt.template != "":
		return rt.template
	}
	return rt.path
}
