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
	"strconv"
	"strings"
	"time"

	"smg/bench/subject"
)

// The subjects, in the order in which they are reported.
const (
	direct = iota
	relayed
	gateway
	base // another build of the gateway, if one is given
	mostSubjects
)

func name(which int) string {
	return [mostSubjects]string{"direct", "relay", "gateway", "base"}[which]
}

// subjects is how many there are.
func (o *options) subjects() int {
	if o.base == "" {
		return base
	}
	return mostSubjects
}

// set is an engine with what is put in front of it.
type set struct {
	processes [mostSubjects]*subject.Process // direct is the engine itself
}

const (
	startWithin = 30 * time.Second
	stopWithin  = 5 * time.Second
)

// startSet starts the subjects of a scenario.
func startSet(ctx context.Context, o *options, sc *scenario) (_ *set, err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the relay's program: %w", err)
	}
	s := &set{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	start := func(which int, path, ready string, args func(listen netip.AddrPort) []string) error {
		p, err := subject.Start(ctx, subject.Config{
			Name: name(which), Path: path, Args: args, Ready: ready, Within: startWithin, Grace: stopWithin,
		})
		s.processes[which] = p
		return err
	}
	err = start(direct, o.sim, "/health", func(listen netip.AddrPort) []string {
		return []string{
			"--host", listen.Addr().String(), "--port", port(listen), "--model", model, "--instant",
			"--instant-tokens", strconv.Itoa(sc.tokens), "--instant-events-per-write", strconv.Itoa(eventsPerWrite),
		}
	})
	if err != nil {
		return nil, err
	}
	engine := s.processes[direct].Addr().String()
	err = start(relayed, own, "", func(listen netip.AddrPort) []string {
		return []string{relayVerb, listen.String(), engine}
	})
	if err != nil {
		return nil, err
	}
	for which, path := range map[int]string{gateway: o.smg, base: o.base} {
		if path == "" {
			continue
		}
		err = start(which, path, "/readiness", func(listen netip.AddrPort) []string {
			return []string{
				"launch", "--host", listen.Addr().String(), "--port", port(listen), "--prometheus-port", "0",
				"--worker-urls", "http://" + engine, "--policy", "passthrough",
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func port(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// stop ends the subjects, those that use others first.
func (s *set) stop() error {
	var errs []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		if p := s.processes[i]; p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}

// versions of the subjects: what the gateways say themselves, and what the others
// were built with, as they have no version of their own.
func versions(ctx context.Context, o *options) ([mostSubjects]string, error) {
	v := [mostSubjects]string{relayed: runtime.Version()}
	engine, err := buildinfo.ReadFile(o.sim)
	if err != nil {
		return v, fmt.Errorf("looking at the engine's program: %w", err)
	}
	v[direct] = engine.GoVersion
	for which, path := range map[int]string{gateway: o.smg, base: o.base} {
		if path == "" {
			continue
		}
		said, err := exec.CommandContext(ctx, path, "--version").Output()
		if err != nil {
			return v, fmt.Errorf("asking %s for its version: %w", path, err)
		}
		v[which], _, _ = strings.Cut(strings.TrimSpace(string(said)), "\n")
	}
	return v, nil
}
