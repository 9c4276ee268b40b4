package simhttp

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// forMooncake reports whether p is what a consumer with Mooncake is told: five
// members, and no more.
func (p *kvParams) forMooncake(members map[string]json.RawMessage) bool {
	_, both := members["do_remote_decode"]
	return both && !p.RemoteDecode && p.RemotePrefill && p.EngineID != "" && p.Transfer != "" && strings.HasPrefix(p.Bootstrap, "http://") &&
		len(members) == 5
}

// kvURL is where the KV of a request is fetched.
func (s *Server) kvURL(p *kvParams) string {
	if s.cfg.Disagg.connector() == MooncakeConnector {
		return p.Bootstrap + "/kv/" + url.PathEscape(p.EngineID) + "/" + url.PathEscape(p.Transfer)
	}
	return p.url()
}

// rank is what /query says of one.
type rank struct {
	EngineID string            `json:"engine_id"`
	Workers  map[string]string `json:"worker_addr"` // by tensor-parallel rank
}

// query is Mooncake's question: which engines have KV here, by data-parallel rank.
func (s *Server) query(w http.ResponseWriter, r *http.Request) {
	if s.faults.frozen(r.Context()) != nil {
		return
	}
	writeJSON(w, http.StatusOK, map[string]rank{"0": {EngineID: s.engineID, Workers: map[string]string{"0": s.PeerAddr()}}})
}
