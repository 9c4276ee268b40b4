package simhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"smg/sim"
)

// handoff moves the KV of a request between this engine and others.
type handoff interface {
	// begin queues what can be computed at once, and marks what is handed over.
	begin(j *job, requests []sim.Request) *apiError
	// move does the rest for sequence i. Its error fails the request; it returns
	// nil when the sequence is over or ctx has ended.
	move(ctx context.Context, j *job, i int) *apiError
	// end is called when the request is over and every move has returned.
	end()
}

// transfer is what the body of a request says about handing KV over.
type transfer struct {
	rooms  []bootstrapRef // SGLang, per choice
	params *kvParams      // vLLM
}

// readTransfer reads it, and judges it if the engine has a part in it.
func (s *Server) readTransfer(f *fields, t *task) *apiError {
	if s.cfg.Kind == VLLM {
		return s.readKVParams(f, t)
	}
	if s.cfg.Disagg.Mode == Unified {
		return nil
	}
	refs, fault := s.readBootstrap(f, t)
	t.transfer.rooms = refs
	return fault
}

// receives reports whether the KV of t comes from another engine.
func (t *task) receives(d Disaggregation) bool {
	return t.transfer.rooms != nil && d.Mode == Decode || t.transfer.params != nil && t.transfer.params.RemotePrefill
}

// handoffOf chooses how t is served, nil if by this engine alone.
func (s *Server) handoffOf(t *task) handoff {
	switch {
	case t.transfer.rooms != nil && s.cfg.Disagg.Mode == Prefill:
		return &prefillLeg{Server: s, task: t}
	case t.transfer.rooms != nil:
		return &decodeLeg{Server: s, task: t}
	case t.transfer.params != nil:
		return s.nixlHandoff(t)
	}
	return nil
}

// prefillLeg is a request at an SGLang prefill engine. A sequence is computed
// when the decode engine has come for it, and its answer waits until its KV is
// sent.
type prefillLeg struct {
	*Server
	*task
	requests []sim.Request
	entered  []*room
}

// begin implements handoff. It opens all rooms and queues nothing.
func (l *prefillLeg) begin(_ *job, requests []sim.Request) *apiError {
	l.requests = requests
	for i := range requests {
		requests[i].Handover = sim.Send
		r, err := l.rooms.enter(l.key(i))
		if err != nil {
			l.roomTaken(l.key(i).room)
			return l.fault(i, "bootstrap", "Duplicate bootstrap room: "+err.Error())
		}
		l.entered = append(l.entered, r)
	}
	return nil
}

// key is the room of sequence i, or another one if a fault says so.
func (l *prefillLeg) key(i int) roomKey {
	k := l.transfer.rooms[i].key
	if l.faults.transfer().WrongRoom {
		k.room ^= 1
	}
	return k
}

// fault words a failure of sequence i as SGLang does.
func (l *prefillLeg) fault(i int, stage, why string) *apiError {
	room := l.transfer.rooms[i].key.room
	return &apiError{status: http.StatusInternalServerError, message: fmt.Sprintf(
		"Prefill %s failed for request rank=0 req.rid='%s' req.bootstrap_room=%d with exception KVTransferError(bootstrap_room=%d): %s",
		stage, l.ridOf(i), room, room, why)}
}

// move implements handoff.
func (l *prefillLeg) move(ctx context.Context, j *job, i int) *apiError {
	r := l.entered[i]
	gone := "the prefill request has ended"
	defer func() { l.rooms.leave(r, gone) }()

	l.bootstrapping.Add(1)
	fault := l.await(ctx, r, i)
	l.bootstrapping.Add(-1)
	if fault != nil || ctx.Err() != nil {
		if fault != nil {
			gone = fault.message
		}
		return fault
	}
	if err := l.driver.queue(j, i, l.requests[i]); err != nil {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return submitFault(err)
	}
	p := j.at(i)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := func() *apiError {
		l.transfers.failed.Add(1)
		fault := l.fault(i, "transfer", "Decode instance could be dead, the connection that waited in the room is closed")
		gone = fault.message
		return fault
	}
	select {
	case <-ctx.Done():
		return nil
	case <-r.peerLeft:
		return lost()
	case <-p.gate:
	}
	sent := make(chan bool, 1)
	go func() { sent <- l.send(ctx, p.id, p.over, func() bool { return j.at(i).lost }) }()
	select {
	case ok := <-sent:
		if !ok {
			return nil
		}
	case <-r.peerLeft:
		l.driver.fail(j, lost())
		<-sent
		return nil
	}
	r.outcome <- roomResult{handed: l.handedOf(l.prompts[i/l.n], j.at(i).cached)}
	return nil
}

// await waits for the decode engine.
func (l *prefillLeg) await(ctx context.Context, r *room, i int) *apiError {
	limit := l.cfg.Disagg.BootstrapTimeout
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.peerCame:
		return nil
	case <-ctx.Done():
		return nil
	case <-timer.C:
		l.transfers.bootstrapFailed.Add(1)
		return l.fault(i, "bootstrap", fmt.Sprintf("Request %d timed out after %.1fs in KVPoll.Bootstrapping",
			l.transfer.rooms[i].key.room, limit.Seconds()))
	}
}

// end implements handoff. It closes rooms that no move was started for.
func (l *prefillLeg) end() {
	for _, r := range l.entered {
		l.rooms.leave(r, "the prefill request was refused")
	}
}

// decodeLeg is a request at an SGLang decode engine: it fetches the KV of its
// prompt, and the first token, from where the body says.
type decodeLeg struct {
	*Server
	*task
	claimed []string // rooms that no other request here fetches from
}

// begin implements handoff.
func (l *decodeLeg) begin(j *job, requests []sim.Request) *apiError {
	for _, ref := range l.transfer.rooms {
		if url := ref.url(); l.fetching.claim(url) {
			l.claimed = append(l.claimed, url)
		} else {
			l.roomTaken(ref.key.room)
		}
	}
	return l.queueReceiving(j, requests)
}

func (s *Server) queueReceiving(j *job, requests []sim.Request) *apiError {
	for i := range requests {
		requests[i].Handover = sim.Receive
	}
	if err := s.driver.queueAll(j, requests); err != nil {
		return submitFault(err)
	}
	return nil
}

// move implements handoff.
func (l *decodeLeg) move(ctx context.Context, j *job, i int) *apiError {
	ref, p := l.transfer.rooms[i], j.at(i)
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
	got, err := l.fetch(fetching, ref.url(), ask{RequestID: l.ridOf(i)}, l.prompts[i/l.n])
	if fault, ok := errors.AsType[*peerFault](err); ok {
		return l.fault(i, ref, fault)
	}
	if err != nil {
		return nil // the request is over
	}
	l.driver.do(func(e *sim.Engine, now time.Duration) {
		e.Deliver(now, p.id, sim.Delivery{Tokens: got.PromptTokens, First: true, Cached: got.Cached})
	})
	return nil
}

// fault words a failure to get the KV of sequence i as SGLang does.
func (l *decodeLeg) fault(i int, ref bootstrapRef, f *peerFault) *apiError {
	room, rid := ref.key.room, l.ridOf(i)
	head := fmt.Sprintf("Decode transfer failed for request rank=0 decode_req.req.rid='%s' decode_req.req.bootstrap_room=%d", rid, room)
	var why string
	switch f.kind {
	case unreachable, unmet, refused:
		l.transfers.bootstrapFailed.Add(1)
		head = fmt.Sprintf("Decode handshake failed for request rank=0 decode_req.req.rid='%s'", rid)
		why = fmt.Sprintf("Could not fetch prefill parallel info from bootstrap_addr: %s: %v", ref.addr(), f.err)
	case late:
		l.transfers.failed.Add(1)
		why = fmt.Sprintf("Request %d %v in KVPoll.WaitingForInput, bootstrap_addr: %s", room, f.err, ref.addr())
	default:
		l.transfers.failed.Add(1)
		why = fmt.Sprintf("Failed to get kvcache from prefill instance, it might be dead, bootstrap_addr: %s: %v", ref.addr(), f.err)
	}
	return &apiError{
		status:  http.StatusInternalServerError,
		message: fmt.Sprintf("%s with exception KVTransferError(bootstrap_room=%d): %s", head, room, why),
	}
}

// end implements handoff.
func (l *decodeLeg) end() { l.fetching.release(l.claimed) }

// until is ctx that also ends when over is closed.
func until(ctx context.Context, over <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-over:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
