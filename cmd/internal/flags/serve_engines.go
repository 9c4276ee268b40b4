package flags

import (
	"errors"
	"slices"
	"strings"

	"smg/launcher"
)

// finishEngines refuses, with exit code 2, engines that cannot be started.
func (s *Serve) finishEngines(typed map[string]string) error {
	e := &s.Engines
	where, chosen := typed["backend"]
	if !chosen {
		where = "--backend " + e.Backend + " (the default)"
	}
	if !slices.Contains(launcher.Backends(), e.Backend) {
		return usage(where, "use one of "+strings.Join(startable(), ", "), "backend %s is not supported yet", e.Backend)
	}
	if _, ok := typed["connection-mode"]; !ok {
		s.ConnectionMode = launcher.DefaultMode(e.Backend)
	}
	e.Mode = s.ConnectionMode
	if err := e.CheckMode(); err != nil {
		return launchFault(err, ExitUsage)
	}
	if err := s.finishPrograms(typed); err != nil {
		return err
	}
	if e.Model == "" && e.NeedsModel() {
		hint := "add --model MODEL, a name or a folder"
		if e.Backend == launcher.BackendLlamaCPP {
			hint = "add --model FILE, a GGUF file"
		}
		if slices.Contains(e.EngineArgs, "-m") {
			hint = "write --model instead of -m: the launcher has to know it"
		}
		if !chosen {
			hint += ", or choose other engines with --backend"
		}
		return usage(where, hint, "--model is required")
	}
	if err := e.CheckSizes(); err != nil {
		return launchFault(err, ExitUsage)
	}
	return nil
}

// finishPrograms refuses ways to find the engine's program that this kind of engine
// does not have. What variables say is for the engines that it fits.
func (s *Serve) finishPrograms(typed map[string]string) error {
	for _, f := range []struct {
		flag     string
		backends []string
	}{
		{"engine-bin", []string{launcher.BackendLlamaCPP, launcher.BackendSim}},
		{"engine-python", []string{launcher.BackendSGLang, launcher.BackendVLLM, launcher.BackendTRTLLM}},
		{"engine-cmd", []string{launcher.BackendCustom}},
	} {
		if where := typed[f.flag]; strings.HasPrefix(where, "--") && !slices.Contains(f.backends, s.Engines.Backend) {
			return usage(where, "leave it out, or choose other engines with --backend",
				"--%s is for --backend %s", f.flag, strings.Join(f.backends, ", "))
		}
	}
	if s.Engines.Backend == launcher.BackendCustom && len(s.Engines.EngineCmd) == 0 {
		return usage("--backend custom", "add --engine-cmd 'PROGRAM --port {port}'", "--engine-cmd is required")
	}
	return nil
}

// startable are the backends whose engines the gateway can speak to.
func startable() []string {
	return slices.DeleteFunc(launcher.Backends(), func(name string) bool { return launcher.DefaultMode(name) != launcher.ModeHTTP })
}

// launchFault is what the launcher refuses, as a fault of the command line.
func launchFault(err error, code int) *Fault {
	fault := &Fault{What: err.Error(), Code: code}
	if e, ok := errors.AsType[*launcher.LaunchError](err); ok {
		fault.Where, fault.Hint = strings.Join(e.Detail(), ", "), e.Hint()
	}
	return fault
}

// setBackend takes the name of a kind of engines. Those that cannot be started yet are
// refused later, with where the name comes from.
func setBackend(s *Serve, v string) error {
	if !slices.Contains(knownBackends(), v) {
		return noChoice(startable(), "%q is not a known backend", v)
	}
	s.Engines.Backend = v
	return nil
}
