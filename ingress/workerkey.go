package ingress

import (
	"net/http"
	"slices"
	"strings"

	"smg/engine"
	"smg/worker"
)

// Keys seals the keys of workers for their records, and opens them. It is safe for
// concurrent use.
type Keys interface {
	// Seal is what a worker's record keeps of its key. The error says in words why nothing
	// can be kept.
	Seal(s *worker.Spec, key string) ([]byte, error)
	// Open is a worker's key, "" if it has none.
	Open(s *worker.Spec) (string, error)
}

// keyOf is a worker's key, "" if it has none. Most have none, and cost nothing.
func (s *Server) keyOf(w *worker.Spec) (string, error) {
	if len(w.SealedKey) == 0 || s.ring == nil {
		return "", nil
	}
	return s.ring.Open(w)
}

// authorized is fields with the worker's key, if it has one and the client has sent no
// key itself. They are copied if one is added: other legs may be sent the same.
func (s *Server) authorized(fields []engine.Field, w *worker.Spec) ([]engine.Field, error) {
	if len(w.SealedKey) == 0 || slices.ContainsFunc(fields, func(f engine.Field) bool { return f.Name == authorization }) {
		return fields, nil
	}
	key, err := s.keyOf(w)
	if err != nil || key == "" {
		return fields, err
	}
	return append(slices.Clip(fields), engine.Field{Name: authorization, Value: bearer + key}), nil
}

const authorization = "Authorization"

// maxWorkerKey keeps a key inside a worker's record.
const maxWorkerKey = 4000

// sealedKey is what the record of the worker s keeps of the key that a body gives it.
// The error is a *problem.
func (s *Server) sealedKey(w *worker.Spec, key string) ([]byte, error) {
	switch {
	case key == "":
		return nil, nil
	case len(key) > maxWorkerKey:
		return nil, badWorker("api_key is too long: send %d characters at most", maxWorkerKey)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, badWorker("api_key holds blanks, line ends or other characters that a header cannot carry: send letters, digits and punctuation alone")
	case s.ring == nil:
		return nil, badWorker("api_key: this gateway keeps no keys of single workers: leave it out")
	}
	sealed, err := s.ring.Seal(w, key)
	if err != nil {
		return nil, workerProblem(http.StatusBadRequest, codeBadRequest, "api_key cannot be kept: %v", err)
	}
	return sealed, nil
}
