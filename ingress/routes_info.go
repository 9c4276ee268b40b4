package ingress

import "net/http"

// infoRoutes are the paths where anybody learns how the gateway is and what it serves.
func (s *Server) infoRoutes() []*route {
	return []*route{
		{path: "/health", class: classPublic, probe: true, get: told(s.health)},
		{path: "/liveness", class: classPublic, probe: true, get: told(s.health)},
		{path: "/readiness", class: classPublic, probe: true, get: told(s.readiness)},
		{path: "/v1/models", class: classPublic, get: told(s.models)},
		{path: "/get_server_info", class: classPublic, get: s.forwarded},
		{path: "/get_model_info", class: classPublic, get: s.forwarded},
		{path: "/health_generate", class: classPublic, get: s.healthGenerate},
		{path: "/engine_metrics", class: classPublic, get: s.engineMetrics},
		{path: "/loads", class: classPublic, get: s.loads},
		{path: "/v1/loads", class: classPublic, get: s.loads}, // as engines have it
	}
}

// told answers from what the gateway knows, no longer than the client takes the answer.
func told(answer http.HandlerFunc) action {
	return func(x *exchange, r *http.Request) error {
		forsake(x.w, r)
		x.watch.begin(taking)
		answer(x.w, r)
		return nil
	}
}
