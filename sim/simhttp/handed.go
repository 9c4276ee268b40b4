package simhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"smg/sim"
	"smg/sim/simtext"
)

// handed is what one engine hands to another in place of KV: enough to see that
// it is the KV of the right prompt.
type handed struct {
	PromptTokens int    `json:"prompt_tokens"`
	Digest       string `json:"digest"` // of the prompt's tokens
	Cached       int    `json:"cached_tokens"`
	Bytes        int64  `json:"bytes"`
	Failure      string `json:"failure,omitempty"` // nothing comes, and why
}

// digestOf names a prompt by its tokens.
func digestOf(p prompt) string {
	return fmt.Sprintf("%016x", uint64(simtext.BlockHashes(len(p.tokens), p.tokens)[0]))
}

// handedOf describes the KV of a prompt.
func (s *Server) handedOf(p prompt, cached int) handed {
	core := s.cfg.Core
	blocks := (len(p.tokens) + core.BlockSize - 1) / core.BlockSize
	return handed{
		PromptTokens: len(p.tokens), Digest: digestOf(p), Cached: cached,
		Bytes: int64(blocks) * int64(core.BlockSize) * int64(core.BytesPerToken),
	}
}

// peerFault is how a fetch went wrong.
type peerFault struct {
	kind peerFaultKind
	err  error
}

type peerFaultKind uint8

const (
	unreachable peerFaultKind = iota // nobody there, or somebody else
	unmet                            // no answer in time
	refused                          // an answer, but no
	late                             // the KV did not come in time
	broken                           // the connection or the other side failed
	foreign                          // KV of another prompt
)

func (f *peerFault) Error() string { return f.err.Error() }
func (f *peerFault) Unwrap() error { return f.err }

// ask is what a fetching engine says about itself.
type ask struct {
	RequestID    string `json:"request_id"`
	PromptTokens int    `json:"prompt_tokens"`
	BlockIDs     []int  `json:"block_ids,omitempty"`
}

// fetch gets KV of p from url. The other side answers with its headers as soon
// as it knows the request, and with the rest when the KV is there. The error is
// a *peerFault, or that of ctx.
func (s *Server) fetch(ctx context.Context, url string, q ask, p prompt) (h handed, err error) {
	q.PromptTokens = len(p.tokens)
	raw, err := json.Marshal(q)
	if err != nil {
		return h, err
	}
	parent := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fault := func(otherwise peerFaultKind, err error) (handed, error) {
		if parent.Err() != nil {
			return handed{}, parent.Err()
		}
		if timedOut, ok := errors.AsType[*peerFault](context.Cause(ctx)); ok {
			return handed{}, timedOut
		}
		return handed{}, &peerFault{otherwise, err}
	}
	limit := s.cfg.Disagg.BootstrapTimeout
	meet := time.AfterFunc(limit, func() {
		cancel(&peerFault{unmet, fmt.Errorf("timed out after %.1fs", limit.Seconds())})
	})
	defer meet.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return fault(unreachable, err)
	}
	// Asking twice for the same KV does no harm, so that a stale connection is
	// no failure.
	req.Header.Set("Idempotency-Key", q.RequestID)
	resp, err := s.peers.Do(req)
	if err != nil {
		return fault(unreachable, err)
	}
	defer resp.Body.Close()
	meet.Stop()
	if resp.StatusCode != http.StatusOK || resp.Header.Get(protocolHeader) == "" {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		kind := refused
		if resp.Header.Get(protocolHeader) == "" {
			kind = unreachable
		}
		return fault(kind, fmt.Errorf("status %d: %s", resp.StatusCode, bytes.TrimSpace(why)))
	}
	limit = s.cfg.Disagg.WaitingTimeout
	wait := time.AfterFunc(limit, func() {
		cancel(&peerFault{late, fmt.Errorf("timed out after %.1fs", limit.Seconds())})
	})
	defer wait.Stop()
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
		return fault(broken, err)
	}
	switch {
	case h.Failure != "":
		return fault(broken, errors.New(h.Failure))
	case h.Digest != digestOf(p):
		return fault(foreign, fmt.Errorf("the KV of %d tokens is not that of this prompt of %d", h.PromptTokens, len(p.tokens)))
	}
	return h, nil
}

// protocolHeader tells an engine's transfer port from any other HTTP server.
const protocolHeader = "X-Sim-Transfer"

// newPeers is the client towards other engines.
func newPeers() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{}).DialContext,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}}
}

// meet tells a peer that its request is known.
func meet(w http.ResponseWriter) {
	w.Header().Set(protocolHeader, "1")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
}

// handOver sends h to a peer that has been met, or half of it if a fault says
// so.
func (s *Server) handOver(w http.ResponseWriter, h handed) {
	raw, err := json.Marshal(h)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if s.faults.transfer().Drop && h.Failure == "" {
		_, _ = w.Write(raw[:len(raw)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(raw)
}

// send puts the KV of sequence i on the line, when no fault holds it back, and
// waits until it is sent. It reports false if the sequence was aborted or ctx
// has ended before.
func (s *Server) send(ctx context.Context, id sim.ID, over <-chan struct{}, aborted func() bool) bool {
	if s.faults.holdTransfer(ctx, over) != nil {
		return false
	}
	s.driver.do(func(e *sim.Engine, now time.Duration) { e.Transfer(now, id) })
	select {
	case <-over:
		return !aborted()
	case <-ctx.Done():
	}
	select {
	case <-over: // first, and that has ended ctx
		return !aborted()
	default:
		return false
	}
}
