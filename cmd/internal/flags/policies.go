package flags

import (
	"fmt"
	"slices"
	"strings"

	"smg/policy"
)

// singlePolicy is the policy in front of one worker. Legs do not have it.
const singlePolicy = policy.Passthrough

// legPolicies are the policies that a prefill or decode leg may have.
func legPolicies() []string {
	return slices.DeleteFunc(policy.Names(), func(name string) bool { return name == singlePolicy })
}

// encodePolicies are the policies that an encode leg may have.
func encodePolicies() []string {
	return []string{policy.Random, policy.RoundRobin, policy.ConsistentHashing}
}

// stickySessions stands among the policies that a flag tunes: pins on top of any.
const stickySessions = "sticky sessions"

// noteOf describes a policy in one line.
func noteOf(name string) string {
	switch name {
	case policy.Random:
		return "an available worker by chance"
	case policy.RoundRobin:
		return "the available workers in turn"
	case policy.Passthrough:
		return "always the first available worker, for a gateway in front of one"
	case policy.CacheAware:
		return "the worker that holds most of the prompt in its cache, unless it is far busier than the others"
	case policy.PowerOfTwo:
		return "of two workers drawn by chance, the one with the shorter expected wait"
	case policy.LeastLoad:
		return "the worker with the shortest expected wait"
	case policy.PrefixHash:
		return "by a hash of the prompt's head, unless that worker is overloaded"
	case policy.ConsistentHashing:
		return "by a hash of the routing key: one key stays on one worker"
	case policy.Manual:
		return "remembers the worker of each routing key"
	case policy.Bucket:
		return "by prompt length, each prefill worker a range (prefill leg only)"
	}
	return ""
}

// policyList describes the policies and names the flags of s that tune them.
func policyList(s *set, width int) string {
	const indent = "                      "
	var out strings.Builder
	out.WriteString("Policies:\n")
	for _, name := range policy.Names() {
		text := noteOf(name)
		if name == policy.CacheAware {
			text += " (the default)"
		}
		fmt.Fprintf(&out, "  %-19s %s\n", name, strings.Join(wrap(text, width-len(indent)), "\n"+indent))
		if flags := s.tuning(name); flags != "" {
			fmt.Fprintf(&out, "%s%s\n", indent, strings.Join(wrap("tuned by "+flags, width-len(indent)), "\n"+indent))
		}
	}
	if e := s.lookup(s.prefixed("routing-key-override")); e != nil {
		text := "Sticky sessions (--" + e.name + ") keep a conversation on one worker on top of any of them; tuned by " + s.tuning(stickySessions)
		fmt.Fprintf(&out, "%s\n", strings.Join(wrap(text, width), "\n"))
	}
	out.WriteString("\n")
	return out.String()
}

// tuning lists the flags of s that tune a policy.
func (s *set) tuning(name string) string {
	var all []string
	for _, e := range s.entries {
		if slices.Contains(e.Tunes, name) {
			all = append(all, "--"+e.name)
		}
	}
	return strings.Join(all, ", ")
}
