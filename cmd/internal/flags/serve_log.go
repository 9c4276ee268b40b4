package flags

import (
	"cmp"

	"smg/launcher"
)

// checkEngineLog refuses engines that write themselves where every line is to be JSON.
func (s *Serve) checkEngineLog(typed map[string]string) error {
	if !s.LogJSON || s.Engines.Log != launcher.LogRaw {
		return nil
	}
	return usage(cmp.Or(typed["engine-log"], "--engine-log raw"), "use --engine-log prefix, which makes JSON of the engines' lines, or --engine-log file",
		"with --router-log-json engines cannot write to the log themselves: their lines are no JSON")
}
