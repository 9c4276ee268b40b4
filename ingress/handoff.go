package ingress

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/google/uuid"

	"smg/bootstrap"
	"smg/worker"
)

// fieldKV is where vLLM's engines are told of KV that is to be handed over.
const fieldKV = "kv_transfer_params"

// remoteDecode asks a prefill engine to keep the KV for a decode engine.
var remoteDecode = []byte(`{"do_remote_decode":true,"do_remote_prefill":false}`)

// handoff is how the KV of one request gets from a prefill engine of vLLM to a decode
// engine. The zero value is that of a request that decode computes alone.
type handoff struct {
	prefill *call
	mode    string // one of connectorMode's
	// request is the id under which both engines know the request, answer the one that
	// prefill made of it, "" if it named none.
	request, answer string
	// Mooncake's alone: the id of the transfer, "" where decode cannot be told of it, of
	// prefill's engine, and where that is met.
	transfer, engine, addr string

	params []byte        // what decode is told, nil if nothing
	since  time.Duration // on the request's clock: when prefill had answered
	taken  bool          // a decode engine has it, which sees to the KV from now on
	heard  bool          // one may have it, whose connection broke
}

// connectorMode is how a prefill worker hands over. How an engine was started cannot
// be asked over HTTP: one that names no connector is told what NIXL needs, which all
// others ignore.
func connectorMode(prefill *worker.Spec) string {
	switch prefill.KVConnector {
	case worker.MooncakeConnector, worker.MooncakeFound:
		return modeMooncake
	case worker.NixlConnector, "":
		return modeNixl
	}
	return modePassthrough
}

// handoffFrom is a handoff that has not begun.
func (x *exchange) handoffFrom(c *call, request string) handoff {
	w := c.pick.Worker
	h := handoff{prefill: c, mode: connectorMode(w), request: request}
	x.srv.metrics.pd.connectorMode.WithLabelValues(h.mode).Inc()
	if h.mode != modeMooncake {
		return h
	}
	engine, ok := x.srv.mooncakeID(&x.ctx, w, c.pick.Epoch)
	if !ok {
		x.srv.warnOnce(c, "its engine id is not known, or not which of its ranks would have the KV",
			"give the worker its bootstrap port, or labels kv_engine_id and dp_size")
		return h
	}
	h.engine, h.transfer = engine, "xfer-"+uuid.Must(uuid.NewV7()).String()
	h.addr = "http://" + bracketless(w.BootstrapHost, bootstrap.MooncakePort(w))
	return h
}

// mooncakeID is the id by which KV of a worker's process is asked for. That of workers
// which share a bootstrap server is the registered one: others answer there too.
func (s *Server) mooncakeID(ctx context.Context, w *worker.Spec, epoch uint64) (string, bool) {
	if known := s.fleet.Lookup(w.ID); known != nil && known.Spec.KVEngineID == w.KVEngineID {
		if w = known.Spec; bootstrap.Shares(w) { // selectors elsewhere do not tell of its labels
			return w.MooncakeID()
		}
	}
	return s.engineIDs.of(ctx, w, epoch)
}

// bracketless joins a host that may be an IPv6 address in brackets with a port.
func bracketless(host string, port uint16) string {
	if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// tag is what prefill is told, nil if nothing.
func (h *handoff) tag() []byte {
	switch {
	case h.mode == modeNixl:
		return remoteDecode
	case h.transfer != "":
		return encoded(struct {
			RemoteDecode  bool   `json:"do_remote_decode"`
			RemotePrefill bool   `json:"do_remote_prefill"`
			Transfer      string `json:"transfer_id"`
		}{true, false, h.transfer})
	}
	return nil
}

// prefilled takes from prefill's answer what decode is to be told. An answer that
// says nothing, or is no JSON, leaves the prompt to decode.
func (h *handoff) prefilled(answer []byte, now time.Duration) {
	h.since = now
	// A map, since a struct's members take keys in any case.
	var members map[string]json.RawMessage
	if json.Unmarshal(answer, &members) != nil {
		members = nil
	}
	if json.Unmarshal(members["id"], &h.answer) != nil {
		h.answer = ""
	}
	switch {
	case h.transfer != "" && endedByItself(members):
		h.transfer = "" // as NIXL, which says nothing then, Mooncake keeps what has ended by its length only
	case h.transfer != "":
		h.params = encoded(struct {
			RemoteDecode  bool   `json:"do_remote_decode"`
			RemotePrefill bool   `json:"do_remote_prefill"`
			Transfer      string `json:"transfer_id"`
			Engine        string `json:"remote_engine_id"`
			Addr          string `json:"remote_bootstrap_addr"`
		}{false, true, h.transfer, h.engine, h.addr})
	case h.mode != modeMooncake && len(members[fieldKV]) > 0 && !bytes.Equal(members[fieldKV], []byte("null")):
		h.params = members[fieldKV]
	}
}

// endedByItself says whether an answer, of any API, is known to have ended for another
// reason than that its length was up.
func endedByItself(answer map[string]json.RawMessage) bool {
	var choices []struct {
		Reason string `json:"finish_reason"`
	}
	if json.Unmarshal(answer["choices"], &choices) == nil && len(choices) > 0 {
		return choices[0].Reason != "" && choices[0].Reason != "length"
	}
	var word string
	if json.Unmarshal(answer["stop_reason"], &word) == nil && word != "" { // of messages
		return word != "max_tokens"
	}
	return json.Unmarshal(answer["status"], &word) == nil && word == "completed" // of responses
}

// encoded is v as JSON. It is of strings and truth values, which always encode.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// warnOnce warns of KV that is not handed over, once for each process that has it.
func (s *Server) warnOnce(c *call, what, hint string) {
	w := c.pick.Worker
	if told, ok := s.warned.Swap(w.ID, c.pick.Epoch); ok && told == c.pick.Epoch {
		return
	}
	s.log.Warn("decode workers compute prompts again that a prefill worker has computed", slog.String("worker", w.URL),
		slog.String("reason", what), slog.String("hint", hint))
}
