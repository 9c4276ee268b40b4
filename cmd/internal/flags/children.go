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
	return append(args, c.shared(nameIngress, "host", "port", "pd-disaggregation", "epd-disaggregation", "disable-retries",
		"worker-urls", "prefill", "decode", "encode")...)
}

// SelectorArgs are the flags of a child process that is the selector of a leg of c.
func (c *Command) SelectorArgs(leg worker.Leg, policy string) []string {
	args := []string{"--leg=" + leg.String(), "--policy=" + policy}
	if c.Launch.Breaker.Disabled {
		args = append(args, "--disable-circuit-breaker")
	}
	return append(args, c.shared(nameSelector, "leg", "policy", "disable-circuit-breaker")...)
}

// shared are the flags that were given to c and that the command of a child has as
// well, but for those that the child is given other values of.
func (c *Command) shared(command string, but ...string) []string {
	// The parent listens for its children, and has the metrics of all.
	but = append(but, "prometheus-host", "prometheus-port", "nats-url")
	s := newSet(command, Table())
	var args []string
	add := func(name, suffix string) {
		if c.Verb == RunServe {
			plain, ok := strings.CutPrefix(name, routerPrefix)
			if !ok {
				return // serve's own
			}
			name = plain
		}
		if s.lookup(name) != nil && !slices.Contains(but, name) {
			args = append(args, "--"+name+suffix)
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
