package launcher

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// maxShown is how many engines the block on a terminal shows.
const maxShown = 8

// progress reports the engines that are loading: on a terminal as a block with a line
// for each, elsewhere a line for each every LoadingInterval.
func (w *wait) progress(ctx context.Context) {
	gap, block := w.g.cfg.LoadingInterval, w.g.showsBlock()
	if block {
		gap = min(gap, time.Second)
	}
	tick := time.NewTicker(gap)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.all:
			return
		case <-tick.C:
			w.mu.Lock() // an engine that has become ready is not reported as loading
			if block {
				w.showLocked()
			} else {
				w.g.reportLoading(w.waitingLocked())
			}
			w.mu.Unlock()
		}
	}
}

// showsBlock says whether there is a terminal that nobody else writes to.
func (g *Group) showsBlock() bool {
	return g.console.terminal && !g.cfg.JSON && g.cfg.Log != LogRaw
}

// showLocked shows the engines that are not ready yet on the terminal. w.mu is held.
func (w *wait) showLocked() {
	waiting := w.waitingLocked()
	_, height := w.g.console.size()
	n := min(len(waiting), maxShown, max(1, height-3)) // the block has to fit
	lines := make([]string, 0, n+1)
	for _, s := range waiting[:n] {
		lines = append(lines, loadingLine(s.p))
	}
	if more := len(waiting) - n; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	w.shown = true
	w.g.console.setStatus(lines...)
}

// reportStart tells that p was started.
func (g *Group) reportStart(p *Process) {
	p.log.Debug("engine command", "argv", redactArgs(p.argv))
	if g.cfg.JSON {
		log := p.log
		if port := p.place.BootstrapPort; port != 0 {
			log = log.With("bootstrap_port", port)
		}
		if gpus := p.place.GPUs; len(gpus) > 0 {
			log = log.With("gpus", strings.Join(gpus, ","))
		}
		log.Info("engine started", "backend", g.cfg.Backend, "host", g.cfg.Host, "port", p.place.Port, "pid", p.PID())
		return
	}
	line := fmt.Sprintf("%s  pid %d  port %d", p.name, p.PID(), p.place.Port)
	if port := p.place.BootstrapPort; port != 0 {
		line += fmt.Sprintf("  bootstrap %d", port)
	}
	if gpus := p.place.GPUs; len(gpus) > 0 {
		line += "  GPU " + strings.Join(gpus, ",")
	}
	if p.logFile != "" {
		line += "  log " + p.logFile
	}
	g.say(line)
}

// reportReady tells that p answers.
func (g *Group) reportReady(p *Process) {
	took := time.Since(p.started)
	if g.cfg.JSON {
		p.log.Info("engine ready", "seconds", took.Seconds())
		return
	}
	g.say(fmt.Sprintf("%s  ready after %s", p.name, inSeconds(took)))
}

// reportLoading tells which engines are not ready yet.
func (g *Group) reportLoading(waiting []waitState) {
	for _, s := range waiting {
		if g.cfg.JSON {
			s.p.log.Info("engine loading", "seconds", time.Since(s.p.started).Seconds())
			continue
		}
		g.say(loadingLine(s.p))
	}
}

func loadingLine(p *Process) string {
	line := fmt.Sprintf("%s  loading… %s", p.name, inSeconds(time.Since(p.started)))
	if last := p.Tail(1); len(last) > 0 {
		line += fmt.Sprintf("   last: %q", clip(last[0], 60))
	}
	return line
}

// inSeconds has decimals where whole seconds would say nothing.
func inSeconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// say writes one progress line.
func (g *Group) say(line string) { _, _ = g.console.Write([]byte(line + "\n")) } // nobody is left to tell
