package main

import (
	"fmt"
	"strconv"
	"strings"

	"smg/bench/study/mooncake"
	"smg/policy"
	"smg/study"
	"smg/wire"
	"smg/worker"
)

// line is one line of the table: a policy, its settings, and what it is told of
// requests.
type line struct {
	policy string
	as     string // what tells it from other lines of the policy
	leg    worker.Leg
	told   told
	set    func(*policy.Config)
}

// told is what is known of a request.
type told uint8

// A site knows sessions by their routing keys or not at all, and its clients send
// text or, more rarely, tokens.
const (
	nothing told = iota
	key
	text
	tokens
	tokensAndKey
)

// lines are those of the table, in the order of [policy.Names].
func lines() []line {
	metric := func(name string) func(*policy.Config) {
		return func(c *policy.Config) { c.PowerOfTwo.Metric = name }
	}
	return []line{
		{policy: policy.Random},
		{policy: policy.RoundRobin},
		{policy: policy.Passthrough},
		{policy: policy.CacheAware, as: "text", told: text},
		{policy: policy.CacheAware, as: "tokens", told: tokens},
		{policy: policy.PowerOfTwo, as: policy.ExpectedWait, told: tokens, set: metric(policy.ExpectedWait)},
		{policy: policy.PowerOfTwo, as: policy.Requests, told: tokens, set: metric(policy.Requests)},
		{policy: policy.PowerOfTwo, as: policy.LeastRequests, told: tokens, set: metric(policy.LeastRequests)},
		{policy: policy.LeastLoad, as: "text", told: text},
		{policy: policy.LeastLoad, as: "tokens", told: tokens},
		{policy: policy.PrefixHash, as: "text", told: text},
		{policy: policy.PrefixHash, as: "tokens", told: tokens},
		{policy: policy.ConsistentHashing, told: key},
		{policy: policy.Manual, told: key},
		{policy: policy.Bucket, as: "of a prefill leg", told: tokens, leg: worker.Prefill}, // elsewhere it has no buckets
	}
}

// name is the line's first column.
func (l *line) name() string {
	if l.as == "" {
		return l.policy
	}
	return l.policy + ", " + l.as
}

// contenders are the references and the lines.
func contenders(trace []mooncake.Line) []study.Contender {
	p := &prompts{lines: trace, common: mooncake.Common(trace)}
	all := []study.Contender{study.Greedy(), study.LeastRequests()}
	for _, l := range lines() {
		all = append(all, l.contender(p))
	}
	return all
}

// contender is the line with the settings that flags have by default.
func (l *line) contender(p *prompts) study.Contender {
	cfg := study.FlagDefaults()
	cfg.Policy = l.policy
	if l.set != nil {
		l.set(&cfg)
	}
	return study.Contender{
		Name: l.name(), Leg: l.leg,
		Inputs: func(i int, req *policy.Request) { p.inputs(i, l.told, req) },
		New:    study.Built(cfg),
	}
}

// choose keeps the contenders whose names contain text.
func choose(all []study.Contender, text string) ([]study.Contender, error) {
	var chosen []study.Contender
	for _, c := range all {
		if strings.Contains(c.Name, text) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-only %q: no line is called that", text)
	}
	return chosen, nil
}

// prompts is what an ingress would tell of a trace's requests.
type prompts struct {
	lines  []mooncake.Line
	common int
}

// inputs writes what a policy may read of request i, cut where the product cuts it.
func (p *prompts) inputs(i int, t told, req *policy.Request) {
	l := &p.lines[i]
	if t == key || t == tokensAndKey {
		k := worker.HashKey(strconv.FormatUint(l.Conversation(p.common), 10))
		req.Keys = worker.Keys{Header: k, Pinned: k}
	}
	switch t {
	case text:
		req.Text = string(l.Text(nil, wire.MaxText))
		req.Chars = int64(l.Input) * mooncake.CharsPerToken
	case tokens, tokensAndKey:
		ids := l.Tokens(make([]uint32, 0, l.Input))
		req.TokenIDs = ids[:min(len(ids), wire.MaxTokenIDs)]
		req.Tokens = int64(l.Input)
	case nothing, key:
	}
}
