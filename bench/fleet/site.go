package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"smg/bench/subject"
)

// topology is which processes serve.
type topology struct {
	name string
	// selectors run as processes of their own, with an ingress and a NATS server; none
	// is one gateway process with everything in it.
	selectors int
}

var topologies = []topology{{name: "one process"}, {name: "three selectors", selectors: 3}}

const (
	model        = "sim"
	startWithin  = 60 * time.Second
	readyWithin  = 3 * time.Minute
	stopWithin   = 10 * time.Second
	answerWithin = 10 * time.Second
)

// role is a process of ours and what it does.
type role struct {
	name string
	*subject.Process
}

// site is a fleet of engines with what serves in front of it.
type site struct {
	engines *subject.Process // one process that answers for all of them
	front   *subject.Process // where requests go
	ours    []role
	began   time.Time     // when the first process of ours was started
	ready   time.Duration // from then until every worker was ready
}

// urls are the addresses of n workers. Linux has the whole of 127.0.0.0/8 on its
// loopback interface, so one listener is all of them.
func urls(n int, port uint16) []string {
	list := make([]string, n)
	for i := range list {
		addr := netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)})
		list[i] = "http://" + netip.AddrPortFrom(addr, port).String()
	}
	return list
}

// startSite starts everything for n workers under a policy, and returns once all of
// them are ready.
func startSite(ctx context.Context, o *options, t topology, p policy, n int) (_ *site, err error) {
	s := &site{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	s.engines, err = subject.Start(ctx, subject.Config{
		Name: "engines", Path: o.sim, Ready: "/health", Within: startWithin, Grace: stopWithin,
		Args: func(listen netip.AddrPort) []string {
			return []string{"--host", "0.0.0.0", "--port", port(listen), "--model", model, "--instant"}
		},
	})
	if err != nil {
		return nil, err
	}
	workers := urls(n, s.engines.Addr().Port())
	if t.selectors == 0 {
		err = s.startGateway(ctx, o, p, workers)
	} else {
		err = s.startServices(ctx, o, t, p, workers)
	}
	if err != nil {
		return nil, err
	}
	return s, s.await(ctx, n)
}

// flags are those of who selects.
func (p policy) flags() []string {
	if p.quiet {
		return []string{"--policy", p.name, "--disable-load-monitoring"}
	}
	return []string{"--policy", p.name}
}

// common are the flags of every service.
func common(metrics string) []string {
	return []string{"--prometheus-host", "127.0.0.1", "--prometheus-port", metrics, "--log-level", "warn"}
}

// serving are the flags of a process with an API.
func serving(o *options, listen netip.AddrPort, workers []string) []string {
	return append([]string{
		"--host", listen.Addr().String(), "--port", port(listen),
		"--shutdown-grace-period-secs", "1", "--upstream-pool-idle-timeout-secs", strconv.Itoa(o.keep), "--worker-urls",
	}, workers...)
}

func (s *site) startGateway(ctx context.Context, o *options, p policy, workers []string) error {
	s.began = time.Now()
	front, err := subject.Start(ctx, subject.Config{
		Name: "gateway", Path: o.smg, Ready: "/readiness", Within: startWithin, Grace: stopWithin,
		Args: func(listen netip.AddrPort) []string {
			args := append(append([]string{"launch"}, p.flags()...), common("0")...)
			return append(args, serving(o, listen, workers)...)
		},
	})
	if err != nil {
		return err
	}
	s.front, s.ours = front, []role{{"gateway", front}}
	return nil
}

func (s *site) startServices(ctx context.Context, o *options, t topology, p policy, workers []string) error {
	bus, err := subject.Start(ctx, subject.Config{
		Name: "NATS", Path: o.nats, Within: startWithin, Grace: stopWithin,
		Args: func(listen netip.AddrPort) []string { return []string{natsVerb, listen.String()} },
	})
	if err != nil {
		return err
	}
	s.ours = []role{{"NATS", bus}}
	at := "nats://" + bus.Addr().String()
	s.began = time.Now()
	started := make([]*subject.Process, t.selectors+1)
	g, ctx := errgroup.WithContext(ctx)
	for i := range t.selectors {
		g.Go(func() (err error) {
			started[i], err = subject.Start(ctx, subject.Config{
				Name: "selector", Path: o.smg, Within: startWithin, Grace: stopWithin,
				Args: func(listen netip.AddrPort) []string {
					args := append([]string{"selector", "--leg", "regular", "--nats-url", at}, p.flags()...)
					return append(args, common(port(listen))...)
				},
			})
			return err
		})
	}
	g.Go(func() (err error) {
		started[t.selectors], err = subject.Start(ctx, subject.Config{
			Name: "ingress", Path: o.smg, Ready: "/readiness", Within: startWithin, Grace: stopWithin,
			Args: func(listen netip.AddrPort) []string {
				args := append([]string{"ingress", "--nats-url", at}, common("0")...)
				return append(args, serving(o, listen, workers)...)
			},
		})
		return err
	})
	err = g.Wait()
	for i, one := range started {
		switch {
		case one == nil:
		case i < t.selectors:
			s.ours = append(s.ours, role{fmt.Sprintf("selector %d", i+1), one})
		default:
			s.front = one
			s.ours = append(s.ours, role{"ingress", one})
		}
	}
	return err
}

func port(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// askEvery is how often a site is asked how many of its workers are ready.
const askEvery = 50 * time.Millisecond

// await returns when n workers are ready, and notes how long that took.
func (s *site) await(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not all of %d workers are ready within %s", n, readyWithin))
	defer cancel()
	t := time.NewTicker(askEvery)
	defer t.Stop()
	for {
		var said struct {
			Healthy int `json:"healthy_workers"`
		}
		body, err := s.get(ctx, "/readiness")
		if err == nil && json.Unmarshal(body, &said) == nil && said.Healthy == n {
			s.ready = time.Since(s.began)
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d are", context.Cause(ctx), said.Healthy)
		}
	}
}

// get asks the front for a path.
func (s *site) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.front.Addr().String()+path, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: %s", path, resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// stop ends the processes, those that use others first.
func (s *site) stop() error {
	g := errgroup.Group{}
	for _, r := range s.ours {
		if r.name != "NATS" {
			g.Go(r.Stop)
		}
	}
	errs := []error{g.Wait()}
	for _, r := range s.ours {
		errs = append(errs, r.Stop()) // the rest
	}
	if s.engines != nil {
		errs = append(errs, s.engines.Stop())
	}
	return errors.Join(errs...)
}
