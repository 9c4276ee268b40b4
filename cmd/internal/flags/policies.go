package flags

import (
	"slices"

	"smg/policy"
)

// singlePolicy is the policy in front of one worker. Legs do not have it.
const singlePolicy = policy.Passthrough

// legPolicies are the policies that a prefill or decode leg may have.
func legPolicies() []string {
	return slices.DeleteFunc(policy.Names(), func(name string) bool { return name == singlePolicy })
}

// builtLegPolicies are those that this version has.
func builtLegPolicies() []string {
	return slices.DeleteFunc(legPolicies(), func(name string) bool { return !policy.Built(name) })
}

// encodePolicies are the policies that an encode leg may have.
func encodePolicies() []string {
	return []string{policy.Random, policy.RoundRobin, policy.ConsistentHashing}
}

// policyNote describes a policy in one line and names the flag that tunes it.
type policyNote struct {
	text string
	flag string // without dashes, empty where nothing is to be tuned
}

func noteOf(name string) policyNote {
	switch name {
	case policy.Random:
		return policyNote{text: "an available worker by chance"}
	case policy.RoundRobin:
		return policyNote{text: "the available workers in turn"}
	case policy.Passthrough:
		return policyNote{text: "always the first available worker, for a gateway in front of one"}
	case policy.ConsistentHashing:
		return policyNote{text: "by a hash of the routing key: one key stays on one worker", flag: "routing-key-headers"}
	case policy.CacheAware:
		return policyNote{text: "the worker that holds most of the prompt in its cache, unless it is overloaded"}
	case policy.PowerOfTwo:
		return policyNote{text: "the better of two workers drawn by chance"}
	case policy.LeastLoad:
		return policyNote{text: "the worker with the shortest expected wait"}
	case policy.PrefixHash:
		return policyNote{text: "by a hash of the prompt's head, with bounded load"}
	case policy.Manual:
		return policyNote{text: "remembers the worker of each routing key"}
	case policy.Bucket:
		return policyNote{text: "by prompt length, each prefill worker a range"}
	}
	return policyNote{}
}
