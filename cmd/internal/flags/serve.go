package flags

import (
	"cmp"
	"strings"

	"github.com/hashicorp/go-multierror"

	"smg/launcher"
)

// Serve is the configuration of serve: engines, and the gateway in front of them.
type Serve struct {
	// Launch is built from the --router- flags, but for Mode, which follows from the
	// engines. The workers are empty: they are the engines, in the order of their start.
	Launch
	// ConnectionMode is how the gateway speaks to the engines.
	ConnectionMode string
	// Engines is complete but for Color, which depends on the terminal.
	Engines launcher.Config
	// Replay is what the flags of replay say, and nothing in serve.
	Replay Replay
}

// DefaultServe is serve without any flag; its backend needs a model.
func DefaultServe() Serve {
	s := defaults(InRouter | InServe)
	s.settle()
	return *s
}

// engineDefaults is where the table's values go. The search paths and time limits
// that have no flag come from here.
func engineDefaults() launcher.Config { return launcher.DefaultConfig() }

// SingleWorker says that one engine stands behind the gateway, so that there is
// nothing to balance: the policy is passthrough.
func (s *Serve) SingleWorker() bool { return !s.Engines.HasRoles() && s.Engines.Replicas <= 1 }

// PolicyLine is the policy as the start-up lines show it.
func (s *Serve) PolicyLine() string {
	if s.SingleWorker() {
		return "passthrough (one worker; --router-policy, retries and circuit breaker do not apply)"
	}
	var each []string
	for _, leg := range s.legs() {
		each = append(each, leg.name()+" "+leg.policy)
	}
	return cmp.Or(strings.Join(each, ", "), s.Policy)
}

// finish settles what follows from the flags together and refuses, with exit code
// 2, what the command line alone makes impossible.
func (s *Serve) finish(typed map[string]string) (notices []string, err error) {
	if err := s.finishEngines(typed); err != nil {
		return nil, err
	}
	if err := s.finishRoles(typed); err != nil {
		return nil, err
	}
	s.Engines.ReservedPorts = s.reservedPorts()
	s.Engines.JSON = s.LogJSON
	if s.SingleWorker() {
		notices = s.finishSingle(typed)
	}
	return notices, nil
}

// reservedPorts are those that engines must not take: others listen there, now or
// soon.
func (s *Serve) reservedPorts() []int {
	var ports []int
	for _, l := range s.listeners(routerPrefix) {
		ports = append(ports, l.port)
	}
	return ports
}

// checkServe reports every fault of s.
func (s *Serve) checkServe(c *checker, rule URLRule) {
	s.check(c, rule, s.headcount())
	c.checkHost("--worker-host", "--worker-base-port", s.Engines.Host)
	if err := s.Engines.CheckGPUs(); err != nil {
		c.faults = multierror.Append(c.faults, launchFault(err, ExitFailure))
	}
}
