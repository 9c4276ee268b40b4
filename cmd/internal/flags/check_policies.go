package flags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"smg/policy"
	"smg/worker"
)

// PolicyConfig is the policy called name with the settings that the flags give it.
func (l *Launch) PolicyConfig(name string) policy.Config {
	c := l.Policies
	c.Policy = name
	c.Boundaries = slices.Clone(c.Boundaries)
	return c
}

// headcount is how many workers there are at start.
type headcount map[worker.Leg]int

func (n headcount) total() int {
	total := 0
	for _, of := range n {
		total += of
	}
	return total
}

// headcount counts the workers that the flags name, of the legs that the mode has.
func (l *Launch) headcount() headcount {
	switch l.Mode {
	case PD:
		return headcount{worker.Prefill: len(l.Prefill), worker.Decode: len(l.Decode)}
	case EPD:
		return headcount{worker.Encode: len(l.Encode), worker.Prefill: len(l.Prefill), worker.Decode: len(l.Decode)}
	case Regular:
	}
	return headcount{worker.Regular: len(l.WorkerURLs)}
}

// headcount counts the engines that will be started.
func (s *Serve) headcount() headcount {
	if s.Engines.HasRoles() {
		return headcount{worker.Encode: s.Engines.Encode, worker.Prefill: s.Engines.Prefill, worker.Decode: s.Engines.Decode}
	}
	return headcount{worker.Regular: s.Engines.Replicas}
}

// checkPolicies refuses policies that a leg cannot have, too few workers for them,
// and settings out of range. n are the workers.
func (l *Launch) checkPolicies(c *checker, n headcount) {
	if l.DecodePolicySet && l.DecodePolicy == policy.Bucket {
		c.add("decode-policy", l.DecodePolicy, decodePolicyHint(), "bucket serves the prefill leg only: use --%sprefill-policy bucket", c.prefix)
	}
	if l.Mode == EPD && !l.DecodePolicySet && l.DecodePolicy == policy.Bucket {
		c.add("policy", l.Policy, "add --"+c.prefix+"decode-policy, such as power_of_two", "bucket serves the prefill leg only, and the decode leg inherits it")
	}
	l.checkTwo(c, n)
	c.checkSettings(l.PolicyConfig(l.Policy))
	for _, leg := range l.legs() {
		if leg.policySet {
			c.checkSettings(l.PolicyConfig(leg.policy))
		}
	}
}

// decodePolicyHint says what the decode leg can have.
func decodePolicyHint() string {
	all := slices.DeleteFunc(legPolicies(), func(name string) bool { return name == policy.Bucket })
	return "for the decode leg use one of " + strings.Join(all, ", ")
}

// checkTwo refuses power_of_two where there are no two workers to choose from. In PD
// that holds for legs that were given it, in EPD for those that inherit it too.
func (l *Launch) checkTwo(c *checker, n headcount) {
	if l.EnableIGW {
		return
	}
	tooFew := l.Policy == policy.PowerOfTwo && n.total() < 2
	if tooFew {
		hint := "add another worker, use --" + c.prefix + "policy passthrough for one worker"
		if l.Mode != Regular {
			hint = "add workers"
		}
		c.add("policy", l.Policy, hint+", or --"+c.prefix+"enable-igw for workers that come later",
			"power_of_two needs 2 workers, there %s", counted(n.total()))
	}
	for _, leg := range l.legs() {
		if leg.policy != policy.PowerOfTwo || n[leg.kind] >= 2 {
			continue
		}
		flag := leg.name() + "-policy"
		switch {
		case leg.policySet:
		case l.Mode == EPD && !tooFew:
			flag = "policy"
		default:
			continue
		}
		more := "add another --" + leg.name()
		if c.prefix != "" {
			more = "raise --" + leg.name() + "-replicas"
		}
		c.add(flag, leg.policy, fmt.Sprintf("%s, or use --%s%s-policy least_load, or --%senable-igw", more, c.prefix, leg.name(), c.prefix),
			"power_of_two needs 2 workers, on the %s leg there %s", leg.name(), counted(n[leg.kind]))
	}
}

func counted(workers int) string {
	if workers == 1 {
		return "is 1"
	}
	return "are none"
}

// checkSettings reports what policy finds wrong with the settings of one policy, by
// the flags as they are typed here. What several policies share is reported once.
func (c *checker) checkSettings(cfg policy.Config) {
	for _, err := range leaves(cfg.Validate()) {
		bad, ok := errors.AsType[*policy.SettingError](err)
		if !ok {
			c.add("policy", cfg.Policy, "", "%s", err.Error()) // a name that the flag's parser has refused
			continue
		}
		where := "--" + c.prefix + bad.Flag + " " + bad.Value
		if !slices.ContainsFunc(leaves(c.faults.ErrorOrNil()), func(o error) bool {
			f, ok := errors.AsType[*Fault](o)
			return ok && f.Where == where
		}) {
			c.add(bad.Flag, bad.Value, "", "%s", strings.ReplaceAll(bad.Rule, "--", "--"+c.prefix))
		}
	}
}

// policyWarnings are the start-up warnings about policies that do little with the
// workers they have. prefix is what the flags of the gateway carry.
func (l *Launch) policyWarnings(prefix string, n headcount) []string {
	var out []string
	flag := "--" + prefix + "policy "
	switch {
	case l.Policy != policy.Bucket:
	case l.Mode == PD && !l.DecodePolicySet:
		out = append(out, flag+"bucket: the decode leg inherits it without its buckets and picks workers at random; give it a policy with --"+prefix+"decode-policy")
	case l.Mode == Regular && l.Leg != worker.Prefill:
		out = append(out, flag+"bucket has its buckets on a prefill leg only; here it picks workers at random")
	}
	several := n[worker.Regular] > 1
	for _, leg := range l.legs() {
		several = several || leg.policy == policy.Passthrough && n[leg.kind] > 1
	}
	if l.Policy == policy.Passthrough && several {
		out = append(out, flag+"passthrough sends every request to the first available worker; the others wait until it is not")
	}
	return out
}
