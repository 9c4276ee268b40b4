package launcher

import (
	"context"
	"fmt"
	"time"
)

// progress reports the engines that are loading: on a terminal as one status line,
// elsewhere a line for each every LoadingInterval.
func (w *wait) progress(ctx context.Context) {
	gap := w.g.cfg.LoadingInterval
	if w.g.console.terminal && !w.g.cfg.JSON {
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
			w.g.reportLoading(w.waiting())
		}
	}
}

// reportStart tells that p was started.
func (g *Group) reportStart(p *Process) {
	p.log.Debug("engine command", "argv", p.argv)
	if g.cfg.JSON {
		log := p.log
		if port := p.place.BootstrapPort; port != 0 {
			log = log.With("bootstrap_port", port)
		}
		log.Info("engine started", "backend", g.cfg.Backend, "host", g.cfg.Host, "port", p.place.Port, "pid", p.PID())
		return
	}
	line := fmt.Sprintf("%s  pid %d  port %d", p.name, p.PID(), p.place.Port)
	if port := p.place.BootstrapPort; port != 0 {
		line += fmt.Sprintf("  bootstrap %d", port)
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
	if len(waiting) == 0 {
		return
	}
	first := loadingLine(waiting[0].p)
	if more := len(waiting) - 1; more > 0 {
		first += fmt.Sprintf("  (and %d more)", more)
	}
	if !g.cfg.JSON && g.console.setStatus(first) {
		return
	}
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

// clip keeps a status line on one line.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// inSeconds has a decimal where whole seconds would say nothing.
func inSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// say writes one progress line.
func (g *Group) say(line string) { _, _ = g.console.Write([]byte(line + "\n")) } // nobody is left to tell
