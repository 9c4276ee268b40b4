package flags

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"smg/policy"
	"smg/worker"
)

// Mode is how the work of a request is divided among workers.
type Mode uint8

// The modes, the later one wins where two are asked for.
const (
	// Regular workers do all of it.
	Regular Mode = iota
	// PD has a prefill and a decode leg.
	PD
	// EPD has an encode leg for media too.
	EPD
)

// String is the mode as start-up lines show it.
func (m Mode) String() string {
	switch m {
	case PD:
		return "prefill/decode"
	case EPD:
		return "encode/prefill/decode"
	}
	return "regular"
}

// LegWorker is a worker of the prefill or encode leg.
type LegWorker struct {
	URL string
	// BootstrapPort is where other engines meet it, 0 for none. Before Validate it may
	// be below 0: a port that Validate refuses.
	BootstrapPort int
}

// zeroPort stands for a port 0 that was typed.
const zeroPort = -1

// isBootstrapPort says whether the token behind a URL is its bootstrap port.
func isBootstrapPort(token string) bool {
	_, err := strconv.ParseUint(token, 10, 16)
	return err == nil || strings.EqualFold(token, "none")
}

// parseLegWorker reads a URL and, behind a blank, a bootstrap port. The URL is
// judged later.
func parseLegWorker(value string) LegWorker {
	i := strings.LastIndexByte(value, ' ')
	if i < 0 || !isBootstrapPort(value[i+1:]) {
		return LegWorker{URL: value}
	}
	port, err := strconv.Atoi(value[i+1:])
	if err == nil && port == 0 {
		port = zeroPort
	}
	return LegWorker{URL: value[:i], BootstrapPort: port}
}

func (w LegWorker) redacted() string {
	switch {
	case w.BootstrapPort < 0:
		return redact(w.URL) + " 0"
	case w.BootstrapPort > 0:
		return redact(w.URL) + " " + strconv.Itoa(w.BootstrapPort)
	}
	return redact(w.URL)
}

// isLegFlag says whether the flag, with or without serve's prefix, gives the legs
// and their workers, which is launch's alone.
func isLegFlag(name string) bool {
	switch strings.TrimPrefix(name, routerPrefix) {
	case "pd-disaggregation", "epd-disaggregation", "prefill", "decode", "encode":
		return true
	}
	return false
}

// leg is one leg as the flags describe it.
type leg struct {
	kind      worker.Leg
	workers   []LegWorker
	policy    string
	policySet bool
}

// name is that of the leg and of the flag of its workers.
func (l leg) name() string { return l.kind.String() }

// legs are those that the mode has.
func (l *Launch) legs() []leg {
	switch l.Mode {
	case PD:
		return l.allLegs()[1:]
	case EPD:
		return l.allLegs()
	}
	return nil
}

// allLegs are the three legs, whatever the mode.
func (l *Launch) allLegs() []leg {
	decode := make([]LegWorker, len(l.Decode))
	for i, url := range l.Decode {
		decode[i].URL = url
	}
	return []leg{
		{worker.Encode, l.Encode, l.EncodePolicy, true}, // it never inherits
		{worker.Prefill, l.Prefill, l.PrefillPolicy, l.PrefillPolicySet},
		{worker.Decode, decode, l.DecodePolicy, l.DecodePolicySet},
	}
}

// defaultOverloadUsage is the share of the KV cache at which a worker is overloaded
// where that is not given.
const defaultOverloadUsage = 0.9

// settle fills in what follows from other values.
func (l *Launch) settle() {
	if l.Leg == worker.Encode && !l.PolicySet {
		l.Policy = l.EncodePolicy
	}
	l.PrefillPolicy = cmp.Or(l.PrefillPolicy, l.Policy)
	l.DecodePolicy = cmp.Or(l.DecodePolicy, l.Policy)
	l.Policies.Pins.Assignment = cmp.Or(l.Policies.Pins.Assignment, policy.AssignRandom)
	l.Policies.Sticky.Assignment = cmp.Or(l.Policies.Sticky.Assignment, policy.AssignDelegate)
	if l.OverloadProtection && l.OverloadTokenUsage == 0 {
		l.OverloadTokenUsage = defaultOverloadUsage
	}
	if l.Retry.Disabled {
		l.Retry.Max = 1
	}
}

// legRemarks are the start-up lines about legs. prefix is what the flags of the
// gateway carry.
func (l *Launch) legRemarks(prefix string) (notices, warnings []string) {
	if l.Mode == Regular {
		for _, leg := range l.allLegs()[1:] {
			if leg.policySet {
				warnings = append(warnings, fmt.Sprintf("--%s%s-policy is not used: there is no %s leg", prefix, leg.name(), leg.name()))
			}
		}
		return nil, warnings
	}
	switch {
	case l.PrefillPolicySet && l.DecodePolicySet && l.PolicySet:
		warnings = append(warnings, fmt.Sprintf("--%spolicy %s is not used: both legs have a policy of their own", prefix, l.Policy))
	case l.PrefillPolicySet != l.DecodePolicySet:
		notices = append(notices, fmt.Sprintf("one leg has a policy of its own: prefill %s, decode %s", l.PrefillPolicy, l.DecodePolicy))
	}
	if len(l.WorkerURLs) > 0 {
		warnings = append(warnings, fmt.Sprintf("--worker-urls is not used in %s mode", l.Mode))
	}
	return notices, warnings
}

// checkLegs refuses workers that no leg takes, and what is wrong with the others.
func (l *Launch) checkLegs(c *checker, rule URLRule) {
	seen := map[string]bool{}
	for _, leg := range l.allLegs() {
		for i, w := range leg.workers {
			c.checkURL(leg.name(), w.URL, w.redacted(), rule, seen)
			if w.BootstrapPort < 0 {
				c.add(leg.name(), w.redacted(), "write a port 1..65535 or 'none'", "a bootstrap port must be 1 or more")
			}
			if i == 0 {
				l.checkMode(c, leg)
			}
		}
	}
}

// checkMode refuses a leg that has workers but no place in the mode.
func (l *Launch) checkMode(c *checker, leg leg) {
	switch {
	case leg.kind == worker.Encode && l.Mode != EPD:
		c.add(leg.name(), leg.workers[0].redacted(), "did you forget --epd-disaggregation?", "there is no encode leg")
	case l.Mode == Regular && len(l.Encode) > 0:
		c.add(leg.name(), leg.workers[0].redacted(), "did you forget --epd-disaggregation?", "there is no %s leg", leg.name())
	case l.Mode == Regular:
		c.add(leg.name(), leg.workers[0].redacted(), "did you forget --pd-disaggregation?", "there is no %s leg", leg.name())
	}
}
