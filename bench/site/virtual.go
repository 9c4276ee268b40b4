package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"smg/bench/study/mooncake"
	"smg/policy"
	"smg/study"
	"smg/wire"
)

// What messages take between the processes of one machine, about: an ask to a
// selector over NATS or its answer, and a message that is only sent.
const (
	selectTakes  = 150 * time.Microsecond
	messageTakes = 150 * time.Microsecond
)

// site is the site of one process in virtual time.
func (o *options) site() study.Config {
	cfg := study.DefaultConfig()
	cfg.Workers, cfg.Seed = o.engines, o.seed
	cfg.Poll = o.virtual(time.Duration(o.pollSeconds()) * time.Second)
	return cfg
}

// inVirtualTime runs the work on the same sites in virtual time.
func inVirtualTime(ctx context.Context, o *options, w *work, progress io.Writer) ([]study.Block, error) {
	all := [sites]study.Site{{Config: o.site()}, {Config: o.site()}, {Config: o.site()}}
	for s := range all {
		all[s].Name = site(s).name(o)
	}
	m, p := &all[many], &all[private]
	m.Ingresses, m.Selectors, m.Select, m.Bus = o.ingresses, o.selectors, o.virtual(selectTakes), o.virtual(messageTakes)
	p.Ingresses, p.Selectors, p.Private = o.ingresses, o.ingresses, true
	trial := study.Trial{Work: w.Workload, Measure: study.DefaultMeasure(), Rounds: o.rounds, Progress: progress}
	var contenders []study.Contender
	for _, name := range o.policies {
		cfg := study.FlagDefaults()
		cfg.Policy = name
		contenders = append(contenders, study.Contender{
			Name: name, New: study.Built(cfg), Inputs: func(i int, req *policy.Request) { inputs(&w.lines[i], o.prompts, req) },
		})
	}
	blocks, err := trial.CompareSites(ctx, all[:o.sites()], contenders)
	if err != nil {
		return nil, fmt.Errorf("in virtual time: %w", err)
	}
	return blocks, nil
}

// inputs is what an ingress tells of a prompt in the given form, cut where it is cut.
func inputs(l *mooncake.Line, form string, req *policy.Request) {
	if form == text {
		req.Text = string(l.Text(nil, wire.MaxText))
		req.Chars = int64(l.Input)*mooncake.CharsPerToken - 1
		return
	}
	ids := l.Tokens(make([]uint32, 0, l.Input))
	req.TokenIDs = ids[:min(len(ids), wire.MaxTokenIDs)]
	req.Tokens = int64(l.Input)
}
