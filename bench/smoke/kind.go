package main

// kind is one of the subjects that are compared.
type kind int

// The subjects, in the order in which they are reported.
const (
	direct  kind = iota // an engine
	pair                // a prefill and a decode engine, both asked at once
	relayed             // the smallest relay in front of an engine
	gateway             // a gateway in front of an engine
	single              // a gateway in front of the pair, as one process
	split               // the same as several processes
	base                // another build of gateway or single, if one is given
	kinds
)

func (k kind) String() string {
	return [kinds]string{"direct", "direct pair", "relay", "gateway", "single topology", "split topology", "base"}[k]
}

// engines says whether k is what answers, and not something in front of it.
func (k kind) engines() bool { return k == direct || k == pair }

// routes says whether k is a gateway.
func (k kind) routes() bool { return k >= gateway }

// forRegular and forPair are the subjects of the two kinds of scenario; the first
// of them is what all others add to.
func forRegular(o *options) []kind { return withBase(o, direct, relayed, gateway) }

func forPair(o *options) []kind { return withBase(o, pair, relayed, single, split) }

func withBase(o *options, subjects ...kind) []kind {
	if o.base != "" {
		subjects = append(subjects, base)
	}
	return subjects
}
