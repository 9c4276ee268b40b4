package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Engines of the site of legs. SGLang has no encoders that are sent anything.
const (
	legEncoders = 2
	legPrefills = 3
	legDecodes  = 3
)

// Who breaks when.
const (
	legClients   = 24
	legDeadline  = 10 * time.Second // of a request, as the gateway has it
	legLateness  = 2 * time.Second  // that a client may wait beyond it
	legLease     = 3 * time.Second  // of KV that nobody fetches
	encode       = "encode"
	outcomeOK    = "whole"
	outcomeLeft  = "left by the client"
	outcomeBreak = "broken off, with an error event"
)

// legsSite is a gateway in front of engines that share requests, and one engine that
// serves the same requests whole: what it says is what is right.
type legsSite struct {
	*site
	gateway, whole *member
}

// newLegsSite lays out a site and starts nothing.
func newLegsSite(o *options, log io.Writer) (_ *legsSite, err error) {
	h := &host{bus: loopback, data: loopback}
	s := &legsSite{site: &site{options: o, log: log, net: &network{near: h, far: h}, http: &http.Client{Timeout: 10 * time.Second}}}
	if s.dir, err = os.MkdirTemp("", "smg-chaos-"); err != nil {
		return nil, err
	}
	next := 20_000 + os.Getpid()%100*100 // below what connections take while an engine is dead
	port := func() string {
		for ; ; next++ {
			l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(next)))
			if err == nil && l.Close() == nil {
				next++
				return strconv.Itoa(next - 1)
			}
		}
	}
	start := func(name, leg, at string, args ...string) *member {
		m := &member{leg: leg, url: "http://" + net.JoinHostPort(loopback, at)}
		m.probe = m.url + "/health"
		speed := "0.2" // slow enough to be hit
		if leg == "" {
			speed = "0"
		}
		m.process = &process{name: name, host: h, args: append([]string{
			o.program("smg-sim"), "--host", loopback, "--port", at, "--engine", o.kind, "--time-scale", speed,
		}, args...)}
		return m
	}
	s.whole = start("engine-whole", "", port())
	var encoders, gateway []string
	add := func(leg string, n int, role func() (args []string, bootstrap string)) {
		for i := range n {
			args, bootstrap := role()
			m := start(fmt.Sprintf("engine-%s-%d", leg, i), leg, port(), args...)
			s.engines = append(s.engines, m)
			gateway = append(gateway, "--"+leg, m.url)
			if bootstrap != "" {
				gateway = append(gateway, bootstrap)
			}
		}
	}
	if o.kind == "vllm" {
		add(encode, legEncoders, func() ([]string, string) { return []string{"--ec-role", "ec_producer"}, "" })
		for _, m := range s.engines {
			encoders = append(encoders, m.url)
		}
		add(prefill, legPrefills, func() ([]string, string) {
			return []string{
				"--kv-role", "kv_producer", "--kv-side-channel-port", port(), "--kv-lease", legLease.String(),
				"--ec-role", "ec_consumer", "--ec-peers", strings.Join(encoders, ","),
			}, ""
		})
		add(decode, legDecodes, func() ([]string, string) { return []string{"--kv-role", "kv_consumer"}, "" })
		gateway = append(gateway, "--epd-disaggregation")
	} else {
		add(prefill, legPrefills, func() ([]string, string) {
			at := port()
			return []string{"--disaggregation-mode", prefill, "--disaggregation-bootstrap-port", at, "--bootstrap-timeout", "5s", "--waiting-timeout", "5s"}, at
		})
		add(decode, legDecodes, func() ([]string, string) {
			return []string{"--disaggregation-mode", decode, "--bootstrap-timeout", "5s", "--waiting-timeout", "5s"}, ""
		})
		gateway = append(gateway, "--pd-disaggregation")
	}
	s.gateway = &member{url: "http://" + net.JoinHostPort(loopback, port())}
	metrics := port()
	s.gateway.metrics, s.gateway.probe = "http://"+net.JoinHostPort(loopback, metrics)+"/metrics", s.gateway.url+"/readiness"
	s.gateway.process = &process{name: "gateway", host: h, args: slices.Concat([]string{
		o.program("smg"), "launch", "--host", loopback, "--port", strings.TrimPrefix(s.gateway.url, "http://"+loopback+":"),
		"--prometheus-host", loopback, "--prometheus-port", metrics, "--topology", o.topology, "--policy", "round_robin",
		"--request-timeout-secs", strconv.Itoa(int(legDeadline.Seconds())), "--shutdown-grace-period-secs", "1", "--worker-startup-check-interval", "1",
	}, gateway, soon)}
	s.nats = []*member{s.whole} // first to start, last to end
	s.ingresses = []*member{s.gateway}
	return s, nil
}

// chaosOfLegs has a number of requests served while engines of all legs are killed,
// stopped and started again, and prints what became of them.
func chaosOfLegs(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	fmt.Fprintf(stdout, "seed %d, %d requests, %s, %s, %s/%s, %d cores\n\n", o.seed, o.requests, o.kind, o.topology, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	s, err := newLegsSite(o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(err != nil)) }()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := eventually(ctx, settleWithin, func() error { return s.usable(ctx) }); err != nil {
		return err
	}
	l := &legsLoad{legsSite: s, outcomes: map[string]int{}, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * legClients}}}
	defer l.http.CloseIdleConnections()
	l.request(ctx, 0, rand.New(rand.NewPCG(o.seed, 0))) // brings what stays
	l.http.CloseIdleConnections()
	before := 0.0
	for range 10 {
		n, err := s.sum(ctx, "go_goroutines")
		if err != nil {
			return err
		}
		before = max(before, n)
		wait(ctx, 100*time.Millisecond)
	}
	began := time.Now()
	breaking, stop := context.WithCancel(ctx)
	broken := make(chan error, 1)
	go func() { broken <- s.breakAll(breaking, l) }()
	l.run(ctx)
	stop()
	err = <-broken
	took := time.Since(began)
	rested := time.Now()
	l.http.CloseIdleConnections()
	err = errors.Join(err, ctx.Err(), eventually(ctx, settleWithin, func() error { return s.atRest(ctx, before) }))
	l.report(stdout, took, time.Since(rested))
	return errors.Join(append(l.faults, err)...)
}

// usable returns nil once every engine can be chosen.
func (s *legsSite) usable(ctx context.Context) error {
	p, err := s.page(ctx, s.gateway)
	if err != nil {
		return err
	}
	for _, m := range s.engines {
		if p[health][m.url] != 1 {
			return fmt.Errorf("%s has health %g", m.name, p[health][m.url])
		}
	}
	return nil
}

// sum adds up all values of a metric of the gateway.
func (s *legsSite) sum(ctx context.Context, name string) (float64, error) {
	body, err := s.get(ctx, s.gateway.metrics)
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for line := range strings.Lines(string(body)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("the gateway has no metric %s", name)
	}
	return sum, nil
}

// atRest returns nil if nobody counts or holds anything, and as many goroutines run as
// before.
func (s *legsSite) atRest(ctx context.Context, goroutines float64) error {
	var faults []error
	for _, name := range []string{own, counted, "smg_bootstrap_rooms_active"} {
		n, err := s.sum(ctx, name)
		if err == nil && n != 0 {
			err = fmt.Errorf("%s is %g", name, n)
		}
		faults = append(faults, err)
	}
	n, err := s.sum(ctx, "go_goroutines")
	if err == nil && n > goroutines {
		err = fmt.Errorf("%g goroutines, and %g before", n, goroutines)
	}
	return errors.Join(append(faults, err, s.idle(ctx), s.usable(ctx))...)
}

// breakAll breaks engines until ctx ends, in each leg one after another. Then all run.
func (s *legsSite) breakAll(ctx context.Context, l *legsLoad) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error)
	legs := map[string][]*member{}
	for _, m := range s.engines {
		legs[m.leg] = append(legs[m.leg], m)
	}
	for i, leg := range slices.Sorted(maps.Keys(legs)) {
		random := rand.New(rand.NewPCG(s.options.seed, uint64(1+i)))
		go func() { done <- s.breakLeg(ctx, legs[leg], random, l) }()
	}
	var err error
	for range legs {
		if fault := <-done; fault != nil {
			stop() // the run is over
			err = errors.Join(err, fault)
		}
	}
	return err
}

func (s *legsSite) breakLeg(ctx context.Context, engines []*member, random *rand.Rand, l *legsLoad) error {
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)))
	}
	for wait(ctx, between(100*time.Millisecond, 600*time.Millisecond)) {
		i := &incident{kind: stopEngine, victims: []*member{engines[random.IntN(len(engines))]}, lasts: between(100*time.Millisecond, 2*time.Second)}
		if random.IntN(2) == 0 {
			i.kind = killEngine
		}
		// What is begun is undone, whoever ends the run.
		if err := s.make(context.WithoutCancel(ctx), i); err != nil {
			return err
		}
		l.note(fmt.Sprintf("%s of the %s leg", i.kind, i.victims[0].leg), nil)
	}
	return nil
}

// legsLoad is the clients.
type legsLoad struct {
	*legsSite
	http *http.Client

	mu       sync.Mutex
	outcomes map[string]int
	slowest  time.Duration
	faults   []error
}

// note counts an outcome, and keeps what must not be.
func (l *legsLoad) note(outcome string, fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes[outcome]++
	if fault != nil && len(l.faults) < 20 {
		l.faults = append(l.faults, fault)
	}
}

// run makes all requests, and returns when they have ended.
func (l *legsLoad) run(ctx context.Context) {
	numbers := make(chan int)
	var clients sync.WaitGroup
	for range legClients {
		clients.Go(func() {
			for n := range numbers {
				l.request(ctx, n, rand.New(rand.NewPCG(l.options.seed, uint64(100+n))))
			}
		})
	}
	for n := range l.options.requests {
		if ctx.Err() != nil {
			break
		}
		numbers <- n + 1
	}
	close(numbers)
	clients.Wait()
}

// request asks a question that nobody else asks, and judges the answer.
func (l *legsLoad) request(ctx context.Context, n int, random *rand.Rand) {
	stream := random.IntN(2) == 0
	content := fmt.Sprintf(`"Question number %d of %d."`, n, l.options.seed)
	if l.options.kind == "vllm" && random.IntN(3) == 0 {
		content = fmt.Sprintf(`[{"type":"text","text":%s},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo%09d"}}]`, content, n)
	}
	body := fmt.Sprintf(`{"model":"sim","temperature":0,"max_tokens":%d,"messages":[{"role":"user","content":%s}],"stream":%v}`, 5+random.IntN(20), content, stream)
	right, _, err := l.ask(ctx, l.whole, body)
	if err != nil {
		l.note("not answered by the whole engine", fmt.Errorf("request %d: the engine that serves it whole: %w", n, err))
		return
	}
	limited, cancel := context.WithTimeout(ctx, legDeadline+legLateness)
	if leaves := random.IntN(8) == 0; leaves {
		limited, cancel = context.WithTimeoutCause(ctx, time.Duration(random.IntN(100))*time.Millisecond, errLeft)
	}
	defer cancel()
	began := time.Now()
	text, status, err := l.ask(limited, l.gateway, body)
	took := time.Since(began)
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("request %d, after %.1f s: %w", n, took.Seconds(), fmt.Errorf(format, args...))
	}
	if errors.Is(context.Cause(limited), errLeft) {
		l.note(outcomeLeft, nil)
		return
	}
	l.mu.Lock()
	l.slowest = max(l.slowest, took)
	l.mu.Unlock()
	var told *toldError
	switch {
	case err == nil && text == right:
		l.note(outcomeOK, nil)
	case err == nil:
		l.note("another answer", wrong("the answer is %q, and should be %q", text, right))
	case errors.As(err, &told) && status == http.StatusOK && strings.HasPrefix(right, text):
		l.note(outcomeBreak, nil)
	case errors.As(err, &told) && status == http.StatusOK:
		l.note("another answer", wrong("the answer begins with %q, and should be %q", text, right))
	case errors.As(err, &told) && status >= 500 && allowed(told.code):
		l.note(fmt.Sprintf("%d %s", status, told.code), nil)
	case ctx.Err() != nil: // the run has been ended
	default:
		l.note("another failure", wrong("%w", err))
	}
}

// allowed says whether a request may fail so while engines are broken.
func allowed(code string) bool {
	leg, end, ok := strings.Cut(code, "_")
	return code == "no_available_workers" || code == "request_timeout" ||
		ok && slices.Contains([]string{encode, prefill, decode}, leg) &&
			slices.Contains([]string{"request_failed", "read_failed", "internal_error", "bad_gateway", "unavailable", "upstream_error"}, end)
}

// toldError is a failure of which the client was told.
type toldError struct{ code, text string }

func (e *toldError) Error() string { return fmt.Sprintf("code %q: %s", e.code, e.text) }

// ask posts a chat and returns the text of the answer, as far as it has come, and its
// status.
func (l *legsLoad) ask(ctx context.Context, m *member, body string) (text string, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.http.Do(req)
	if err != nil {
		return "", 0, cause(ctx, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		b, err := io.ReadAll(resp.Body)
		return "", resp.StatusCode, errors.Join(&toldError{resp.Header.Get("X-Smg-Error-Code"), string(b)}, err)
	}
	if strings.Contains(body, `"stream":true`) {
		text, err = readText(resp.Body)
		return text, resp.StatusCode, cause(ctx, err)
	}
	text, err = wholeText(resp.Body)
	return text, resp.StatusCode, cause(ctx, err)
}

// report prints what became of the requests.
func (l *legsLoad) report(w io.Writer, took, rested time.Duration) {
	fmt.Fprintf(w, "| What | times |\n|-|-|\n")
	for _, outcome := range slices.Sorted(maps.Keys(l.outcomes)) {
		fmt.Fprintf(w, "| %s | %d |\n", outcome, l.outcomes[outcome])
	}
	fmt.Fprintf(w, "\n%.0f s, slowest answer %.1f s, at rest %.1f s after the last\n", took.Seconds(), l.slowest.Seconds(), rested.Seconds())
}
