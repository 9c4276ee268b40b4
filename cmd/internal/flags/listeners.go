package flags

import (
	"net"
	"strconv"
)

// listener is an address that is listened on.
type listener struct {
	flag  string // with its dashes and prefix
	value string // as a message shows it
	port  int
}

// listeners are those of l that have a port of their own, the API's first. prefix is
// what the flags of the gateway carry.
func (l *Launch) listeners(prefix string) []listener {
	all := []listener{
		{"--port", strconv.Itoa(l.Port), l.Port},
		{"--" + prefix + "prometheus-port", strconv.Itoa(l.PrometheusPort), l.PrometheusPort},
		{"--" + prefix + "health-check-port", strconv.Itoa(l.Trace.HealthPort), l.Trace.HealthPort},
		{"--" + prefix + "nats-listen", l.Bus.Listen, portOf(l.Bus.Listen)},
		{"--" + prefix + "pprof-addr", l.Trace.PprofAddr, portOf(l.Trace.PprofAddr)},
	}
	var out []listener
	for _, x := range all {
		if x.port > 0 {
			out = append(out, x)
		}
	}
	return out
}

// portOf is the port of an address, 0 if it has none.
func portOf(address string) int {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}

// checkListeners refuses two on one port.
func (l *Launch) checkListeners(c *checker) {
	all := l.listeners(c.prefix)
	for i, x := range all {
		for _, before := range all[:i] {
			if x.port == before.port {
				c.addWhere(c.as(x.flag, x.value)+" and "+c.as(before.flag, before.value), "change one of them", "two listeners cannot share a port")
			}
		}
	}
}
