package simhttp

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"smg/sim"
	"smg/sim/simctl"
)

// transferStats counts what happens between this engine and others.
type transferStats struct {
	bootstrapFailed atomic.Uint64
	failed          atomic.Uint64
	expired         atomic.Uint64
	duplicateRooms  atomic.Uint64
	recomputed      atomic.Uint64
	encoded         atomic.Uint64
	embeddingHits   atomic.Uint64
	embeddingMisses atomic.Uint64
}

// Transfers reports what has happened between this engine and others.
func (s *Server) Transfers() simctl.Transfers {
	st := &s.transfers
	out := simctl.Transfers{
		BootstrapFailed: st.bootstrapFailed.Load(),
		Failed:          st.failed.Load(),
		Expired:         st.expired.Load(),
		DuplicateRooms:  st.duplicateRooms.Load(),
		Recomputed:      st.recomputed.Load(),
		Encoded:         st.encoded.Load(),
		EmbeddingHits:   st.embeddingHits.Load(),
		EmbeddingMisses: st.embeddingMisses.Load(),
	}
	s.driver.do(func(e *sim.Engine, now time.Duration) {
		totals := e.Loads(now).Totals
		out.Sent, out.SentBytes, out.Received = totals.Sent, totals.SentBytes, totals.Received
	})
	return out
}

// ListenForPeers gives the engine the listener of its bootstrap or side channel
// port, which Serve then answers and closes. It fails for an engine that has no
// such port. It must be called before Serve.
func (s *Server) ListenForPeers(l net.Listener) error {
	if _, _, ok := s.cfg.Disagg.listens(s.cfg.Kind); !ok {
		return fmt.Errorf("engine %s hands nothing to others", s.cfg.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peerDoor = newDoor(l)
	return nil
}

// PeerAddr is the address of the bootstrap or side channel port, "" if there
// is none.
func (s *Server) PeerAddr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peerDoor == nil {
		return ""
	}
	return s.peerDoor.addr
}

// transferAddr is what other engines are told about the side channel.
func (s *Server) transferAddr() (host string, port int) {
	host, text, err := net.SplitHostPort(s.PeerAddr())
	if err != nil {
		return s.cfg.Disagg.SideChannelHost, s.cfg.Disagg.SideChannelPort
	}
	if s.cfg.Disagg.SideChannelHost != "" {
		host = s.cfg.Disagg.SideChannelHost
	}
	port, err = strconv.Atoi(text)
	if err != nil {
		port = s.cfg.Disagg.SideChannelPort
	}
	return host, port
}

// bootstrapPort is the one that /server_info tells.
func (s *Server) bootstrapPort() int {
	if _, text, err := net.SplitHostPort(s.PeerAddr()); err == nil {
		if port, err := strconv.Atoi(text); err == nil {
			return port
		}
	}
	return s.cfg.Disagg.BootstrapPort
}

// peerRoutes is what the port for other engines answers.
func (s *Server) peerRoutes() http.Handler {
	mux := http.NewServeMux()
	if s.cfg.Kind == SGLang {
		s.bootstrapRoutes(mux)
		mux.HandleFunc("POST /embeddings", s.receivers.take)
	} else {
		s.sideChannelRoutes(mux)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.handlers.enter() {
			panic(http.ErrAbortHandler)
		}
		defer s.handlers.leave()
		if s.faults.transfer().Refuse {
			// A connection from before: the next one is refused.
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	})
}

// role is what the engine is, in one word, for people and for SGLang's
// disagg_mode.
func (s *Server) role() string {
	d := s.cfg.Disagg
	switch {
	case d.EncoderOnly:
		return "encode"
	case s.cfg.Kind == SGLang:
		return string(d.Mode)
	case d.encodesOnly():
		return "encode"
	case d.KVRole == KVProducer:
		return string(Prefill)
	case d.KVRole == KVConsumer:
		return string(Decode)
	default:
		return string(Unified)
	}
}
