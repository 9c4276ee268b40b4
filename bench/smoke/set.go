package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"smg/bench/subject"
)

// set is engines with what is put in front of them.
type set struct {
	processes [kinds][]*subject.Process
	unknown   map[kind]string // subjects that the program does not know, and what it said
}

const (
	startWithin = 30 * time.Second
	stopWithin  = 5 * time.Second
)

// running are those of subjects that run.
func (s *set) running(subjects []kind) []kind {
	return slices.DeleteFunc(slices.Clone(subjects), func(k kind) bool { return len(s.processes[k]) == 0 })
}

// startSet starts the subjects of a scenario, what the others need first.
func startSet(ctx context.Context, o *options, sc *scenario) (_ *set, err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the relay's program: %w", err)
	}
	s := &set{unknown: make(map[kind]string)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	programs := [kinds]string{relayed: own, gateway: o.smg, single: o.smg, split: o.smg, base: o.base}
	for _, which := range sc.subjects {
		switch which {
		case direct:
			err = s.startEngines(ctx, o, sc, which, 1)
		case pair:
			err = s.startEngines(ctx, o, sc, which, 2)
		default:
			err = s.startFront(ctx, programs[which], which, sc.subjects[0])
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// start starts a process of a subject.
func (s *set) start(ctx context.Context, which kind, path, ready string, args func(listen netip.AddrPort) []string) error {
	p, err := subject.Start(ctx, subject.Config{
		Name: which.String(), Path: path, Args: args, Ready: ready, Within: startWithin, Grace: stopWithin,
	})
	if err != nil {
		return err
	}
	s.processes[which] = append(s.processes[which], p)
	return nil
}

// startEngines starts n engines that answer alike.
func (s *set) startEngines(ctx context.Context, o *options, sc *scenario, which kind, n int) error {
	for range n {
		err := s.start(ctx, which, o.sim, "/health", func(listen netip.AddrPort) []string {
			return []string{
				"--host", listen.Addr().String(), "--port", port(listen), "--model", model, "--instant",
				"--instant-tokens", strconv.Itoa(sc.tokens), "--instant-events-per-write", strconv.Itoa(eventsPerWrite),
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startFront starts what is put in front of the engines.
func (s *set) startFront(ctx context.Context, path string, which, engines kind) error {
	var urls []string
	for _, p := range s.processes[engines] {
		urls = append(urls, "http://"+p.Addr().String())
	}
	if which == relayed {
		engine := s.processes[engines][0].Addr().String()
		return s.start(ctx, which, path, "", func(listen netip.AddrPort) []string {
			return []string{relayVerb, listen.String(), engine}
		})
	}
	err := s.start(ctx, which, path, "/readiness", func(listen netip.AddrPort) []string {
		return append([]string{
			"launch", "--host", listen.Addr().String(), "--port", port(listen), "--prometheus-port", "0", "--shutdown-grace-period-secs", "1",
		}, routing(which, urls)...)
	})
	if said, ok := refused(err, which); ok {
		s.unknown[which] = said
		return nil
	}
	return err
}

// bootstrapPort is what the gateway tells both engines of a pair. They answer
// without meeting there.
const bootstrapPort = "8998"

// routing are the flags of a gateway that say in front of what it is.
func routing(which kind, urls []string) []string {
	if len(urls) == 1 {
		return []string{"--policy", "passthrough", "--worker-urls", urls[0]}
	}
	args := []string{"--policy", pairPolicy, flagPair, "--prefill", urls[0], bootstrapPort, "--decode", urls[1]}
	if which == split {
		args = append(args, flagTopology, "split")
	}
	return args
}

// Flags that older builds do not know.
const (
	flagPair     = "--pd-disaggregation"
	flagTopology = "--topology"
)

// usage is the exit status of a program that does not understand its arguments.
const usage = 2

// refused says whether a gateway did not start because it is too old to know what
// makes the subject, and what it said.
func refused(err error, which kind) (said string, ok bool) {
	flag := map[kind]string{split: flagTopology, base: flagPair}[which]
	exit, ended := errors.AsType[*exec.ExitError](err)
	if !ended || exit.ExitCode() != usage || flag == "" || !strings.Contains(err.Error(), flag) {
		return "", false
	}
	return strings.Join(strings.Fields(err.Error()), " "), true
}

func port(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// stop ends the subjects, those that use others first.
func (s *set) stop() error {
	var errs []error
	for _, processes := range slices.Backward(s.processes[:]) {
		for _, p := range processes {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}

// versions of the subjects: what the gateways say themselves, and what the others
// were built with, as they have no version of their own.
func versions(ctx context.Context, o *options) ([kinds]string, error) {
	v := [kinds]string{relayed: runtime.Version()}
	engine, err := buildinfo.ReadFile(o.sim)
	if err != nil {
		return v, fmt.Errorf("looking at the engine's program: %w", err)
	}
	v[direct], v[pair] = engine.GoVersion, engine.GoVersion
	for which, path := range map[kind]string{gateway: o.smg, base: o.base} {
		if path == "" {
			continue
		}
		said, err := exec.CommandContext(ctx, path, "--version").Output()
		if err != nil {
			return v, fmt.Errorf("asking %s for its version: %w", path, err)
		}
		v[which], _, _ = strings.Cut(strings.TrimSpace(string(said)), "\n")
	}
	v[single], v[split] = v[gateway], v[gateway]
	return v, nil
}
