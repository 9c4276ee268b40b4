package worker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Connectors of vLLM that are spoken to in ways of their own. Workers with any other
// one find each other's KV without being told.
const (
	NixlConnector     = "NixlConnector"
	MooncakeConnector = "MooncakeConnector"
	// MooncakeFound is that of a prefill worker which names none, but whose bootstrap
	// server answers as Mooncake's does.
	MooncakeFound = MooncakeConnector + " (found)"
)

// GroupLabel is the label of workers that hand over only within a group.
const GroupLabel = "pair_group"

// Class is with whom a worker can share the work of a request: workers of one class
// can hand over to each other.
type Class struct {
	Runtime   Runtime
	Connector string // vLLM's alone
	Group     string // "" is everybody's
	Transport string // how its engine is spoken to: "" for HTTP, else [Mode.String]
}

// Class is the worker's. A vLLM worker that names no connector counts as one with
// NIXL: how it was started cannot be asked over HTTP. So does a prefill worker whose
// connector was found, since that of its decode workers cannot be.
func (s *Spec) Class() Class {
	c := Class{Runtime: s.Runtime, Group: s.Labels[GroupLabel]}
	if s.Runtime == VLLM {
		c.Connector = s.KVConnector
		if c.Connector == "" || c.Connector == MooncakeFound {
			c.Connector = NixlConnector
		}
	}
	if s.Mode != HTTP {
		c.Transport = s.Mode.String()
	}
	return c
}

// String names the class to people.
func (c Class) String() string {
	var b strings.Builder
	b.WriteString(string(c.Runtime))
	if c.Connector != "" {
		b.WriteString(" with " + c.Connector)
	}
	if c.Transport != "" && c.Transport != HTTP.String() {
		b.WriteString(" over " + c.Transport)
	}
	if c.Group != "" {
		b.WriteString(" in group " + c.Group)
	}
	return b.String()
}

// Fit narrows who may be picked. Parts that are empty fit everybody; those who are spoken
// to over HTTP alone have the transport "http".
type Fit struct {
	Class  Class
	Groups []string // one of these, beside Class.Group
}

// Admits says whether a worker of class c fits. A nil Fit admits everybody.
func (f *Fit) Admits(c Class) bool {
	if f == nil {
		return true
	}
	fits := func(want, has string) bool { return want == "" || want == has }
	if !fits(f.Class.Transport, cmp.Or(c.Transport, HTTP.String())) {
		return false
	}
	return fits(string(f.Class.Runtime), string(c.Runtime)) && fits(f.Class.Connector, c.Connector) && fits(f.Class.Group, c.Group) &&
		(len(f.Groups) == 0 || slices.Contains(f.Groups, c.Group))
}

// Like is the fit of those who are of just this class.
func Like(c Class) *Fit {
	f := &Fit{Class: c, Groups: []string{c.Group}}
	f.Class.Group = "" // which would be everybody's
	f.Class.Transport = cmp.Or(c.Transport, HTTP.String())
	return f
}

// ErrMismatch is why nobody was picked although somebody is available: nobody who is
// fits.
var ErrMismatch = errors.New("no worker that is available fits the other leg's")

// Mismatch is the [ErrMismatch] that says whom there is.
type Mismatch struct{ Classes []Class }

// Error implements error.
func (m *Mismatch) Error() string {
	names := make([]string, len(m.Classes))
	for i, c := range m.Classes {
		names[i] = c.String()
	}
	return fmt.Sprintf("%v: there is %s", ErrMismatch, strings.Join(names, ", "))
}

// Is says whether target is [ErrMismatch].
func (m *Mismatch) Is(target error) bool { return target == ErrMismatch }
