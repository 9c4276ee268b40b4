package flags

import (
	"fmt"
	"strings"
	"time"
)

// Models is which models are served, and by which names, and how their workers leave.
type Models struct {
	// DrainSettle is how long a worker that is removed has for its requests before it
	// leaves, 0 is not at all. RemoveUnhealthy has one removed that stays unhealthy.
	DrainSettle     time.Duration
	RemoveUnhealthy bool
	// Aliases are other names of models, in the order given.
	Aliases []ModelAlias
}

// ModelAlias is another name of a model.
type ModelAlias struct{ Name, Model string }

// setAlias reads alias=model.
func setAlias(s *Serve, v string) error {
	name, model, ok := strings.Cut(v, "=")
	if !ok || name == "" || model == "" || name == model {
		return fmt.Errorf("%q is not ALIAS=MODEL, two names that differ, such as gpt-4o=llama-3", v)
	}
	s.Models.Aliases = append(s.Models.Aliases, ModelAlias{name, model})
	return nil
}

// modelTable defines the flags of [Models], and that of a fleet that comes and goes.
func modelTable() []Def {
	return []Def{
		{
			Name: "enable-igw", Kind: Bool, Group: groupPolicy, In: serving,
			Help: "Serve each model as its workers can, regular or prefill and decode; workers come and go, and fewer than the policy needs are enough to start.",
			set:  setBool(func(s *Serve) *bool { return &s.EnableIGW }),
		},
		{
			Name: "model-alias", Kind: Repeated, Value: "ALIAS=MODEL", Group: groupWorkers, In: serving,
			Help:  "Another name that requests may call a model by; the names that workers bring come first. May be given several times.",
			set:   setAlias,
			clear: func(s *Serve) { s.Models.Aliases = nil },
		},
		{
			Name: "drain-settle-secs", Kind: Scalar, Value: "SECS", Default: "5", Group: groupWorkers, In: serving,
			Help: "How long a worker that is removed is kept, without new requests, for those that it has; 0 removes it at once.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Models.DrainSettle }, 0),
		},
		{
			Name: "remove-unhealthy-workers", Aliases: []string{"worker-auto-recovery"}, Kind: Bool, Group: groupHealth, In: serving,
			Help: "Remove a worker whose probes go on to fail; POST /workers adds it again.",
			set:  setBool(func(s *Serve) *bool { return &s.Models.RemoveUnhealthy }),
		},
	}
}
