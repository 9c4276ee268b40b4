package launcher

import (
	"fmt"
	"syscall"
	"time"

	"github.com/hashicorp/go-multierror"
)

// Terminate sends SIGTERM to every engine's process group, all at once, and does not
// wait. Once is enough; later calls do nothing.
func (g *Group) Terminate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopping = true
	select {
	case <-g.terminated:
		return
	default:
		close(g.terminated)
	}
	for _, p := range g.procs {
		g.signal(p, syscall.SIGTERM)
	}
}

// Kill sends SIGKILL to every process group that is left, at once, and does not
// wait. A [Group.Stop] under way goes on from there.
func (g *Group) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopping = true
	select {
	case <-g.killed:
	default:
		close(g.killed)
	}
	for _, p := range g.procs {
		g.signal(p, syscall.SIGKILL)
	}
}

// Stop ends all engines: SIGTERM to their groups, up to StopTimeout for all of them
// together, SIGKILL to the groups that are left, up to ReapTimeout to see them go.
// It returns after every goroutine that Start began, and the watchdog, except those of an
// engine that would not die, which its error names. Every later call returns the same.
func (g *Group) Stop() error {
	g.Terminate()
	g.startMu.Lock() // a Start under way has noticed, no engine is added any more
	defer g.startMu.Unlock()
	select {
	case <-g.stopped:
		return g.stopErr
	default:
	}
	procs := g.Processes()
	for _, p := range procs {
		g.signal(p, syscall.SIGTERM) // to one that Start added after Terminate
	}
	limit := time.NewTimer(g.cfg.StopTimeout)
	defer limit.Stop()
	if !g.awaitGone(procs, limit.C, g.killed) {
		g.Kill()
		reap := time.NewTimer(g.cfg.ReapTimeout)
		defer reap.Stop()
		g.awaitGone(procs, reap.C, nil)
	}
	g.console.setStatus()
	g.stopErr = g.cleanUp(procs)
	close(g.stopped)
	return g.stopErr
}

// awaitGone waits for every group to be empty and says whether they are.
func (g *Group) awaitGone(procs []*Process, limit <-chan time.Time, cut <-chan struct{}) bool {
	for _, p := range procs {
		select {
		case <-p.gone:
			continue
		default:
		}
		select {
		case <-p.gone:
		case <-limit:
			return false
		case <-cut:
			return false
		}
	}
	return true
}

// cleanUp joins the goroutines and gathers what would not die.
func (g *Group) cleanUp(procs []*Process) error {
	var faults *multierror.Error
	for _, p := range procs {
		select {
		case <-p.gone:
		default:
			faults = multierror.Append(faults, fmt.Errorf("%s (process group %d) would not die", p.name, p.PID()))
		}
		if p.output != nil {
			awaitOutput(p)
			if err := p.output.Close(); err != nil { // a helper that left the group may hold the other end
				faults = multierror.Append(faults, fmt.Errorf("closing the output of %s: %w", p.name, err))
			}
		}
	}
	g.dog.stop(g.cfg.ReapTimeout)
	if faults == nil {
		g.wg.Wait()
		if g.spawner != nil {
			g.spawner.close()
		}
	}
	return faults.ErrorOrNil()
}
