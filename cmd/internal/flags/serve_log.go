package flags

import (
	"cmp"
	"slices"
	"strings"

	"smg/launcher"
)

// AsksForJSON says whether a command line asks for a log of JSON, even one that is not
// understood. env looks up a variable.
func AsksForJSON(args []string, env func(string) (string, bool)) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	flag := "--log-json"
	if len(args) > 0 && args[0] == nameServe {
		flag = "--" + routerPrefix + "log-json" // the other is an engine's
	}
	for _, a := range args {
		name, value, hasValue := strings.Cut(strings.ReplaceAll(a, "_", "-"), "=")
		if name == flag {
			return !hasValue || value == "true"
		}
	}
	v, _ := env(flagPrefix + "LOG_JSON")
	return v == "true"
}

// checkEngineLog refuses engines that write themselves where every line is to be JSON.
func (s *Serve) checkEngineLog(typed map[string]string) error {
	if !s.LogJSON || s.Engines.Log != launcher.LogRaw {
		return nil
	}
	return usage(cmp.Or(typed["engine-log"], "--engine-log raw"), "use --engine-log prefix, which makes JSON of the engines' lines, or --engine-log file",
		"with --router-log-json engines cannot write to the log themselves: their lines are no JSON")
}
