package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The two legs of the site.
const (
	prefill = "prefill"
	decode  = "decode"
)

// member is a process of the site that a fault may hit.
type member struct {
	*process
	leg     string // of a selector or an engine
	url     string // where it answers: the API of an ingress or engine
	metrics string // page of a service
	probe   string // answers 200 once it is ready, or takes connections where it has no scheme
	store   string // folder of a NATS server
	up      atomic.Bool
}

// site is all processes.
type site struct {
	options *options
	net     *network
	dir     string
	log     io.Writer
	http    *http.Client

	nats, selectors, ingresses, engines []*member
}

// How many of each there are.
const (
	natsServers    = 3
	selectorsOfLeg = 2
	ingresses      = 2
	prefillEngines = 2
	decodeEngines  = 3
)

// startWithin is how long a process may take until it is ready; it only catches
// those that never are.
const startWithin = time.Minute

// newSite lays out a site and starts nothing but its hosts.
func newSite(o *options, log io.Writer) (_ *site, err error) {
	s := &site{options: o, log: log, http: &http.Client{Timeout: 10 * time.Second}}
	if s.dir, err = os.MkdirTemp("", "smg-chaos-"); err != nil {
		return nil, err
	}
	if s.net, err = newNetwork(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	if err := s.layOut(); err != nil {
		return nil, errors.Join(err, s.close(false))
	}
	return s, nil
}

// layOut says what runs where. The far host has one of everything that there are
// several of, so that a cut leaves two halves which can both go on.
func (s *site) layOut() error {
	near, far := s.net.near, s.net.far
	var faults []error
	port := func(h *host) int {
		p, err := h.port()
		faults = append(faults, err)
		return p
	}
	url, err := s.layNATS([]*host{near, near, far}, port)
	faults = append(faults, err)
	for i, leg := range []string{prefill, prefill, decode, decode, decode} {
		h := near
		if i == prefillEngines+decodeEngines-1 {
			h = far
		}
		s.engines = append(s.engines, s.engine(fmt.Sprintf("engine-%s-%d", leg, i), leg, h, port(h), port(h)))
	}
	for _, leg := range []string{prefill, decode} {
		for i, h := range []*host{near, far} {
			s.selectors = append(s.selectors, s.selector(fmt.Sprintf("selector-%s-%d", leg, i), leg, url, h, port(h)))
		}
	}
	for i, h := range []*host{near, far} {
		s.ingresses = append(s.ingresses, s.ingress(fmt.Sprintf("ingress-%d", i), url, h, port(h), port(h)))
	}
	return errors.Join(faults...)
}

// layNATS is a cluster with a server on each host, and returns its URL.
func (s *site) layNATS(hosts []*host, port func(*host) int) (string, error) {
	var at, routes []string
	var clients, peers []int
	for _, h := range hosts {
		clients, peers = append(clients, port(h)), append(peers, port(h))
		at = append(at, "nats://"+net.JoinHostPort(h.bus, strconv.Itoa(clients[len(clients)-1])))
		routes = append(routes, "nats://"+net.JoinHostPort(h.bus, strconv.Itoa(peers[len(peers)-1])))
	}
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	for i, h := range hosts {
		name := fmt.Sprintf("nats-%d", i)
		m := &member{probe: strings.TrimPrefix(at[i], "nats://"), store: filepath.Join(s.dir, name)}
		m.process = &process{name: name, host: h, args: []string{
			own, natsVerb, "-name", name, "-host", h.bus, "-port", strconv.Itoa(clients[i]), "-cluster-port", strconv.Itoa(peers[i]),
			"-store", m.store, "-routes", strings.Join(routes, ","),
		}}
		s.nats = append(s.nats, m)
	}
	return strings.Join(at, ","), nil
}

func (s *site) engine(name, leg string, h *host, port, bootstrap int) *member {
	m := &member{leg: leg, url: "http://" + net.JoinHostPort(h.data, strconv.Itoa(port))}
	m.probe = m.url + "/health"
	args := []string{
		s.options.program("smg-sim"), "--host", h.data, "--port", strconv.Itoa(port), "--disaggregation-mode", leg,
		// Answers take long enough to be hit, and streams last longer than the run.
		"--decode-step-ms", "20", "--context-length", "1000000", "--kv-blocks", "500000",
	}
	if leg == prefill {
		args = append(args, "--disaggregation-bootstrap-port", strconv.Itoa(bootstrap))
		m.url += " " + strconv.Itoa(bootstrap)
	}
	m.process = &process{name: name, host: h, args: args}
	return m
}

// worker is an engine as the gateway names it.
func (m *member) worker() string {
	url, _, _ := strings.Cut(m.url, " ")
	return url
}

// soon are flags that let a selector notice within seconds what it would notice
// within minutes, as the run has only minutes.
var soon = []string{
	"--health-check-interval-secs", "1", "--health-check-timeout-secs", "1", "--health-failure-threshold", "2", "--health-success-threshold", "1",
	"--cb-timeout-duration-secs", "2", "--cb-success-threshold", "1", "--load-monitor-interval", "2",
}

func (s *site) selector(name, leg, nats string, h *host, metrics int) *member {
	m := &member{leg: leg}
	m.serve(h, metrics)
	m.probe = strings.TrimSuffix(m.metrics, "/metrics") + "/health"
	policy := "cache_aware"
	if leg == decode {
		policy = "manual" // pins its keys
	}
	m.process = &process{name: name, host: h, env: []string{"SMG_NATS_URL=" + nats}, args: append([]string{
		s.options.program("smg-selector"), "--leg", leg, "--policy", policy, "--nats-replicas", strconv.Itoa(natsServers),
		"--prometheus-host", h.data, "--prometheus-port", strconv.Itoa(metrics),
	}, soon...)}
	return m
}

func (m *member) serve(h *host, metrics int) {
	m.metrics = "http://" + net.JoinHostPort(h.data, strconv.Itoa(metrics)) + "/metrics"
}

func (s *site) ingress(name, nats string, h *host, port, metrics int) *member {
	m := &member{url: "http://" + net.JoinHostPort(h.data, strconv.Itoa(port))}
	m.serve(h, metrics)
	m.probe = m.url + "/readiness"
	args := []string{
		s.options.program("smg-ingress"), "--host", h.data, "--port", strconv.Itoa(port), "--nats-replicas", strconv.Itoa(natsServers),
		"--prometheus-host", h.data, "--prometheus-port", strconv.Itoa(metrics), "--shutdown-grace-period-secs", "0",
		"--worker-startup-check-interval", "1", "--pd-disaggregation",
	}
	for _, e := range s.engines {
		args = append(append(args, "--"+e.leg), strings.Fields(e.url)...)
	}
	m.process = &process{name: name, host: h, env: []string{"SMG_NATS_URL=" + nats}, args: args}
	return m
}

// members are all, in the order of their start.
func (s *site) members() []*member {
	var all []*member
	for _, some := range [][]*member{s.nats, s.engines, s.selectors, s.ingresses} {
		all = append(all, some...)
	}
	return all
}

// start starts all processes and waits until they are ready.
func (s *site) start(ctx context.Context) error {
	for _, m := range s.members() {
		if err := m.start(); err != nil {
			return err
		}
	}
	for _, m := range s.members() {
		if err := s.ready(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until a member is, and notes it.
func (s *site) ready(ctx context.Context, m *member) error {
	err := eventually(ctx, startWithin, func() error {
		if !m.running() {
			return fmt.Errorf("it has ended: %v", m.cmd.ProcessState)
		}
		if strings.HasPrefix(m.probe, "http") {
			_, err := s.get(ctx, m.probe)
			return err
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.probe)
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		return fmt.Errorf("%s does not get ready: %w", m.name, err)
	}
	m.up.Store(true)
	return nil
}

// get is the body of an answer with 200.
func (s *site) get(ctx context.Context, url string) (_ []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", url, resp.StatusCode, body)
	}
	return body, err
}

// pollEvery is how often a condition is looked at.
const pollEvery = 25 * time.Millisecond

// eventually calls check until it returns nil. After a time it gives up and returns
// the last error.
func eventually(ctx context.Context, within time.Duration, check func() error) error {
	end := time.Now().Add(within)
	for {
		err := check()
		if err == nil || !time.Now().Before(end) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		time.Sleep(pollEvery)
	}
}

// close ends everything, services first, and fails if one does not end as it should.
// With failed it shows or keeps the logs.
func (s *site) close(failed bool) error {
	all := s.members()
	var faults []error
	for i := range all {
		m := all[len(all)-1-i]
		if m.process == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), startWithin)
		faults = append(faults, m.stop(ctx.Done()), m.alarm())
		cancel()
	}
	err := errors.Join(faults...)
	for _, m := range all {
		switch {
		case m.process == nil:
		case s.options.keep != "":
			err = errors.Join(err, m.keep(s.options.keep))
		case failed || err != nil:
			fmt.Fprintf(s.log, "=== %s\n%s", m.name, lastLines(m.said(), 40))
		}
	}
	s.http.CloseIdleConnections()
	return errors.Join(err, s.net.close(), os.RemoveAll(s.dir))
}

// lastLines are at most n lines.
func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}
