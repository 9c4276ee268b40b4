package simhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"smg/sim"
	"smg/sim/simtext"
)

// kvParams is kv_transfer_params of a request, as NIXL reads it. Members that
// it does not know are left alone.
type kvParams struct {
	RemoteDecode  bool   `json:"do_remote_decode"`
	RemotePrefill bool   `json:"do_remote_prefill"`
	EngineID      string `json:"remote_engine_id"`
	RequestID     string `json:"remote_request_id"`
	BlockIDs      []int  `json:"remote_block_ids"`
	Host          string `json:"remote_host"`
	Port          int    `json:"remote_port"`
	// Mooncake's.
	Transfer  string `json:"transfer_id"`
	Bootstrap string `json:"remote_bootstrap_addr"`
}

// complete reports whether the KV of another engine can be asked for with p.
func (p *kvParams) complete() bool {
	return p.EngineID != "" && p.RequestID != "" && len(p.BlockIDs) > 0 && p.Host != "" && p.Port > 0
}

func (p *kvParams) url() string {
	return fmt.Sprintf("http://%s/kv/%s/%s", net.JoinHostPort(p.Host, strconv.Itoa(p.Port)),
		url.PathEscape(p.EngineID), url.PathEscape(p.RequestID))
}

// readKVParams reads kv_transfer_params, which an engine without a connector
// ignores.
func (s *Server) readKVParams(f *fields, t *task) *apiError {
	p := read[*kvParams](f, "kv_transfer_params")
	members := read[map[string]json.RawMessage](f, "kv_transfer_params")
	if f.err != nil {
		return f.err
	}
	if s.faults.get().Strict {
		if s.driver.runs(t.rids) {
			return badRequest("request_id", "Request id %s already running", t.rids[0])
		}
		if fault := s.checkKVParams(p, members, t); fault != nil {
			return fault
		}
	}
	role, connector := s.cfg.Disagg.KVRole, s.cfg.Disagg.connector()
	complete := p != nil && p.complete()
	if connector == MooncakeConnector {
		complete = p != nil && p.forMooncake(members)
	}
	switch {
	case p != nil && p.RemotePrefill && role.receives() && complete,
		p != nil && p.RemoteDecode && role.sends() && !p.RemotePrefill && t.n == 1 && (connector != MooncakeConnector || p.Transfer != ""):
		t.transfer.params = p
	case passesThrough(connector) && p == nil && role.sends() && t.choices() == 1 && t.limits[0] == 1:
		t.transfer.params = &kvParams{RemoteDecode: true}
	case role == KVConsumer, p != nil && p.RemotePrefill && role.receives():
		s.transfers.recomputed.Add(1)
	}
	return nil
}

// passesThrough says whether a connector's engines find out by themselves what is to
// be handed over.
func passesThrough(connector string) bool {
	return connector != "" && connector != NixlConnector && connector != MooncakeConnector
}

// checkKVParams refuses what a real engine would silently serve alone.
func (s *Server) checkKVParams(p *kvParams, members map[string]json.RawMessage, t *task) *apiError {
	const name = "kv_transfer_params"
	role, connector := s.cfg.Disagg.KVRole, s.cfg.Disagg.connector()
	switch {
	case p == nil:
		return nil
	case role == "":
		return badRequest(name, "kv_transfer_params: this engine has no KV connector")
	case passesThrough(connector) && p.RemoteDecode:
		return badRequest(name, "kv_transfer_params: %s is not to be told", connector)
	case p.RemoteDecode == p.RemotePrefill:
		return badRequest(name, "kv_transfer_params: one of do_remote_decode and do_remote_prefill must be true")
	case p.RemotePrefill && !role.receives(), p.RemoteDecode && !role.sends():
		return badRequest(name, "kv_transfer_params: the request does not fit the role %s", role)
	case connector == MooncakeConnector && p.RemotePrefill && !p.forMooncake(members):
		return badRequest(name, "kv_transfer_params: do_remote_prefill needs do_remote_decode, transfer_id, remote_engine_id and remote_bootstrap_addr, and nothing else")
	case connector == MooncakeConnector && p.RemoteDecode && (p.Transfer == "" || len(members) != 3):
		return badRequest(name, "kv_transfer_params: do_remote_decode needs do_remote_prefill and transfer_id, and nothing else")
	case connector != MooncakeConnector && p.RemotePrefill && !p.complete():
		return badRequest(name, "kv_transfer_params: do_remote_prefill needs remote_engine_id, remote_request_id, remote_block_ids, remote_host and remote_port")
	case p.RemoteDecode && (t.stream || t.choices() != 1 || t.limits[0] != 1):
		return badRequest(name, "kv_transfer_params: do_remote_decode needs one answer of one token that is not streamed")
	}
	return nil
}

func (s *Server) nixlHandoff(t *task) handoff {
	if t.transfer.params.RemotePrefill {
		return &nixlConsumer{Server: s, task: t}
	}
	return &nixlProducer{Server: s, task: t}
}

// nixlProducer is a request whose KV another engine will fetch. It is answered
// as soon as all is computed; the blocks stay until they are fetched or until
// nobody has come for as long as the lease.
type nixlProducer struct {
	*Server
	*task
}

// begin implements handoff.
func (l *nixlProducer) begin(j *job, requests []sim.Request) *apiError {
	for i := range requests {
		// vLLM hands over what has ended by its length only.
		if l.answers[i].Finish == simtext.FinishLength {
			requests[i].Handover = sim.Send
			j.onReady = l.lease(j)
		}
	}
	if err := l.driver.queueAll(j, requests); err != nil {
		return submitFault(err)
	}
	return nil
}

// lease returns what registers the KV of a computed request and writes the
// parameters into its answer: those of the first prompt, whatever there are.
func (l *nixlProducer) lease(j *job) func(int, sim.ID) {
	return func(i int, id sim.ID) {
		p := l.prompts[i]
		blocks := (len(p.tokens) + l.cfg.Core.BlockSize - 1) / l.cfg.Core.BlockSize
		held := &leased{
			id: id, over: j.sequences[i].over,
			handed: l.handedOf(p, j.sequences[i].cached),
			lost:   func() bool { return j.at(i).lost },
		}
		if l.cfg.Disagg.Correlate {
			held.wanted = l.ridOf(i)
		}
		if l.cfg.Disagg.connector() == MooncakeConnector {
			l.leases.add(l.transfer.params.Transfer, held) // and the answer says nothing
			return
		}
		held.blockIDs = make([]int, blocks)
		for b := range held.blockIDs {
			held.blockIDs[b] = (int(id)*31 + b) % l.cfg.Core.KVBlocks
		}
		name := l.ridOf(i) + "-" + l.freshID()[:8]
		l.leases.add(name, held)
		host, port := l.transferAddr()
		if i > 0 {
			return
		}
		params := kvAnswer{
			RemotePrefill: true, EngineID: l.engineID, RequestID: name, BlockIDs: held.blockIDs,
			Host: host, Port: port, TPSize: 1,
		}
		l.task.kvAnswer = params.render(l.faults.transfer().Params)
	}
}

// move implements handoff. The other engine takes the KV by itself.
func (l *nixlProducer) move(context.Context, *job, int) *apiError { return nil }

// end implements handoff.
func (l *nixlProducer) end() {}

// kvAnswer is kv_transfer_params of an answer.
type kvAnswer struct {
	RemotePrefill bool   `json:"do_remote_prefill"`
	RemoteDecode  bool   `json:"do_remote_decode"`
	BlockIDs      []int  `json:"remote_block_ids"`
	EngineID      string `json:"remote_engine_id"`
	RequestID     string `json:"remote_request_id"`
	Host          string `json:"remote_host"`
	Port          int    `json:"remote_port"`
	TPSize        int    `json:"tp_size"`
}

// render encodes a with the members of extra, a JSON object, after its own.
func (a kvAnswer) render(extra json.RawMessage) []byte {
	raw, err := json.Marshal(a)
	if err != nil {
		return []byte("null") // strings and numbers always encode
	}
	if len(extra) > 2 {
		raw = append(append(raw[:len(raw)-1], ','), extra[1:]...)
	}
	return raw
}

// nixlConsumer is a request whose KV another engine has computed.
type nixlConsumer struct {
	*Server
	*task
}

// begin implements handoff.
func (l *nixlConsumer) begin(j *job, requests []sim.Request) *apiError {
	return l.queueReceiving(j, requests)
}

// move implements handoff.
func (l *nixlConsumer) move(ctx context.Context, j *job, i int) *apiError {
	params, p := l.transfer.params, j.at(i)
	select {
	case <-ctx.Done():
		return nil
	case <-p.gate:
	}
	if j.at(i).done {
		return nil
	}
	fetching, cancel := until(ctx, p.over)
	defer cancel()
	var d sim.Delivery
	q := ask{RequestID: l.ridOf(i), BlockIDs: params.BlockIDs}
	got, err := l.fetch(fetching, l.kvURL(params), q, l.prompts[i/l.n])
	fault, failed := errors.AsType[*peerFault](err)
	switch {
	case failed && l.cfg.Disagg.LoadFailure == FailRequest:
		l.transfers.failed.Add(1)
		return &apiError{status: http.StatusInternalServerError, message: fmt.Sprintf(
			"Internal server error: KV load failed for request %s from engine %s at %s: %v",
			cmp.Or(params.RequestID, params.Transfer), params.EngineID, cmp.Or(params.Bootstrap, net.JoinHostPort(params.Host, strconv.Itoa(params.Port))), fault.err)}
	case failed:
		l.transfers.failed.Add(1)
		l.transfers.recomputed.Add(1)
		if fault := l.see(fetching, l.task); fault != nil {
			return fault
		}
	case err != nil:
		return nil // the request is over
	default:
		// vLLM counts everything that was fetched as found in its own cache.
		d = sim.Delivery{Tokens: got.PromptTokens, Cached: got.PromptTokens}
	}
	l.driver.do(func(e *sim.Engine, now time.Duration) { e.Deliver(now, p.id, d) })
	return nil
}

// end implements handoff.
func (l *nixlConsumer) end() {}

// sideChannelRoutes is where a vLLM engine hands KV over.
func (s *Server) sideChannelRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /kv/{engine}/{request}", s.handKV)
	if s.cfg.Disagg.connector() == MooncakeConnector {
		mux.HandleFunc("GET /query", s.query)
	}
}

// handKV sends the KV of a request that is held under a lease.
func (s *Server) handKV(w http.ResponseWriter, r *http.Request) {
	if s.faults.frozen(r.Context()) != nil {
		return
	}
	var q ask
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBytes)).Decode(&q); err != nil {
		s.refusePeer(w, http.StatusBadRequest, "not a request for KV: "+err.Error())
		return
	}
	if engine := r.PathValue("engine"); engine != s.engineID {
		s.refusePeer(w, http.StatusNotFound, fmt.Sprintf("the engine here is %s, not %s", s.engineID, engine))
		return
	}
	name := r.PathValue("request")
	held, err := s.leases.take(name, q)
	if err != nil {
		s.refusePeer(w, http.StatusNotFound, fmt.Sprintf("request %s: %v", name, err))
		return
	}
	meet(w)
	if s.send(r.Context(), held.id, held.over, held.lost) {
		s.handOver(w, held.handed)
		return
	}
	// The blocks are still there, unless the request was aborted.
	s.leases.add(name, held)
	panic(http.ErrAbortHandler)
}

func (s *Server) refusePeer(w http.ResponseWriter, status int, why string) {
	w.Header().Set(protocolHeader, "1")
	http.Error(w, why, status)
}
