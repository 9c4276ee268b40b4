package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// waitState is how far the wait for one engine has come.
type waitState struct {
	p     *Process
	ready bool
	last  string // what the last probe said
}

// wait is one run of WaitReady.
type wait struct {
	g      *Group
	client *http.Client
	all    chan struct{} // closed when every engine is ready

	mu     sync.Mutex
	states []waitState // in the order of the start
	left   int
	shown  bool // as a block on a terminal
}

// WaitReady returns when every engine has answered GET /health with 200. All are
// probed at the same time against one deadline, StartupTimeout from now. The end of
// any engine, ready or not, ends the wait at once with an error that wraps
// [ErrExited]; the deadline with one that wraps [ErrStartupTimeout]; the end of ctx
// with its cause. No engine is stopped.
func (g *Group) WaitReady(ctx context.Context) error {
	procs := g.Processes()
	transport := &http.Transport{DisableKeepAlives: true} // no proxy: engines are local
	defer transport.CloseIdleConnections()
	w := &wait{
		g: g,
		client: &http.Client{
			Transport: transport,
			Timeout:   g.cfg.ProbeTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // ready is 200 and nothing else
			},
		},
		all:  make(chan struct{}),
		left: len(procs),
	}
	for _, p := range procs {
		w.states = append(w.states, waitState{p: p, last: "none yet"})
	}
	if w.left == 0 {
		return nil
	}
	err := w.run(ctx)
	g.console.setStatus()
	return err
}

func (w *wait) run(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, w.g.cfg.StartupTimeout)
	defer cancel()
	eg, running := errgroup.WithContext(limited)
	for i := range w.states {
		p := w.states[i].p
		eg.Go(func() error { return w.watch(running, p) })
		eg.Go(func() error { w.probe(running, p); return nil })
	}
	eg.Go(func() error { w.progress(running); return nil })
	if err := eg.Wait(); err != nil {
		return err
	}
	if waiting := w.waiting(); len(waiting) > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for engines: %w", context.Cause(ctx))
		}
		return w.g.timeoutError(waiting)
	}
	return nil
}

// watch fails as soon as p has ended.
func (w *wait) watch(ctx context.Context, p *Process) error {
	select {
	case <-p.exited:
	case <-w.all:
		return nil
	case <-ctx.Done():
		return nil
	}
	if w.g.isStopping() {
		return ErrStopped
	}
	awaitOutput(p)
	return w.g.exitError(p, "ended during start-up", ErrExited)
}

// firstProbes is the pause between the first two probes; it doubles up to the interval.
// An engine that is quick to start is not to be waited for longer than it takes.
const firstProbes = 20 * time.Millisecond

// probe asks p until it is ready.
func (w *wait) probe(ctx context.Context, p *Process) {
	longest := w.g.cfg.ProbeInterval
	for gap := min(firstProbes, longest); ; gap = min(2*gap, longest) {
		ready, said := w.ask(ctx, p)
		if ctx.Err() != nil {
			return
		}
		w.note(p, ready, said)
		if ready {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gap):
		}
	}
}

// ask probes once and says in words what came of it.
func (w *wait) ask(ctx context.Context, p *Process) (ready bool, said string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/health", nil)
	if err != nil {
		return false, err.Error()
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return false, inWords(err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // let the engine finish its answer
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK, "GET /health answered " + resp.Status
}

func inWords(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return err.Error()
}

// note records what a probe said, once per engine also that it is ready.
func (w *wait) note(p *Process, ready bool, said string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states[p.index].last = said
	if !ready {
		return
	}
	w.states[p.index].ready = true
	w.g.reportReady(p)
	if w.shown {
		w.showLocked()
	}
	if w.left--; w.left == 0 {
		close(w.all)
	}
}

// waiting returns the engines that are not ready.
func (w *wait) waiting() []waitState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waitingLocked()
}

// waitingLocked is waiting with w.mu held.
func (w *wait) waitingLocked() []waitState {
	return slices.DeleteFunc(slices.Clone(w.states), func(s waitState) bool { return s.ready })
}
