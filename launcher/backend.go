package launcher

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBackend is returned for a backend that this version cannot start.
var ErrBackend = errors.New("backend is not supported yet")

// Names of the backends.
const (
	BackendSGLang   = "sglang"
	BackendVLLM     = "vllm"
	BackendTRTLLM   = "trtllm"
	BackendLlamaCPP = "llamacpp"
	BackendCustom   = "custom"
	BackendSim      = "sim"
)

// Backends returns the names of the backends whose command lines are known. Which of
// them can be started depends on the connection mode: see [Config.CheckMode].
func Backends() []string {
	return []string{BackendSGLang, BackendVLLM, BackendTRTLLM, BackendLlamaCPP, BackendCustom, BackendSim}
}

// backend is how one kind of engine is started, under one configuration.
type backend struct {
	program string   // usual name of the engine's own executable
	bundled bool     // that is shipped beside this one
	python  bool     // an interpreter runs the engine
	command []string // the user's own command runs it

	needsModel bool
	modelFile  bool // the model is a file on this machine
	gpus       bool // each engine gets its own
	modes      []string

	owned ownedFlags
	// argv are the arguments that the launcher sets, which stand in front of the user's.
	argv func(p Place) []string
	// spell brings the user's arguments into the engine's spelling; nil leaves them.
	spell func(args []string) []string
	// sharing is how such engines share the work of requests; nil where they cannot.
	sharing func() (*sharing, error)
}

// backend is how c starts engines.
func (c Config) backend() (backend, error) {
	switch c.Backend {
	case BackendSGLang:
		return c.sglang(), nil
	case BackendVLLM:
		return c.vllm(), nil
	case BackendTRTLLM:
		return c.trtllm(), nil
	case BackendLlamaCPP:
		return c.llamacpp(), nil
	case BackendCustom:
		return c.custom(), nil
	case BackendSim:
		return c.sim(), nil
	}
	return backend{}, fmt.Errorf("--backend %s: %w; use one of %s", c.Backend, ErrBackend, strings.Join(Backends(), ", "))
}

// CommandLine is the whole command line of the engine at p: program, the launcher's
// own flags, those of the engine's role, then what the user gives to such engines,
// without the owned ones. It fails for what has no command line.
func (c Config) CommandLine(program string, p Place) ([]string, error) {
	b, err := c.backend()
	if err != nil {
		return nil, err
	}
	share, err := c.sharing(b)
	if err != nil {
		return nil, err
	}
	argv := append([]string{program}, b.argv(p)...)
	if share != nil {
		argv = append(argv, share.flags(p)...)
	}
	rest, _ := c.rest(b, share, p)
	return append(argv, rest...), nil
}

// sharing is how the engines of c share the work of requests, nil if they do not.
func (c Config) sharing(b backend) (*sharing, error) {
	if !c.HasRoles() {
		return nil, nil //nolint:nilnil // nothing is shared, which is no error
	}
	if b.sharing == nil {
		return nil, &LaunchError{
			what:   c.Backend + " has no prefill/decode roles",
			detail: []string{"--backend " + c.Backend},
			hint:   "use --backend " + strings.Join(sharingBackends(), ", ") + ", or --data-parallel-size for engines that do everything",
		}
	}
	return b.sharing()
}

// sharingBackends are those whose engines can have roles.
func sharingBackends() []string { return []string{BackendSGLang, BackendVLLM, BackendSim} }

// rest is what the user gives to the engine at p, in the engine's spelling, without
// the flags that the launcher sets itself, which dropped names.
func (c Config) rest(b backend, share *sharing, p Place) (rest, dropped []string) {
	args := c.argsOf(p.Role)
	if b.spell != nil {
		args = b.spell(args)
	}
	owned := b.owned
	if share != nil {
		owned = owned.and(share)
	}
	return owned.remove(args)
}

// NeedsModel says whether the engines cannot be started without a model.
func (c Config) NeedsModel() bool {
	b, err := c.backend()
	return err == nil && b.needsModel
}
