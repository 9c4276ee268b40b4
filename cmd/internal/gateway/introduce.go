package gateway

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/service"
	"smg/cmd/internal/terminal"
	"smg/cmd/internal/version"
)

// Introduce says what is being started.
func (g *Gateway) Introduce() {
	con, cfg := g.con, g.cfg
	legs := Legs(cfg)
	if con.JSON {
		args := []any{
			slog.String("version", version.String()), slog.String("mode", cfg.Mode.String()), slog.String("topology", g.topology()),
			slog.String("bus", g.bus()), slog.String("api", g.API()), slog.String("metrics", g.Metrics()),
		}
		for _, l := range legs {
			args = append(args, slog.Group(l.Name, slog.String("policy", g.policy(l)), slog.Any("workers", l.Workers)))
		}
		con.Log.Info("startup", args...)
		con.Remarks(g.cmd)
		return
	}
	mode := cfg.Mode.String()
	if cfg.EnableIGW {
		mode += "   multi-model"
	}
	if t := g.topology(); t != flags.Single.String() {
		mode += "   " + t
	}
	con.Say("%s\nmode      %s", version.Line("smg"), mode)
	for _, l := range legs {
		line := fmt.Sprintf("%-9s %s   policy %s   %s", l.Name, terminal.Counted(len(l.Workers), "worker"), g.policy(l), terminal.Abridged(l.Workers))
		con.Say("%s", strings.TrimRight(line, " "))
	}
	con.Say("bus       %s\napi       %s     metrics %s", g.bus(), g.API(), g.Metrics())
	con.Remarks(g.cmd)
	if n := named(cfg); n > 0 {
		con.Say("waiting   for %s (asked every %s, for up to %s)", terminal.Counted(n, "worker"), terminal.Plain(cfg.WorkerStartupCheckInterval), terminal.Plain(cfg.WorkerStartupTimeout))
	} else {
		con.Say("note      no worker is named: until one is added (POST /workers), every request is answered with 404")
	}
}

// topology says which services run here.
func (g *Gateway) topology() string {
	if g.cmd.Verb == flags.RunIngress {
		return "the ingress alone"
	}
	return g.cfg.Topology.String()
}

// bus says where the services meet, without what is secret.
func (g *Gateway) bus() string {
	b := g.cfg.Bus
	switch {
	case b.External():
		return "NATS at " + b.Servers() + ", cluster " + g.cfg.Cluster
	case b.Listen != "":
		return "embedded NATS at " + b.Listen + ", cluster " + g.cfg.Cluster
	case g.cfg.Topology == flags.Split:
		return "embedded NATS, for child processes"
	}
	return "embedded NATS, in process"
}

// policy is a leg's, if it is known here.
func (g *Gateway) policy(l Leg) string {
	if g.cmd.Verb == flags.RunIngress {
		return "of its selectors"
	}
	return l.Policy
}

// named is how many workers the command line names.
func named(cfg *flags.Launch) int {
	n := 0
	for _, l := range Legs(cfg) {
		n += len(l.Workers)
	}
	return n
}

// ReportReady says that every worker answers.
func (g *Gateway) ReportReady(r Ready) {
	con := g.con
	took := r.Took.Round(time.Millisecond)
	if con.JSON {
		con.Log.Info("ready", slog.Int("workers", r.Workers), slog.Duration("took", took))
		return
	}
	con.Say("ready     %d of %s, took %s", r.Workers, terminal.Counted(max(named(g.cfg), r.Workers), "worker"), took)
}

// Ingress runs the ingress command until a signal comes and returns the exit code.
func Ingress(cmd *flags.Command) int {
	con, err := terminal.NewConsole(cmd)
	if err != nil {
		return con.Fail(err)
	}
	g, err := Bind(cmd, con)
	if err != nil {
		return con.Fail(err)
	}
	sig := terminal.WatchSignals(con.Log)
	defer sig.Stop()
	sig.OnSecond(g.Hurry)
	ready := func(Ready) {}
	if !service.IsChild() { // a parent speaks for its children
		g.Introduce()
		ready = g.ReportReady
	}
	return con.Fail(g.Run(sig.Context(), nil, ready))
}
