package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"smg/bench/study/mooncake"
	"smg/policy"
	"smg/study"
)

// The sites of goal Q6. The times are those of a network within a data centre, and
// the loss is far beyond what a message bus has: what it costs is to be seen.
const (
	ingresses = 8
	selectors = 3

	siteSelect = 300 * time.Microsecond
	siteBus    = 300 * time.Microsecond
	siteJitter = time.Millisecond
	siteLost   = 0.01
)

// sites are the ways to run one's engines: in one process, with state that is
// shared, and with as many processes that know of their own requests alone.
func sites(cfg study.Config) []study.Site {
	one := cfg
	one.Ingresses, one.Selectors, one.Private = 1, 1, false
	one.Select, one.Jitter, one.Lost = 0, 0, 0
	one.Bus = study.DefaultConfig().Bus
	shared := one
	shared.Ingresses, shared.Selectors = ingresses, selectors
	shared.Select, shared.Bus, shared.Jitter, shared.Lost = siteSelect, siteBus, siteJitter, siteLost
	private := one
	private.Ingresses, private.Selectors, private.Private = ingresses, ingresses, true
	return []study.Site{{Name: "one process", Config: one}, {Name: "8 x 3, shared", Config: shared}, {Name: "8, private", Config: private}}
}

// siteLines are the policies of that table. All prompts of the trace begin alike, so
// one replica chooses for all of them at a time; the lines with keys show that a key
// changes nothing unless the policy goes by it, as manual does.
func siteLines() []line {
	requests := func(c *policy.Config) { c.PowerOfTwo.Metric = policy.Requests }
	return []line{
		{policy: policy.CacheAware, as: "tokens", told: tokens},
		{policy: policy.CacheAware, as: "tokens and keys", told: tokensAndKey},
		{policy: policy.LeastLoad, as: "tokens", told: tokens},
		{policy: policy.LeastLoad, as: "tokens and keys", told: tokensAndKey},
		{policy: policy.PowerOfTwo, as: policy.Requests, told: tokens, set: requests},
		{policy: policy.PowerOfTwo, as: "requests, with keys", told: tokensAndKey, set: requests},
		{policy: policy.RoundRobin},
		{policy: policy.RoundRobin, as: "with keys", told: key},
		{policy: policy.Manual, told: key},
	}
}

// siteContenders are the lines of siteLines.
func siteContenders(trace []mooncake.Line) []study.Contender {
	p := &prompts{lines: trace, common: mooncake.Common(trace)}
	var all []study.Contender
	for _, l := range siteLines() {
		all = append(all, l.contender(p))
	}
	return all
}

// trialOfSites runs the table of goal Q6.
func trialOfSites(ctx context.Context, o *options, trial *study.Trial, chosen []study.Contender, stdout io.Writer) error {
	all := sites(o.site)
	trial.DescribeSites(stdout, fmt.Sprintf("the trace at %g times its rate", o.rate), all)
	blocks, err := trial.CompareSites(ctx, all, chosen)
	if err != nil {
		return err
	}
	return study.PrintSites(stdout, o.measure, blocks)
}
