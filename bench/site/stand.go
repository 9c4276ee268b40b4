package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"smg/bench/procstat"
	"smg/bench/subject"
	"smg/study"
)

// site is a way to run a gateway.
type site int

// The sites that are compared: the others with the first.
const (
	one     site = iota
	many         // ingresses, selectors and what they meet on
	private      // as many gateways as there are ingresses, which know nothing of each other
	sites
)

func (s site) name(o *options) string {
	switch s {
	case many:
		return fmt.Sprintf("%d x %d", o.ingresses, o.selectors)
	case private:
		return fmt.Sprintf("%d, private", o.ingresses)
	default:
		return "one process"
	}
}

// part is one kind of the processes.
type part int

// The kinds, each of which needs the ones before it.
const (
	engines part = iota
	natsServer
	selectors
	ingresses // or whole gateways
	parts
)

func (p part) String() string {
	return [...]string{"engines", "NATS", "selectors", "ingresses"}[p]
}

// The programs.
const (
	gatewayProgram  = "smg"
	ingressProgram  = "smg-ingress"
	selectorProgram = "smg-selector"
	simProgram      = "smg-sim"
)

const (
	model       = "sim"
	startWithin = 30 * time.Second
	stopWithin  = 5 * time.Second
)

// stand is a site that runs, with engines of its own.
type stand struct {
	processes [parts][]*subject.Process
	commands  []string // one of each kind, and how many there are
	workers   []string // URLs of the engines
}

// newStand starts a site. Whatever it started is stopped if it fails.
func newStand(ctx context.Context, o *options, s site, policy string) (_ *stand, err error) {
	st := &stand{}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.stop())
		}
	}()
	if err := st.startEngines(ctx, o); err != nil {
		return nil, err
	}
	routing := o.routing(policy)
	workers := append([]string{"--worker-urls"}, st.workers...)
	if s != many {
		n := 1
		if s == private {
			n = o.ingresses
		}
		return st, st.start(ctx, o, ingresses, n, gatewayProgram, "/readiness", func(at netip.AddrPort) []string {
			return slices.Concat([]string{"launch"}, api(at), routing, workers)
		})
	}
	var nats string
	err = st.start(ctx, o, natsServer, 1, gatewayProgram, "", func(at netip.AddrPort) []string {
		nats = "smg:" + password + "@" + at.String()
		// Its API is not used: it listens where nobody else does, on another port, as
		// is insisted on.
		return slices.Concat([]string{"launch", "--cluster", "elsewhere", "--nats-listen", nats}, api(netip.AddrPortFrom(loopback(maxEngines), at.Port()^1)))
	})
	if err != nil {
		return nil, err
	}
	bus := []string{"--nats-url", "nats://" + nats}
	err = st.start(ctx, o, selectors, o.selectors, selectorProgram, "/health", func(at netip.AddrPort) []string {
		return slices.Concat([]string{"--leg", "regular", "--prometheus-host", at.Addr().String(), "--prometheus-port", port(at)}, bus, routing)
	})
	if err != nil {
		return nil, err
	}
	return st, st.start(ctx, o, ingresses, o.ingresses, ingressProgram, "/readiness", func(at netip.AddrPort) []string {
		return slices.Concat(api(at), bus, workers)
	})
}

// password is that of a NATS server that only listens on the loopback address.
const password = "site"

// api are the flags of a gateway or ingress that listens there, and that nobody asks
// for metrics.
func api(at netip.AddrPort) []string {
	return []string{
		"--host", at.Addr().String(), "--port", port(at),
		"--prometheus-host", "127.0.0.1", "--prometheus-port", "0", "--shutdown-grace-period-secs", "0",
	}
}

// loopback is the i-th loopback address: 127.0.0.1 for 0.
func loopback(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}) }

func port(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// routing are the flags of whoever selects. Those that are times, or parts of one,
// are the defaults in the engines' time.
func (o *options) routing(policy string) []string {
	cfg := study.FlagDefaults()
	return []string{
		"--policy", policy,
		"--load-monitor-interval", strconv.Itoa(o.pollSeconds()),
		"--least-load-default-throughput", strconv.FormatFloat(cfg.LeastLoad.DefaultThroughput/o.scale, 'g', -1, 64),
		"--least-load-kv-pressure-weight", strconv.FormatFloat(cfg.LeastLoad.KVPressureWeight*o.scale, 'g', -1, 64),
		"--eviction-interval", strconv.Itoa(max(int(math.Round(o.real(cfg.CacheAware.EvictionInterval).Seconds())), 1)),
	}
}

// startEngines starts all engines as one process, each on a loopback address of its
// own and all on one port. They are those of the study.
func (st *stand) startEngines(ctx context.Context, o *options) error {
	e := study.DefaultConfig().Engine
	return st.start(ctx, o, engines, 1, simProgram, "/health", func(at netip.AddrPort) []string {
		args := []string{
			"--model", model, "--time-scale", strconv.FormatFloat(o.scale, 'g', -1, 64),
			"--block-size", strconv.Itoa(e.BlockSize), "--kv-blocks", strconv.Itoa(e.KVBlocks),
			"--context-length", strconv.Itoa(e.ContextLength), "--max-queue", strconv.Itoa(e.MaxQueue),
		}
		st.workers = nil // of an earlier attempt
		for i := range o.engines {
			listen := netip.AddrPortFrom(loopback(i), at.Port()).String()
			args = append(args, "--listen", listen)
			st.workers = append(st.workers, "http://"+listen)
		}
		return args
	})
}

// start starts n processes of a kind, one after another.
func (st *stand) start(ctx context.Context, o *options, kind part, n int, program, ready string, args func(at netip.AddrPort) []string) error {
	command := ""
	for i := range n {
		p, err := subject.Start(ctx, subject.Config{
			Name: fmt.Sprintf("%s (%s %d)", program, kind, i+1), Path: o.program(program), Ready: ready, Within: startWithin, Grace: stopWithin,
			Args: func(at netip.AddrPort) []string {
				a := args(at)
				command = program + " " + strings.Join(a, " ")
				return a
			},
		})
		if err != nil {
			return err
		}
		st.processes[kind] = append(st.processes[kind], p)
	}
	st.commands = append(st.commands, fmt.Sprintf("%d x %s", n, command))
	return nil
}

// targets are the URLs that requests are sent to.
func (st *stand) targets() []string {
	var urls []string
	for _, p := range st.processes[ingresses] {
		urls = append(urls, "http://"+p.Addr().String()+"/v1/completions")
	}
	return urls
}

// read reads what the processes have used of CPUs until now.
func (st *stand) read() ([parts][]procstat.Reading, error) {
	var all [parts][]procstat.Reading
	for kind, processes := range st.processes {
		for _, p := range processes {
			r, err := procstat.System().Read(p.PID())
			if err != nil {
				return all, fmt.Errorf("%s: %w", part(kind), err)
			}
			all[kind] = append(all[kind], r)
		}
	}
	return all, nil
}

// stop stops all processes, those that need others first.
func (st *stand) stop() error {
	var errs []error
	for _, processes := range slices.Backward(st.processes[:]) {
		for _, p := range processes {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}
