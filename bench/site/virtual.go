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
	single := o.site()
	several := single
	several.Ingresses, several.Selectors = o.ingresses, o.selectors
	several.Select, several.Bus = o.virtual(selectTakes), o.virtual(messageTakes)
	trial := study.Trial{Site: single, Work: w.Workload, Measure: study.DefaultMeasure(), Rounds: o.rounds, Progress: progress}
	var contenders []study.Contender
	for _, name := range o.policies {
		cfg := study.FlagDefaults()
		cfg.Policy = name
		contenders = append(contenders, study.Contender{
			Name: name, New: study.Built(cfg), Inputs: func(i int, req *policy.Request) { inputs(&w.lines[i], req) },
		})
	}
	blocks, err := trial.CompareSites(ctx, []study.Site{{Name: one.name(o), Config: single}, {Name: many.name(o), Config: several}}, contenders)
	if err != nil {
		return nil, fmt.Errorf("in virtual time: %w", err)
	}
	return blocks, nil
}

// inputs is what an ingress tells of a prompt that comes as tokens.
func inputs(l *mooncake.Line, req *policy.Request) {
	ids := l.Tokens(make([]uint32, 0, l.Input))
	req.TokenIDs = ids[:min(len(ids), wire.MaxTokenIDs)]
	req.Tokens = int64(l.Input)
}
