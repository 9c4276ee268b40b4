package ingress

// adminRoutes are the paths for those who run the gateway.
func (s *Server) adminRoutes() []*route {
	return []*route{
		{path: "/flush_cache", class: classAdmin, post: s.flushCache},
		{path: "/get_loads", class: classAdmin, get: s.loads},
		{path: "/status", class: classAdmin, get: told(s.status)},
		{path: workersPath, class: classAdmin, get: s.workers, post: s.addWorker},
		{path: workersPath + "/", template: workersPath + "/{worker_id}", class: classAdmin, get: s.worker, put: s.replaceWorker, patch: s.patchWorker, delete: s.removeWorker},
	}
}
