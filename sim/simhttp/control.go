package simhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"smg/sim/simctl"
)

// Control returns the control API of this engine alone, under /_sim/. Unlike
// the one on the engine's own address it can be served elsewhere, where it
// survives Refuse.
func (s *Server) Control() http.Handler { return s.control }

// maxControlBytes bounds the documents of the control API.
const maxControlBytes = 16 << 20

func (s *Server) controlRoutes() {
	c := s.control
	c.HandleFunc("GET /_sim/faults", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.faults.get())
	})
	c.HandleFunc("PUT /_sim/faults", s.putFaults)
	c.HandleFunc("DELETE /_sim/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.replaceFaults(w, simctl.Faults{})
	})
	c.HandleFunc("POST /_sim/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.records.clear()
		s.replaceFaults(w, simctl.Faults{})
	})
	c.HandleFunc("POST /_sim/release", s.release)
	c.HandleFunc("GET /_sim/ledger", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Ledger())
	})
	c.HandleFunc("GET /_sim/transfers", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Transfers())
	})
	c.HandleFunc("GET /_sim/records", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, s.records.list(r.URL.Query().Get("path")))
	})
	c.HandleFunc("DELETE /_sim/records", func(w http.ResponseWriter, _ *http.Request) {
		s.records.clear()
		w.WriteHeader(http.StatusNoContent)
	})
	c.HandleFunc("/_sim/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotFound, simctl.Error{Message: "no such control route: " + r.Method + " " + r.URL.Path})
	})
}

func (s *Server) putFaults(w http.ResponseWriter, r *http.Request) {
	f, err := decodeFaults(http.MaxBytesReader(w, r.Body, maxControlBytes))
	if err != nil {
		writeJSON(w, http.StatusBadRequest, simctl.Error{Message: err.Error()})
		return
	}
	s.replaceFaults(w, f)
}

// decodeFaults refuses names it does not know: a fault with a typing error
// would silently be none.
func decodeFaults(r io.Reader) (f simctl.Faults, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("decode faults: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return f, errors.New("decode faults: more than one document")
	}
	return f, f.Validate()
}

func (s *Server) replaceFaults(w http.ResponseWriter, f simctl.Faults) {
	if err := s.SetFaults(f); err != nil {
		writeJSON(w, http.StatusInternalServerError, simctl.Error{Message: err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, f)
}

func (s *Server) release(w http.ResponseWriter, r *http.Request) {
	n := 0
	if text := r.URL.Query().Get("count"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 0 {
			writeJSON(w, http.StatusBadRequest, simctl.Error{Message: fmt.Sprintf("count must be a number of requests, not %q", text)})
			return
		}
	}
	writeJSON(w, http.StatusOK, simctl.Released{Released: s.faults.release(n)})
}
