package flags

import (
	"slices"
	"strconv"
	"strings"

	"smg/worker"
)

// IngressArgs are the flags of a child process that is the ingress of c, whose
// workers somebody else registers. Where its bus is it is told by SMG_NATS_URL.
func (c *Command) IngressArgs() []string {
	l := c.Launch
	// It inherits a listener for its metrics. The default port may be the API's.
	args := []string{"--host=" + l.Host, "--port=" + strconv.Itoa(l.Port), "--prometheus-port=0"}
	switch l.Mode {
	case PD:
		args = append(args, "--pd-disaggregation")
	case EPD:
		args = append(args, "--epd-disaggregation")
	case Regular:
	}
	if l.Retry.Disabled {
		args = append(args, "--disable-retries")
	}
	return append(args, c.shared(newSet(nameIngress, Table()), "host", "port", "pd-disaggregation", "epd-disaggregation", "disable-retries",
		"worker-urls", "prefill", "decode", "encode", "health-check-port")...)
}

// SelectorArgs are the flags of a child process that is the selector of a leg of c.
func (c *Command) SelectorArgs(leg worker.Leg, policy string) []string {
	args := []string{"--leg=" + leg.String(), "--policy=" + policy}
	if c.Launch.Breaker.Disabled {
		args = append(args, "--disable-circuit-breaker")
	}
	return append(args, c.shared(newSet(nameSelector, Table()), "leg", "policy", "disable-circuit-breaker")...)
}

// IngressSecrets are the flags of the same child that nobody is to read off its command
// line, as variables.
func (c *Command) IngressSecrets() []string { return c.secrets(newSet(nameIngress, Table())) }

// SelectorSecrets are those of a selector.
func (c *Command) SelectorSecrets() []string { return c.secrets(newSet(nameSelector, Table())) }

// shared are the flags that were given to c and that the command of a child has as
// well, but for those that the child is given other values of, and for secrets.
func (c *Command) shared(s *set, but ...string) []string {
	// The parent listens for its children, and has the metrics and the lines of all.
	but = append(but, "prometheus-host", "prometheus-port", "log-dir", "pprof-addr")
	var args []string
	add := func(name, suffix string) {
		if e := c.inherited(s, name); e != nil && !e.Secret && !slices.Contains(but, e.Name) {
			args = append(args, "--"+e.Name+suffix)
		}
	}
	for _, g := range c.given.flags {
		add(g.name, "="+g.value)
	}
	for _, name := range c.given.empty {
		add(name, "")
	}
	return args
}

// secrets are the variables that give a child what c was given. Where the bus is, the
// parent says itself.
func (c *Command) secrets(s *set) []string {
	var env []string
	for _, g := range c.given.flags {
		if e := c.inherited(s, g.name); e != nil && e.Secret && e.Name != "nats-url" {
			env = append(env, e.FlagEnv()+"="+g.value)
		}
	}
	return env
}

// inherited is a flag of c as the command of a child has it, or nil.
func (c *Command) inherited(s *set, name string) *entry {
	if c.Verb == RunServe {
		plain, ok := strings.CutPrefix(name, routerPrefix)
		if !ok {
			return nil // serve's own
		}
		name = plain
	}
	return s.lookup(name)
}
