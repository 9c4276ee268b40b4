package simhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"smg/sim"
	"smg/sim/simctl"
	"smg/sim/simtext"
)

// Fault is why a call that does not come over HTTP is not served, or not to its end:
// what the engine would answer over HTTP.
type Fault struct {
	Status  int
	Message string
	// Drop says that the connection is to be closed instead.
	Drop bool
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

func faultOf(e *apiError) *Fault {
	if e == nil {
		return nil
	}
	return &Fault{Status: e.status, Message: e.message}
}

// Visit is a call of a [Front] that the engine has let in.
type Visit struct {
	s         *Server
	entry     *entry
	rule      *simctl.Rule
	stop      func() bool
	ctx       context.Context //nolint:containedctx // of the call
	inference bool
}

// Enter lets a call in: it is recorded, and has the faults that requests have. path is
// what rules and records know it by, body what they see of it. If it was let in, Leave
// must be called.
func (s *Server) Enter(ctx context.Context, path string, header http.Header, body []byte, inference bool) (*Visit, *Fault) {
	if !s.handlers.enter() {
		return nil, &Fault{Drop: true}
	}
	faults := s.faults.get()
	r := (&http.Request{Method: http.MethodPost, RequestURI: path, Proto: "HTTP/2.0", Header: header}).WithContext(ctx)
	v := &Visit{s: s, ctx: ctx, inference: inference, entry: s.records.begin(r, faults.Record)}
	if inference {
		s.inFlight.Add(1)
	}
	v.stop = s.records.watch(ctx, v.entry)
	s.records.body(v.entry, body)
	if fault := v.meet(r, path, body, faults); fault != nil {
		v.Leave(fault.Status)
		return nil, fault
	}
	return v, nil
}

// meet applies the faults in the order in which a request would meet them.
func (v *Visit) meet(r *http.Request, path string, body []byte, faults simctl.Faults) *Fault {
	s := v.s
	if faults.Auth != "" && r.Header.Get("Authorization") != "Bearer "+faults.Auth {
		return &Fault{Status: http.StatusUnauthorized, Message: "Unauthorized"}
	}
	rule := s.faults.match(http.MethodPost, path, nil, true)
	if rule == nil {
		if s.faults.frozen(v.ctx) != nil {
			return &Fault{Drop: true}
		}
		rule = s.faults.match(http.MethodPost, path, body, false)
	}
	if rule == nil {
		return nil
	}
	v.rule = rule
	switch {
	case rule.Delay > 0 && sleep(v.ctx, time.Duration(rule.Delay)) != nil, rule.Hold && s.faults.hold(v.ctx) != nil, rule.Drop:
		return &Fault{Drop: true}
	case rule.Status >= http.StatusBadRequest:
		message := "the simulated engine was told to answer " + http.StatusText(rule.Status)
		if json.Unmarshal(rule.Body, &message) != nil && len(rule.Body) > 0 {
			message = string(rule.Body)
		}
		return &Fault{Status: rule.Status, Message: message}
	}
	return nil
}

// Leave notes that the call is over.
func (v *Visit) Leave(status int) {
	if v.stop() && v.ctx.Err() != nil {
		v.s.records.left(v.entry)
	}
	v.s.records.end(v.entry, status)
	if v.inference {
		v.s.inFlight.Add(-1)
	}
	v.s.handlers.leave()
}

// Call is one prompt that is to be answered, as it comes over other protocols than HTTP.
type Call struct {
	ID       string
	Prompt   []simtext.Token
	Sampling simtext.Sampling // its MaxTokens is negative where nothing bounds the answer
	N        int
	Stream   bool
	// Room is where an SGLang engine meets the other one, nil for none; KV is vLLM's
	// kv_transfer_params, nil for none.
	Room *Room
	KV   json.RawMessage
	Rank *int
}

// Room is a meeting of two SGLang engines.
type Room struct {
	Host   string
	Port   int
	Number int64
}

// Said is what there is of one choice since the last time.
type Said struct {
	Choice       int
	Tokens       []simtext.Token
	From         int // how many tokens there were before
	Prompt       int // tokens
	Cached       int // of them
	Done         bool
	Finish       string // stop, length or abort
	StopString   string
	StopToken    simtext.Token // where the answer stopped at one
	HasStopToken bool
	KV           []byte // what another engine is to be told, nil for nothing
}

// Answer computes a call that was let in, and tells what it says: token by token if it
// is a stream, else each choice as a whole. It returns tell's error as nil: who does not
// listen needs no word.
func (v *Visit) Answer(c *Call, tell func(Said) error) *Fault {
	s := v.s
	t, fault := s.taskOf(c)
	if fault != nil {
		s.stats.refused.Add(1)
		return faultOf(fault)
	}
	out := &telling{visit: v, task: t, tell: tell, sent: make([]int, t.choices()), ended: make([]bool, t.choices())}
	if v.rule != nil && v.rule.Stream != nil {
		out.fault = *v.rule.Stream
	}
	requests := s.compose(t, out.fault.Tokens)
	defer s.knows(t)()
	arrived := s.clock()
	h := s.handoffOf(t)
	_, prefills := h.(*prefillLeg)
	open := s.driver.open
	if s.cfg.Kind == SGLang {
		open = s.driver.openAlone
	}
	j := open(t.rids, len(requests), t.stream && !prefills)
	stop := context.AfterFunc(v.ctx, func() { s.driver.abort(j) })
	defer func() {
		s.driver.close(j)
		stop()
	}()
	if j.failure() == nil {
		end, fault := s.start(v.ctx, h, j, requests)
		defer end()
		if fault != nil {
			s.stats.refused.Add(1)
			return faultOf(fault)
		}
	}
	var states []progress
	for out.left() {
		select {
		case <-v.ctx.Done():
			return nil
		case <-j.changed:
		}
		if fault := j.failure(); fault != nil {
			s.stats.refused.Add(1)
			return faultOf(fault)
		}
		if states = j.progress(states); !t.stream && !allDone(states) {
			continue
		}
		if fault, ok := out.say(states); !ok {
			return fault
		}
	}
	s.stats.observe(t, states, arrived, s.clock())
	return nil
}

func allDone(states []progress) bool {
	for _, p := range states {
		if !p.done {
			return false
		}
	}
	return true
}

// taskOf is a checked call.
func (s *Server) taskOf(c *Call) (*task, *apiError) {
	t := &task{
		id: c.ID, rids: []string{c.ID}, model: s.cfg.Model, prompts: []prompt{{tokens: c.Prompt, byID: true}},
		n: max(c.N, 1), sampling: c.Sampling, stream: c.Stream,
	}
	f := &fields{raw: map[string]json.RawMessage{}}
	f.checkPrompt("input_ids", t.prompts[0])
	switch {
	case t.sampling.Temperature < 0:
		f.fail("temperature", "temperature must be non-negative, got %v.", t.sampling.Temperature)
	case t.sampling.TopP <= 0 || t.sampling.TopP > 1:
		f.fail("top_p", "top_p must be in (0, 1], got %v.", t.sampling.TopP)
	case t.n > maxChoices:
		f.fail("n", "n must be between 1 and %d, got %d.", maxChoices, t.n)
	}
	if r := c.Room; r != nil {
		f.raw["bootstrap_room"] = json.RawMessage(strconv.FormatInt(r.Number, 10))
		if r.Port != 0 {
			f.raw["bootstrap_port"] = json.RawMessage(strconv.Itoa(r.Port))
		}
		if r.Host != "" {
			f.raw["bootstrap_host"] = appendString(nil, r.Host)
		}
	}
	if c.KV != nil {
		f.raw["kv_transfer_params"] = c.KV
	}
	header := http.Header{}
	if c.Rank != nil {
		if s.cfg.Kind == VLLM {
			header.Set("X-Data-Parallel-Rank", strconv.Itoa(*c.Rank))
		} else {
			f.raw["data_parallel_rank"] = json.RawMessage(strconv.Itoa(*c.Rank))
		}
	}
	if s.faults.get().Strict {
		s.strays(c, f)
	}
	s.readRank(f, header)
	if f.err != nil {
		return nil, f.err
	}
	if fault := s.fit(t, c.Sampling.MaxTokens); fault != nil {
		return nil, fault
	}
	return t, s.readTransfer(f, t)
}

// strays refuses what is not for this engine.
func (s *Server) strays(c *Call, f *fields) {
	switch {
	case c.Room != nil && (s.cfg.Kind == VLLM || s.cfg.Disagg.Mode == Unified):
		f.fail("bootstrap_room", "bootstrap_room: this engine has no such part")
	case c.KV != nil && s.cfg.Kind == SGLang:
		f.fail("kv_transfer_params", "kv_transfer_params: this engine has no such part")
	case c.Rank != nil && s.cfg.Ranks.size() == 1:
		f.fail("data_parallel_rank", "data_parallel_rank: this engine has no such part")
	}
}

// telling is an answer under way, with the faults of a rule.
type telling struct {
	visit  *Visit
	task   *task
	tell   func(Said) error
	fault  simctl.StreamFault
	sent   []int
	ended  []bool
	events int
}

func (o *telling) left() bool {
	for _, ended := range o.ended {
		if !ended {
			return true
		}
	}
	return false
}

// say tells what is new. If it returns false, that was all, with a fault or in peace.
func (o *telling) say(states []progress) (*Fault, bool) {
	for i := range states {
		if o.fault.Backwards {
			i = len(states) - 1 - i
		}
		p := states[i]
		if o.ended[i] || p.tokens == o.sent[i] && !p.done {
			continue
		}
		for {
			said := o.next(i, p)
			if fault, ok := o.event(said); !ok {
				return fault, false
			}
			if o.sent[i] = said.From + len(said.Tokens); said.Done {
				o.ended[i] = true
			}
			if o.sent[i] == p.tokens && (said.Done || !p.done) {
				break
			}
		}
	}
	return nil, true
}

// next is the next event of a choice: one token, or, of what is no stream, all of them.
func (o *telling) next(i int, p progress) Said {
	a := &o.task.answers[i]
	from, upto := o.sent[i], p.tokens
	if o.task.stream {
		upto = min(from+1, upto)
	}
	said := Said{Choice: i, Tokens: a.Tokens[from:upto], From: from, Prompt: len(o.task.prompts[i/o.task.n].tokens), Cached: p.cached}
	if !p.done || upto < p.tokens {
		return said
	}
	said.Done, said.Finish, said.KV = true, string(a.Finish), o.task.kvAnswer
	switch {
	case p.aborted:
		said.Finish = "abort"
	case a.StopString != "":
		said.StopString = a.StopString
	case a.Finish == simtext.FinishStop:
		said.StopToken, said.HasStopToken = a.StopToken, true
	}
	return said
}

// event sends one event, as far as a rule lets it.
func (o *telling) event(said Said) (*Fault, bool) {
	ctx, f := o.visit.ctx, &o.fault
	reached := func(k *int) bool { return k != nil && o.events >= *k }
	switch {
	case reached(f.FailAfter):
		return &Fault{Status: http.StatusInternalServerError, Message: "The engine has failed, as it was told to."}, false
	case reached(f.CutAfter):
		return &Fault{Drop: true}, false
	case reached(f.StallAfter):
		<-ctx.Done()
		return nil, false
	case f.Gap > 0 && sleep(ctx, time.Duration(f.Gap)) != nil, o.visit.s.faults.frozen(ctx) != nil:
		return nil, false
	}
	o.events++
	return nil, o.tell(said) == nil
}

// Abort ends the requests with one of these ids, wherever they are, and says whether
// there was any.
func (s *Server) Abort(ids []string) bool {
	found := s.driver.runs(ids)
	s.driver.abortWhere(func(rid string) bool { return slices.Contains(ids, rid) })
	return found
}

// Flush empties the prefix cache, unless it is in use.
func (s *Server) Flush() bool { return s.flush() }

// TokenizerPath is where the engine says that its tokenizer is.
func (s *Server) TokenizerPath() string { return cmp.Or(s.cfg.TokenizerPath, s.cfg.Model) }

// Started is when the engine was.
func (s *Server) Started() time.Time { return s.started }

// EngineID is a vLLM engine's name for itself, drawn at its start unless it was given.
func (s *Server) EngineID() string { return s.engineID }

// InFlight is the number of inference requests that are served now.
func (s *Server) InFlight() int { return int(s.inFlight.Load()) }

// RankLoad is the load of one data-parallel rank, an even share of the engine's.
type RankLoad struct {
	sim.Loads
	Rank        int
	Utilization float64
	Mode        string  // of SGLang
	Bootstrap   int     // requests that wait for a decode engine
	DecodeQueue int     // requests of a decode engine that wait
	Speed       float64 // of KV, in GB per second
	Latency     float64 // in milliseconds
}

// RankLoads are those of all ranks; false if a fault has the engine tell of none.
func (s *Server) RankLoads() ([]RankLoad, bool) {
	r := s.report()
	if r.absent {
		return nil, false
	}
	ranks := make([]RankLoad, s.cfg.Ranks.size())
	for i := range ranks {
		l := RankLoad{
			Loads: r.Loads, Rank: i, Utilization: r.utilization(), Mode: r.role, Bootstrap: r.bootstrap,
			DecodeQueue: r.decodeQueue(), Speed: r.speed(), Latency: r.latency(),
		}
		for _, n := range []*int{&l.Running, &l.Waiting, &l.MaxRunning, &l.WaitingUncachedTokens, &l.UsedTokens, &l.CapacityTokens} {
			*n = s.share(*n, i)
		}
		l.GenThroughput /= float64(len(ranks))
		ranks[i] = l
	}
	return ranks, true
}
